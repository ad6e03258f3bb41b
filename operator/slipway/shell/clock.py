"""The process's clock: the wall's time at the start, carried on by a clock that never steps.

A wall clock that is set forward must not end anybody's wait, and one that is set back must not prolong it.
"""

import time
from datetime import UTC, datetime, timedelta


class Clock:
    """Reads both clocks once and only the monotonic one from then on."""

    def __init__(self) -> None:
        self._wall = datetime.fromtimestamp(time.time(), UTC)  # noqa: TID251
        self._start = time.monotonic()

    def now(self) -> datetime:
        """The moment in UTC."""
        return self._wall + timedelta(seconds=time.monotonic() - self._start)

    def monotonic(self) -> float:
        """Monotonic seconds, the event loop's own."""
        return time.monotonic()

    def at(self, moment: datetime) -> float:
        """Monotonic seconds of a moment in UTC."""
        return self._start + (moment - self._wall).total_seconds()

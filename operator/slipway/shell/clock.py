"""The API server's time, read off its answers and carried on by a clock that never steps.

Decisions compare moments that the cluster wrote with the present one, so both must be of one clock: whether a pod went
before or after we asked for it must not depend on how well this machine's clock is set. A wall clock that is set
forward must not end anybody's wait either, and one that is set back must not prolong it.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

_SECOND: Final = timedelta(seconds=1)


class Clock:
    """Begins with the machine's own time and is put right by what the API server says."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,  # noqa: TID251
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wall` gives seconds since the epoch and is read once; `monotonic` is the event loop's clock."""
        self._wall = datetime.fromtimestamp(wall(), UTC)
        self.monotonic: Final = monotonic
        """Monotonic seconds, the event loop's own."""
        self._start = monotonic()

    def now(self) -> datetime:
        """The moment in UTC."""
        return self._wall + timedelta(seconds=self.monotonic() - self._start)

    def at(self, moment: datetime) -> float:
        """Monotonic seconds of a moment in UTC."""
        return self._start + (moment - self._wall).total_seconds()

    def heard(self, date: datetime, asked: float) -> None:
        """The server has dated an answer to a question that was asked at `asked` (monotonic seconds).

        A date has whole seconds, so it only says between which two moments the present one lies.
        """
        earliest = date
        latest = date + _SECOND + timedelta(seconds=self.monotonic() - asked)
        self._wall += min(max(self.now(), earliest), latest) - self.now()

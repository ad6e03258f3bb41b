"""The API server's time, read off its answers and carried on by a clock that never goes back.

Decisions compare moments that the cluster wrote with the present one, so both must be of one clock: whether a pod went
before or after we asked for it must not depend on how well this machine's clock is set. A wall clock that is set
forward must not end anybody's wait either, and one that is set back must not prolong it.

API servers may disagree by seconds. The clock follows the one that is ahead: it moves forward as soon as an answer
shows that it is behind, and back only when many answers in a row, from whichever server, showed that it is ahead.
Once it is set, no single answer moves it far ahead either, unless the machine's own clock agrees, as after a sleep:
jobs would be deleted whose time to live is not over.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

_SECOND: Final = timedelta(seconds=1)
PATIENCE_SECONDS: Final = 60.0
ENOUGH_ANSWERS: Final = 10
"""The clock moves back, or far ahead, after as many answers, and as long, without one that agrees with it."""
LONGEST_STEP: Final = timedelta(seconds=60)
"""By how much a single answer moves the clock ahead."""

LONGEST_STOP: Final = timedelta(seconds=60)
"""A clock that was wrong by more goes back; until then it stands still, which keeps every wait from ending."""


class Clock:
    """Begins with the machine's own time and is put right by what the API server says."""

    def __init__(
        self,
        wall: Callable[[], float] = time.time,  # noqa: TID251
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`wall` gives the machine's seconds since the epoch; `monotonic` runs as fast as the event loop's clock."""
        self._machine = wall
        self._wall = datetime.fromtimestamp(wall(), UTC)
        self.monotonic: Final = monotonic
        """Monotonic seconds, as fast as the event loop's."""
        self._start = monotonic()
        self._shown: datetime | None = None
        self._doubts: list[timedelta] = []
        """By how much the clock was ahead of answers in a row, or behind them."""
        self._doubted_since = self._start

    def now(self) -> datetime:
        """The moment in UTC; once the API server has answered, never before one that was returned earlier."""
        now = self._unheld()
        if self._shown is None:
            return now
        self._shown = max(self._shown, now)
        return self._shown

    def at(self, moment: datetime) -> float:
        """Monotonic seconds of a moment in UTC."""
        return self._start + (moment - self._wall).total_seconds()

    def heard(self, date: datetime, asked: float) -> None:
        """The server has dated an answer to a question that was asked at `asked` (monotonic seconds).

        A date has whole seconds, so it only says between which two moments the present one lies. Where the machine's
        clock is ahead of both, the clock begins at the end of the date's second: too early a present is put right by
        the next answers, but one that is too late by a slow answer would be believed for a minute.
        """
        present, latest = self._unheld(), date + _SECOND + timedelta(seconds=self.monotonic() - asked)
        if self._shown is None:
            self._wall += (max(present, date) if present <= latest else date + _SECOND) - present
            self._shown = self._unheld()
        elif present > latest:
            self._doubt(present - latest)
            return
        elif date - present > LONGEST_STEP and not self._machine_agrees(date):
            self._doubt(present - date)
            return
        elif present < date:
            self._wall += date - present
        self._doubts.clear()

    def _machine_agrees(self, date: datetime) -> bool:
        return abs(datetime.fromtimestamp(self._machine(), UTC) - date) <= LONGEST_STEP

    def _unheld(self) -> datetime:
        return self._wall + timedelta(seconds=self.monotonic() - self._start)

    def _doubt(self, by: timedelta) -> None:
        """An answer says that the clock is ahead by so much, or behind where that is negative."""
        if self._doubts and (self._doubts[-1] > timedelta(0)) != (by > timedelta(0)):
            self._doubts.clear()
        if not self._doubts:
            self._doubted_since = self.monotonic()
        self._doubts.append(by)
        if len(self._doubts) >= ENOUGH_ANSWERS and self.monotonic() - self._doubted_since >= PATIENCE_SECONDS:
            back = min(self._doubts, key=abs)
            self._wall -= back
            self._doubts.clear()
            if back > LONGEST_STOP:
                self._shown = self._unheld()

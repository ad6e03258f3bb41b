"""Simulated time: a heap of things that are due, and the moments they are due at."""

import heapq
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

START: Final = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)


class Timer:
    """Something that is due later, unless it is cancelled."""

    __slots__ = ("act", "cancelled")

    def __init__(self, act: Callable[[], None]) -> None:
        self.act = act
        self.cancelled = False

    def cancel(self) -> None:
        self.cancelled = True


class Timeline:
    """What happens next, in order of time and, at one moment, of asking."""

    def __init__(self) -> None:
        self.now = 0.0
        self._order = 0
        self._heap: list[tuple[float, int, Timer]] = []

    def after(self, seconds: float, act: Callable[[], None]) -> Timer:
        """Have something done after that many seconds."""
        timer = Timer(act)
        self._order += 1
        heapq.heappush(self._heap, (self.now + max(0.0, seconds), self._order, timer))
        return timer

    def at(self, when: float, act: Callable[[], None]) -> Timer:
        """Have something done at that time."""
        return self.after(when - self.now, act)

    def run(self, until: float, stop: Callable[[], bool] = lambda: False) -> None:
        """Let time pass until then, or until `stop` holds."""
        heap = self._heap
        while heap and heap[0][0] <= until:
            when, _, timer = heapq.heappop(heap)
            if timer.cancelled:
                continue
            self.now = when
            timer.act()
            if stop():
                return
        self.now = max(self.now, until)


def moment(seconds: float) -> datetime:
    """A time of the simulation, exactly."""
    return START + timedelta(seconds=seconds)


def second_of(date: datetime) -> float:
    """A date as seconds of the simulation."""
    return (date - START).total_seconds()


def second(seconds: float) -> datetime:
    """A time of the simulation as Kubernetes writes it: to the second."""
    return START + timedelta(seconds=int(seconds))

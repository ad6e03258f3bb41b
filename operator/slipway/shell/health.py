"""Whether the operator does its work, not merely whether it answers."""

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from slipway.cluster.connection import SILENCE_SECONDS

MAX_WAIT_SECONDS: Final = 60.0
"""A job that is due for longer than this has been forgotten by the workers."""
MAX_TURN_SECONDS: Final = 300.0
"""One look at a job that takes longer than this hangs."""
MAX_SILENCE_SECONDS: Final = 2 * SILENCE_SECONDS
MAX_LAG_SECONDS: Final = 10.0
_BEAT_SECONDS: Final = 1.0


class Unhealthy(Exception):
    """The process should be replaced; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Health:
    """Figures of one moment, in seconds."""

    oldest_wait: float
    longest_turn: float
    silence: float
    loop_lag: float
    leader: bool

    def check(self) -> dict[str, str]:
        """The figures for people.

        Raises:
            Unhealthy: when one of them is beyond its limit.
        """
        limits = (
            ("a job has been waiting for its turn", self.oldest_wait if self.leader else 0.0, MAX_WAIT_SECONDS),
            ("one look at a job has been taking", self.longest_turn, MAX_TURN_SECONDS),
            ("the API server has been silent", self.silence, MAX_SILENCE_SECONDS),
            ("the event loop was held up", self.loop_lag, MAX_LAG_SECONDS),
        )
        for what, seconds, limit in limits:
            if seconds > limit:
                raise Unhealthy(f"{what} for {seconds:.0f} s; {limit:.0f} s is the limit")
        figures = {
            "oldestWait": self.oldest_wait,
            "longestTurn": self.longest_turn,
            "silence": self.silence,
            "loopLag": self.loop_lag,
        }
        return {name: f"{value:.3f}" for name, value in figures.items()} | {"leader": str(self.leader).lower()}


class LoopLag:
    """How late the event loop is, at worst, over the last minute or so."""

    def __init__(self) -> None:
        self.worst = 0.0
        """Seconds."""

    async def run(self) -> None:
        """Measure for ever."""
        loop = asyncio.get_running_loop()
        while True:
            due = loop.time() + _BEAT_SECONDS
            await asyncio.sleep(_BEAT_SECONDS)
            self.worst = max(loop.time() - due, self.worst * 0.95)


def silence(heard: Iterable[float], started: float, clock: Callable[[], float]) -> float:
    """Seconds since the most silent watch gave a sign of life; one that never did counts from the start."""
    return max((clock() - (one or started) for one in heard), default=0.0)

"""Whether the operator does its work, not merely whether it answers."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Final

from aiohttp import web

from slipway.apiserver.connection import SILENCE_SECONDS
from slipway.controller.observability.http_server import serving

MAX_WAIT_SECONDS: Final = 60.0
"""A job that is due for longer than this has been forgotten by the workers."""
MAX_TURN_SECONDS: Final = 300.0
"""One look at a job that takes longer than this hangs."""
MAX_SILENCE_SECONDS: Final = 2 * SILENCE_SECONDS
MAX_LAG_SECONDS: Final = 10.0
_BEAT_SECONDS: Final = 1.0


class Unhealthy(Exception):
    """The process should be replaced; the message says why."""


def check(
    *, oldest_wait: float, longest_turn: float, silence: float, loop_lag: float, leader: bool, nodes_watched: bool
) -> dict[str, str]:
    """The figures of one moment, in seconds, for people.

    Raises:
        Unhealthy: when one of them is beyond its limit.
    """
    limits = (
        ("a job has been waiting for its turn", oldest_wait if leader else 0.0, MAX_WAIT_SECONDS),
        ("one look at a job has been taking", longest_turn, MAX_TURN_SECONDS),
        ("the API server has been silent", silence, MAX_SILENCE_SECONDS),
        ("the event loop was held up", loop_lag, MAX_LAG_SECONDS),
    )
    for what, seconds, limit in limits:
        if seconds > limit:
            raise Unhealthy(f"{what} for {seconds:.0f} s; {limit:.0f} s is the limit")
    figures = {"oldestWait": oldest_wait, "longestTurn": longest_turn, "silence": silence, "loopLag": loop_lag}
    states = {"leader": leader, "nodesWatched": nodes_watched}
    return {name: f"{value:.3f}" for name, value in figures.items()} | {
        name: str(value).lower() for name, value in states.items()
    }


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


class Probes:
    """/healthz, which says whether the process works, and /readyz, which says whether it serves SliceJobs.

    A process that waits for the API server, for the CRD or for a look at its Lease is healthy, for another would wait
    just as long; it is not ready, so that a rolling update does not put it in place of one that works.
    """

    def __init__(self) -> None:
        self.figures: Callable[[], Mapping[str, str]] | None = None
        """Figures of the engine, or Unhealthy; None while there is no engine."""
        self.waiting = "the API server"
        """What there is no engine for yet."""
        self.awaited: Callable[[], str] = str
        """What the engine works in vain without; empty when it has everything."""

    def serving(self, port: int) -> AbstractAsyncContextManager[None]:
        """Answer at that port; at 0 nothing is served."""
        return serving(port, {"/healthz": self._healthz, "/readyz": self._readyz})

    async def _healthz(self, _: web.Request) -> web.Response:
        return self._answer(200)

    async def _readyz(self, _: web.Request) -> web.Response:
        if self.figures is not None and (awaited := self.awaited()):
            return web.json_response({"waitingFor": awaited}, status=503)
        return self._answer(503)

    def _answer(self, while_waiting: int) -> web.Response:
        try:
            if self.figures is None:
                return web.json_response({"waitingFor": self.waiting}, status=while_waiting)
            return web.json_response({"engine": dict(self.figures())})
        except Unhealthy as error:
            return web.json_response({"error": str(error)}, status=500)

"""Logs of rank 0, for the reader's streams: a program prints its steps, saves now and then, and streams break."""

import asyncio
import random
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from slipway.apiserver.errors import ConnectionLost, Forbidden, NotFound
from tests.simulation.store import Store
from tests.simulation.timeline import Timeline, moment

PATTERN: Final = r"step (?P<step>\d+)|saved checkpoint (?P<checkpoint>\d+)"
PATIENCE: Final = 90.0
"""Longest time between two lines, in seconds."""


class ModelLogs:
    """The logs of all pods, as one process is sent them."""

    def __init__(self, timeline: Timeline, store: Store, rng: random.Random) -> None:
        self._timeline = timeline
        self._store = store
        self._rng = rng
        self._forbidden = rng.random() < 0.2

    def stream(self, pod: str, query: Mapping[str, str]) -> "ModelStream":
        """A stream of the log of the pod at that path."""
        if self._forbidden and self._rng.random() < 0.5:
            self._forbidden = False
            return ModelStream(self._refused())
        return ModelStream(self._lines(pod.rsplit("/", 1)[-1], self._rng.random() < 0.3))

    async def _refused(self) -> AsyncGenerator[bytes, None]:
        raise Forbidden(403, "Forbidden", "the role has no right to get pods/log")
        yield b""

    async def _lines(self, pod: str, breaks: bool) -> AsyncGenerator[bytes, None]:
        if pod not in self._store.pods:
            raise NotFound(404, "NotFound", f"there is no pod {pod}")
        # A later stream goes on after the last line of the one before it; the same lines again are another test's.
        while pod in self._store.pods and not self._store.pods[pod].pod.ended:
            now = self._timeline.now
            word = "step" if self._rng.random() < 0.8 else "saved checkpoint"
            yield f"{moment(now).isoformat()} {word} {int(now)}\n".encode()
            if breaks and self._rng.random() < 0.1:
                raise ConnectionLost("the stream broke")
            await asyncio.sleep(self._rng.uniform(0.1, PATIENCE))


class ModelStream:
    """One stream of a log."""

    def __init__(self, lines: AsyncGenerator[bytes, None]) -> None:
        self._lines = lines

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """Its lines."""
        return self._lines

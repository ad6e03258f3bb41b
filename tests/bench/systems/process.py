"""A controller that is one Go program: started, waited for, ended."""

import asyncio
import subprocess
import time
from pathlib import Path

from tests.bench.systems.base import PAUSE_SECONDS, START_SECONDS
from tests.waiting import ended, is_ready

STOP_SECONDS = 15


class Controller:
    """One process with a readiness probe on 127.0.0.1."""

    def __init__(self, command: list[str], log: Path, probe: int) -> None:
        """`probe` is the port that serves /readyz."""
        self._log, self._probe = log, probe
        with log.open("wb") as output:
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    @property
    def pid(self) -> int:
        """Process id."""
        return self._process.pid

    async def ready(self) -> None:
        """Wait until it says that it is ready."""
        end = time.monotonic() + START_SECONDS
        while not await asyncio.to_thread(is_ready, self._probe):
            if self._process.poll() is not None or time.monotonic() > end:
                raise SystemExit(f"{self._process.args!r} did not get ready:\n{self._log.read_text()[-2000:]}")
            await asyncio.sleep(PAUSE_SECONDS)

    async def stop(self) -> None:
        """End it."""
        self._process.terminate()
        await asyncio.to_thread(ended, self._process, STOP_SECONDS)

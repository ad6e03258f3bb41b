"""Writes under way: each goes on to its end when its caller is cancelled, so that its end can be waited for."""

import asyncio
from collections.abc import Awaitable, Callable


class Writes:
    """The writes of one connection that were not answered yet."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[bytes | Exception]] = set()

    async def run(self, once: Callable[[], Awaitable[bytes]]) -> bytes:
        """Write once; returns the answer, or raises what `once` raises."""
        task = asyncio.create_task(_outcome(once))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        outcome = await asyncio.shield(task)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    async def settle(self, seconds: float) -> None:
        """Wait until all were answered or given up, for so long at most."""
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=seconds)

    async def cancel(self) -> None:
        """Give up what is under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


async def _outcome(once: Callable[[], Awaitable[bytes]]) -> bytes | Exception:
    """A failure is for the caller alone: kopf takes that of any task that runs at its end for a failure of its own."""
    try:
        return await once()
    except Exception as error:
        return error

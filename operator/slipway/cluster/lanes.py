"""How many writes are under way at once, and whose turn it is."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, TypeVar

T = TypeVar("T")

MAX_IN_FLIGHT: Final = 64
"""Writes of this process at once; above it the API server is the limit anyway."""


class Lanes:
    """A bounded number of lanes for the whole process, shared fairly by all jobs."""

    def __init__(self) -> None:
        self._free = asyncio.Semaphore(MAX_IN_FLIGHT)

    async def run(self, items: Sequence[T], work: Callable[[T], Awaitable[None]]) -> None:
        """Work on all items; after a failure no further one is begun, and the first failure is raised."""
        waiting = iter(items)
        failures: list[Exception] = []

        async def lane() -> None:
            for item in waiting:
                # Standing in line for each item anew is what makes jobs take turns.
                async with self._free:
                    if failures:
                        return
                    try:
                        await work(item)
                    except Exception as error:
                        failures.append(error)

        async with asyncio.TaskGroup() as lanes:
            for _ in range(min(MAX_IN_FLIGHT, len(items))):
                lanes.create_task(lane())
                # So that the first request is on its way before the last one is written.
                await asyncio.sleep(0)
        if failures:
            raise failures[0]

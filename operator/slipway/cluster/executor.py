"""A bound on the requests in flight, shared fairly by all jobs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


class BoundedExecutor:
    """Runs work with a bounded number of requests in flight; jobs that share it take turns."""

    def __init__(self, most: int) -> None:
        """`most` is how many requests may be under way at once."""
        self._most = most
        self._free = asyncio.Semaphore(most)

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
            for _ in range(min(self._most, len(items))):
                lanes.create_task(lane())
                # So that the first request is on its way before the last one is written.
                await asyncio.sleep(0)
        if failures:
            raise failures[0]

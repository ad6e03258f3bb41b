"""A bound on the requests in flight that all jobs share fairly, and one more for each."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

T = TypeVar("T")

_Line = deque["asyncio.Future[None]"]
"""The lanes of one run that wait until a request ends, in their order."""


class BoundedExecutor:
    """Runs work with a bounded number of requests in flight; runs that share it take turns, however long they are.

    Each run has one request of its own besides, so that it does not wait for those of a huge job, which may take ten
    seconds each.
    """

    def __init__(self, most: int) -> None:
        """`most` is how many requests of one run may be under way at once, and how many all runs share."""
        self._most = self._free = most
        self._lines: deque[_Line] = deque()
        """One line for each run that waits, in the order of their turns."""

    async def run(self, items: Sequence[T], work: Callable[[T], Awaitable[None]]) -> None:
        """Work on all items; after a failure no further one is begun, and the first failure is raised."""
        waiting, line = iter(items), _Line()
        failures: list[Exception] = []

        async def lane(*, shared: bool) -> None:
            for item in waiting:
                if shared:
                    await self._enter(line)
                try:
                    if failures:
                        return
                    await work(item)
                except Exception as error:
                    failures.append(error)
                finally:
                    if shared:
                        self._leave()

        async with asyncio.TaskGroup() as lanes:
            for number in range(min(self._most, len(items))):
                lanes.create_task(lane(shared=number > 0))
                # So that the first request is on its way before the last one is written.
                await asyncio.sleep(0)
        if failures:
            raise failures[0]

    async def _enter(self, line: _Line) -> None:
        """Wait until one shared request more may be under way."""
        if self._free:
            self._free -= 1
            return
        mine = asyncio.get_running_loop().create_future()
        if not line:
            self._lines.append(line)
        line.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            # A lane that is cancelled after its turn has come gives the turn to the next lane.
            if not mine.cancelled():
                self._leave()
            raise

    def _leave(self) -> None:
        """End a shared request: the run at the head of the lines begins its next one."""
        while self._lines:
            line = self._lines.popleft()
            while line and line[0].done():
                line.popleft()
            if not line:
                continue
            line.popleft().set_result(None)
            if line:
                self._lines.append(line)
            return
        self._free += 1

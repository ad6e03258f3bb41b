"""Reads many asynchronous generators: one after the other, by time, or as items come."""

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from typing import Any, Final, TypeVar

T = TypeVar("T")

AHEAD: Final = 16
"""Generators that are asked for their first item before it is their turn."""
_QUEUED: Final = 16
"""Items that wait for their reader."""
_END: Final = object()


async def in_order(sources: Iterable[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    """All items of the first, then all of the second, and so on."""
    rest, begun = iter(sources), deque[tuple[AsyncGenerator[T, None], asyncio.Task[Any]]]()
    try:
        while True:
            while len(begun) < AHEAD and (source := next(rest, None)) is not None:
                begun.append((source, asyncio.create_task(_next(source))))
            if not begun:
                return
            source, first = begun[0]
            item = await first
            while item is not _END:
                yield item
                item = await _next(source)
            begun.popleft()
    finally:
        await _closed(begun)


async def by_key(
    sources: Sequence[AsyncGenerator[Sequence[T], None]], key: Callable[[T], int]
) -> AsyncGenerator[T, None]:
    """The items of the sequences that the sources yield, each in ascending order, all in ascending order."""
    firsts = [asyncio.create_task(_next(source)) for source in sources]
    try:
        found = enumerate(await asyncio.gather(*firsts))
        heap = [(key(batch[0]), index, 0, batch) for index, batch in found if batch is not _END]
        heapq.heapify(heap)
        while heap:
            _, index, at, batch = heap[0]
            yield batch[at]
            at += 1
            if at == len(batch):
                at, batch = 0, await _next(sources[index])
            if batch is _END:
                heapq.heappop(heap)
            else:
                heapq.heapreplace(heap, (key(batch[at]), index, at, batch))
    finally:
        await _closed(zip(sources, firsts, strict=True))


async def as_they_come(sources: Iterable[AsyncGenerator[T, None]]) -> AsyncGenerator[T, None]:
    """Items of all, each as soon as it is there; ends when all have ended."""
    queue: asyncio.Queue[Any] = asyncio.Queue(_QUEUED)
    failures: list[Exception] = []

    async def pump(source: AsyncGenerator[T, None]) -> None:
        async with aclosing(source):
            async for item in source:
                await queue.put(item)

    async def until_the_end() -> None:
        try:
            await asyncio.gather(*tasks)
        except Exception as error:
            failures.append(error)
        await queue.put(_END)

    tasks = [asyncio.create_task(pump(source)) for source in sources]
    end = asyncio.create_task(until_the_end())
    try:
        while (item := await queue.get()) is not _END:
            yield item
        for error in failures:
            raise error
    finally:
        for task in (end, *tasks):
            task.cancel()
        await asyncio.gather(end, *tasks, return_exceptions=True)


async def _next(source: AsyncGenerator[T, None]) -> Any:
    return await anext(source, _END)


async def _closed(begun: Iterable[tuple[AsyncGenerator[T, None], "asyncio.Task[Any]"]]) -> None:
    for source, first in begun:
        first.cancel()
        await asyncio.gather(first, return_exceptions=True)
        await source.aclose()

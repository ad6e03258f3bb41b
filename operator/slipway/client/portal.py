"""Synchronous calls over one event loop in a thread of its own.

So calls work from any thread, from a notebook, whose own loop runs already, and side by side.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import aclosing
from functools import cache
from queue import SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")

_AHEAD: Final = 256
"""Items that a generator may be ahead of its reader."""


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="slipway", daemon=True).start()
    return loop


def start(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Run it in the background; cancelling the future cancels the work."""
    return asyncio.run_coroutine_threadsafe(work, _loop())


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it and wait; whatever interrupts the wait cancels the work."""
    future = start(work)
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise


def iterate(source: AsyncGenerator[T, None]) -> Iterator[T]:
    """The items of an asynchronous generator, which is closed with the iterator."""
    items: SimpleQueue[tuple[T] | None] = SimpleQueue()
    ahead = asyncio.Semaphore(_AHEAD)

    async def pump() -> None:
        try:
            async with aclosing(source):
                async for item in source:
                    await ahead.acquire()
                    items.put((item,))
        finally:
            items.put(None)

    work = start(pump())
    try:
        while (found := items.get()) is not None:
            _loop().call_soon_threadsafe(ahead.release)
            yield found[0]
        work.result()
    finally:
        work.cancel()

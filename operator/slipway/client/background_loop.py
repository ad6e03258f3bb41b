"""Synchronous calls over one event loop in a thread of its own.

So calls work from any thread, from a notebook, whose own loop runs already, and side by side.
"""

import asyncio
import os
import signal
import threading
from collections.abc import AsyncGenerator, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import aclosing, contextmanager
from functools import cache
from queue import SimpleQueue
from typing import Any, Final, TypeVar

T = TypeVar("T")

_AHEAD: Final = 256
"""Items that a generator may be ahead of its reader."""


_making: Final = threading.Lock()
"""Held while the loop is made: threads that call for the first time at once must not get one each."""


@cache
def _made() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="slipway", daemon=True).start()
    return loop


def _loop() -> asyncio.AbstractEventLoop:
    with _making:
        return _made()


def _forked() -> None:
    """A process that was forked has the loop of its parent, and not the thread that runs it."""
    _made.cache_clear()
    _making.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_making.acquire, after_in_parent=_making.release, after_in_child=_forked)


def here() -> bool:
    """Whether this is the loop's own thread, as it is in the callback of a future: who waits there waits for ever."""
    try:
        return asyncio.get_running_loop() is _loop()
    except RuntimeError:
        return False


def _may_wait() -> None:
    if here():
        raise RuntimeError(
            "a call that waits was made in the callback of a future: callbacks run in the thread that carries out all "
            "calls, which would wait for itself; make the call in another thread"
        )


def start(work: Coroutine[Any, Any, T]) -> "Future[T]":
    """Run it in the background; cancelling the future cancels the work."""
    return asyncio.run_coroutine_threadsafe(work, _loop())


def run(work: Coroutine[Any, Any, T]) -> T:
    """Run it and wait; whatever interrupts the wait cancels the work.

    Raises:
        RuntimeError: in the callback of a future.
    """
    return result(start(work))


def result(future: "Future[T]") -> T:
    """Wait for it; whatever interrupts the wait, SIGTERM as well as Ctrl-C, cancels the work.

    Raises:
        RuntimeError: in the callback of a future.
    """
    with _terminable():
        try:
            _may_wait()
            return future.result()
        except BaseException:
            future.cancel()
            raise


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM is a KeyboardInterrupt meanwhile, unless the program has a handler of its own for it."""
    main = threading.current_thread() is threading.main_thread()
    if not main or signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def iterate(source: AsyncGenerator[T, None]) -> Iterator[T]:
    """The items of an asynchronous generator, which is closed with the iterator.

    Raises:
        RuntimeError: in the callback of a future.
    """
    _may_wait()
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

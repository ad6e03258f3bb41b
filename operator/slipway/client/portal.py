"""Synchronous calls over one event loop in a thread of its own.

So calls work from any thread, from a notebook, whose own loop runs already, and side by side.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


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

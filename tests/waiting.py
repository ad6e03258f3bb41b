"""Waiting for what nothing tells a test, how long each kind of thing may take, and moments in which nothing may happen.

No test sleeps elsewhere: a wait for something is `until` or `holds`, and one for nothing is `pause` or `passing`.
"""

import asyncio
import subprocess
import time
import urllib.request
from collections.abc import Callable
from typing import Any, Final, TypeVar

T = TypeVar("T")

ANSWER_SECONDS: Final = 60
"""Within these an API server answers, an operator decides, and a program of this machine starts and ends."""
START_SECONDS: Final = 180
"""Within these a kubelet, a container engine, Ray or Kueue does what takes it seconds."""


def until(what: str, holds: Callable[[], T], *, seconds: float = ANSWER_SECONDS, every: float = 0.05) -> T:
    """Wait until something holds; returns what it became.

    Args:
        what: names it for the message of a failure.
        holds: looks; what it returns is false while it does not hold.
        seconds: how long it may take.
        every: seconds between two looks.

    Raises:
        AssertionError: when it does not hold in that time.
    """
    end = time.monotonic() + seconds
    while not (found := holds()):
        assert time.monotonic() < end, f"not within {seconds:g} s: {what}"
        time.sleep(every)
    return found


async def holds(condition: Callable[[], Any], *, seconds: float = ANSWER_SECONDS) -> None:
    """Until a condition of this loop holds.

    Raises:
        TimeoutError: when it does not in that time.
    """
    async with asyncio.timeout(seconds):
        # The state is the component's own; it has no event that a test could wait for.
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def pause(seconds: float) -> None:
    """Let time pass in which something must not happen, or after which it is tried again."""
    time.sleep(seconds)


async def passing(seconds: float) -> None:
    """The same while the loop goes on; with 0 seconds, one turn of it."""
    await asyncio.sleep(seconds)


def is_ready(port: int) -> bool:
    """Whether a program on 127.0.0.1 answers /readyz at that port."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def ended(process: "subprocess.Popen[Any]", seconds: float) -> None:
    """Wait for the end of a process that was asked to end, and kill it when it takes longer."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

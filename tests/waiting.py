"""Waiting for what nothing tells a test: a state inside a component, and programs that start and end."""

import asyncio
import subprocess
import urllib.request
from collections.abc import Callable
from typing import Any, Final

PATIENCE: Final = 280
"""Seconds within which anything has happened that must, on a machine that runs other tests besides."""


async def holds(condition: Callable[[], Any], *, seconds: float) -> None:
    """Until a condition holds.

    Raises:
        TimeoutError: when it does not in that time.
    """
    async with asyncio.timeout(seconds):
        # The state is the component's own; it has no event that a test could wait for.
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


def is_ready(port: int) -> bool:
    """Whether a program on 127.0.0.1 answers /readyz at that port."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def ended(process: "subprocess.Popen[bytes]", seconds: float) -> None:
    """Wait for the end of a process that was asked to end, and kill it when it takes longer."""
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

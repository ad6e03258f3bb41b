"""Telling a waiting person what happens: a live display on a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Protocol

from rich.console import Console
from rich.markup import escape


class StepReporter(Protocol):
    """Receives steps as they begin, move and end. Called from several threads."""

    def begin(self, step: str) -> None:
        """Say that a step has begun."""
        ...

    def update(self, step: str, detail: str) -> None:
        """Say how far a step has come."""
        ...

    def end(self, step: str, seconds: float, failed: bool = False) -> None:
        """Say that a step has ended."""
        ...


class Silent:
    """Says nothing: the default of the Python API."""

    def begin(self, step: str) -> None:
        """Ignore it."""

    def update(self, step: str, detail: str) -> None:
        """Ignore it."""

    def end(self, step: str, seconds: float, failed: bool = False) -> None:
        """Ignore it."""


class Plain:
    """One line for each beginning and end, and an update at most every ten seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: dict[str, float] = {}

    def begin(self, step: str) -> None:
        """Print the step's name."""
        self._said[step] = time.monotonic()
        self._print(f"{step} ...")

    def update(self, step: str, detail: str) -> None:
        """Print the detail unless something was said about the step just now."""
        now = time.monotonic()
        if now - self._said.get(step, 0.0) >= 10:
            self._said[step] = now
            self._print(f"{step}: {detail}")

    def end(self, step: str, seconds: float, failed: bool = False) -> None:
        """Print how long the step took."""
        self._print(f"{step}: {'failed' if failed else 'done'} after {seconds:.1f} s")

    def _print(self, line: str) -> None:
        # Nobody may be there any more to read it, and what is being done has to be done all the same.
        with suppress(OSError):
            self._console.print(line, markup=False, highlight=False, soft_wrap=True)


class Live:
    """A spinner naming all running steps and how long they have run; finished steps stay above it as lines."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._lock = threading.Lock()
        self._running: dict[str, tuple[float, str]] = {}
        # The spinner asks for this text anew with each frame, so that the seconds move.
        self._status = console.status(self)

    def begin(self, step: str) -> None:
        """Show the step."""
        with self._lock:
            self._running[step] = (time.monotonic(), "")
        self._status.start()

    def update(self, step: str, detail: str) -> None:
        """Show the detail behind the step."""
        with self._lock:
            started = self._running.get(step, (time.monotonic(), ""))[0]
            self._running[step] = (started, detail)

    def end(self, step: str, seconds: float, failed: bool = False) -> None:
        """Move the step from the spinner to the finished lines."""
        with self._lock:
            self._running.pop(step, None)
            last = not self._running
        if last:
            self._status.stop()
        mark = "[red]✗[/red]" if failed else "[green]✓[/green]"
        self._console.print(f"{mark} {escape(step)} [dim]{seconds:.1f} s[/dim]", highlight=False)

    def __rich__(self) -> str:
        now = time.monotonic()
        with self._lock:
            running = list(self._running.items())
        return " · ".join(
            f"{escape(step)}{escape(f': {detail}') if detail else ''} [dim]{now - started:.0f} s[/dim]"
            for step, (started, detail) in running
        )


def for_console(console: Console) -> StepReporter:
    """Return the display that suits the console."""
    return Live(console) if console.is_terminal else Plain(console)


@contextmanager
def step(progress: StepReporter, name: str) -> Iterator[None]:
    """Report the block as one step."""
    started = time.monotonic()
    progress.begin(name)
    failed = True
    try:
        yield
        failed = False
    finally:
        progress.end(name, time.monotonic() - started, failed)

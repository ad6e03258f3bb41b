"""Telling a waiting person how far a build or a push is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, DownloadColumn, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars


class Progress(Protocol):
    """Receives what the engine says."""

    def step(self, text: str) -> None:
        """Say that a step of the work has begun."""
        ...

    def line(self, text: str) -> None:
        """Pass on a line of output."""
        ...

    def layer(self, layer: str, status: str, done: int, total: int) -> None:
        """Say how far a layer has travelled, in bytes; the total is 0 when it is not known."""
        ...


class Silent:
    """Says nothing: the default of the Python API."""

    def step(self, text: str) -> None:
        """Ignore it."""

    def line(self, text: str) -> None:
        """Ignore it."""

    def layer(self, layer: str, status: str, done: int, total: int) -> None:
        """Ignore it."""


class Plain:
    """A line for each step, line of output, and change of a layer's state; never one for each block of bytes."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._said: dict[str, str] = {}

    def step(self, text: str) -> None:
        """Print the step."""
        self.line(text)

    def line(self, text: str) -> None:
        """Print the line."""
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    def layer(self, layer: str, status: str, done: int, total: int) -> None:
        """Print the state when it is new."""
        if self._said.get(layer) != status:
            self._said[layer] = status
            self.line(f"{layer}: {status}")


class Live:
    """The running step with its time, and a bar for each layer on its way; output scrolls by above them."""

    def __init__(self, bars: Bars) -> None:
        self._bars = bars
        self._step: TaskID | None = None
        self._layers: dict[str, TaskID] = {}

    def step(self, text: str) -> None:
        """Show the step as the running one."""
        if self._step is not None:
            self._bars.remove_task(self._step)
        self._bars.console.print(f"[bold]{escape(text)}[/bold]", highlight=False)
        self._step = self._bars.add_task(escape(text), total=None)

    def line(self, text: str) -> None:
        """Print the line above the bars."""
        self._bars.console.print(f"[dim]{escape(text)}[/dim]", highlight=False)

    def layer(self, layer: str, status: str, done: int, total: int) -> None:
        """Move the layer's bar; a layer that has arrived becomes a line."""
        if total and done < total:
            if layer not in self._layers:
                self._layers[layer] = self._bars.add_task(layer, total=total)
            self._bars.update(self._layers[layer], completed=done, total=total, description=f"{layer} {status}")
        elif not total and layer in self._layers:
            self._bars.remove_task(self._layers.pop(layer))
            self.line(f"{layer}: {status}")


@contextmanager
def shown_on(console: Console) -> Iterator[Progress]:
    """Show progress in the way that suits the console."""
    if not console.is_terminal:
        yield Plain(console)
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(20), DownloadColumn(), TimeElapsedColumn())
    with Bars(*columns, console=console, transient=True) as bars:
        yield Live(bars)

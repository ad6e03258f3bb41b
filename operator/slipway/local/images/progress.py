"""Telling a waiting person how far a build or a push is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten
from typing import Final, Protocol

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.progress import (
    BarColumn,
    DownloadColumn,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)
from rich.progress import Progress as Bars
from rich.text import Text

STEP_WIDTH: Final = 60
"""Of the running step's text beside its time; the whole text stands above."""


class BuildReporter(Protocol):
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
        self._print("bold", text)
        self._step = self._bars.add_task(escape(shorten(text, STEP_WIDTH, placeholder=" …")), total=None)

    def line(self, text: str) -> None:
        """Print the line above the bars."""
        self._print("dim", text)

    def layer(self, layer: str, status: str, done: int, total: int) -> None:
        """Move the layer's bar; a layer that has arrived becomes a line."""
        if total and done < total:
            # Drawn at once when it is new: small layers have arrived before the next frame.
            if new := layer not in self._layers:
                self._layers[layer] = self._bars.add_task(layer, total=total)
            task, text = self._layers[layer], f"{layer} {status}"
            self._bars.update(task, completed=done, total=total, description=text, refresh=new)
        elif not total and layer in self._layers:
            self._bars.remove_task(self._layers.pop(layer))
            self.line(f"{layer}: {status}")

    def _print(self, style: str, text: str) -> None:
        self._bars.console.print(text, style=style, markup=False, highlight=False, soft_wrap=True)


class OfLayers(ProgressColumn):
    """A column that is empty beside the running step, which has no size."""

    def __init__(self, column: ProgressColumn) -> None:
        super().__init__()
        self._column = column

    def render(self, task: Task) -> RenderableType:
        """Show the column for a task with a size."""
        return Text() if task.total is None else self._column.render(task)


@contextmanager
def shown_on(console: Console) -> Iterator[BuildReporter]:
    """Show progress in the way that suits the console."""
    if not console.is_terminal:
        yield Plain(console)
        return
    what, sizes = TextColumn("{task.description}"), (OfLayers(BarColumn(20)), OfLayers(DownloadColumn()))
    with Bars(SpinnerColumn(), what, *sizes, TimeElapsedColumn(), console=console, transient=True) as bars:
        yield Live(bars)

"""The output of the demo: a live picture on a terminal, a line for each change elsewhere; a timeline at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from slipway.client.pictures.formats import coloured
from slipway.demo.follow import Follower

_SHOWN_LINES = 8


class View:
    """Shows a follower's job while it runs."""

    def __init__(self, console: Console, job: str) -> None:
        self._console, self._job = console, job
        self._live: Live | None = None
        self._said: tuple[Any, ...] = ()
        self._lines = 0
        self.note = ""

    def _line(self, text: str) -> None:
        # Programs write brackets that are no markup, and lines that are longer than a terminal.
        self._console.print(text, markup=False, highlight=False, soft_wrap=True)

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep the picture on the screen; on anything but a terminal, print lines instead."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, refresh_per_second=8) as self._live:
            yield
        self._live = None

    def show(self, seen: Follower) -> None:
        """Draw the newest state."""
        if self._live is not None:
            self._live.update(self._picture(seen))
        else:
            self._print(seen)

    def say(self, text: str) -> None:
        """Something the demo does itself."""
        self.note = text
        if self._live is None:
            self._line(f"--> {text}")

    def _print(self, seen: Follower) -> None:
        status = seen.status
        told = (status.get("phase"), status.get("attempt"))
        if told != self._said and told[0]:
            self._said = told
            message = _running(status)
            self._line(f"{_clock()} attempt {told[1]}: {told[0]}: {message}")
        for line in seen.output[self._lines :]:
            self._line(f"    {line}")
        self._lines = len(seen.output)

    def _picture(self, seen: Follower) -> Panel:
        status = seen.status
        head = Table.grid(padding=(0, 2))
        head.add_row("phase", coloured(status.get("phase", "-")), "attempt", str(status.get("attempt", "-")))
        head.add_row("slices", status.get("readySlices", "-"), "failures", str(status.get("failures", 0)))
        head.add_row("", "", "preemptions", str(status.get("preemptions", 0)))
        pods = Table(box=None, pad_edge=False, header_style="dim")
        for column in ("pod", "slice", "host", "node", "phase"):
            pods.add_column(column)
        for name, pod in sorted(seen.pods.items()):
            labels = pod["metadata"]["labels"]
            going = " (going)" if "deletionTimestamp" in pod["metadata"] else ""
            pods.add_row(
                name,
                labels["slipway.dev/slice"],
                labels["slipway.dev/host"],
                pod["spec"].get("nodeName", "-"),
                coloured(pod["status"]["phase"]) + going,
            )
        output = Text("\n".join(seen.output[-_SHOWN_LINES:]), style="dim")
        return Panel(
            Group(head, Text(_running(status)), Text(self.note, style="bold magenta"), pods, output),
            title=f"SliceJob {self._job}",
        )


def _running(status: dict[str, Any]) -> str:
    for condition in status.get("conditions", ()):
        if condition["type"] == "Running":
            return str(condition.get("message", ""))
    return ""


def _clock() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")


def timeline(status: dict[str, Any]) -> Group:
    """The story of a job as its status tells it."""
    attempts = list(reversed(status.get("attempts", ())))
    table = Table(title="What happened, from status.attempts", title_justify="left", box=None, pad_edge=False)
    for column in ("attempt", "from", "running", "until", "charged to", "reason"):
        table.add_column(column, no_wrap=True)
    for attempt in attempts:
        table.add_row(
            str(attempt["number"]),
            _hour(attempt.get("startTime")),
            _hour(attempt.get("runningTime")),
            _hour(attempt.get("endTime")),
            attempt.get("cause", "-"),
            attempt.get("reason", "-"),
        )
    # In a column beside the others a message would be a few letters wide on most terminals.
    return Group(table, *(Text(f"attempt {one['number']}: {one.get('message', '-')}") for one in attempts))


def _hour(moment: str | None) -> str:
    return datetime.fromisoformat(moment).astimezone().strftime("%H:%M:%S") if moment else "-"

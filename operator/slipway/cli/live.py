"""A job while it runs: a picture on a terminal, a line for each change elsewhere."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from slipway.api.places import Place
from slipway.cli.matrix import matrix
from slipway.cli.timeline import timeline
from slipway.cli.words import age, clock, coloured
from slipway.client.model import JobState

_PER_SECOND: Final = 8
_SHOWN_ATTEMPTS: Final = 5
_FRAME: Final = 4
"""Columns of the frame."""


class Progress:
    """Shows what `run` and `wait` follow."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live: Live | None = None
        self._said: dict[str, Any] = {}
        self._told: set[tuple[str, int]] = set()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep the picture on the screen; where there is no terminal, print lines instead."""
        if not self._console.is_terminal:
            yield
            return
        with Live(console=self._console, refresh_per_second=_PER_SECOND, transient=True) as self._live:
            yield
        self._live = None

    def show(self, job: JobState, hosts: dict[Place, str]) -> None:
        """The newest state."""
        if self._live is not None:
            self._live.update(picture(job, hosts, datetime.now(UTC), self._console.width))
        else:
            self._tell(job)

    def _tell(self, job: JobState) -> None:
        for line in self._ends(job):
            self._console.print(line)
        words = (job.phase, job.status.attempt, job.reason)
        if self._said.get(job.name) != words:
            self._said[job.name] = words
            attempt = f" attempt {job.status.attempt}" if job.status.attempt is not None else ""
            self._console.print(f"{clock(datetime.now(UTC))} {job.name}{attempt} {job.phase}: {job.message}")

    def _ends(self, job: JobState) -> Iterator[str]:
        """A line for each attempt that has ended since the last time."""
        for one in reversed(job.status.attempts):
            if one.cause is not None and (job.name, one.number) not in self._told:
                self._told.add((job.name, one.number))
                yield f"{clock(one.end_time)} {job.name} attempt {one.number} ended ({one.cause}): {one.message}"


def picture(job: JobState, hosts: dict[Place, str], now: datetime, width: int) -> Panel:
    """The job in a frame: phase, what it waits for, its hosts, its attempts."""
    status = job.status
    head = coloured(job.phase)
    head.append(f"  {job.reason}" if job.reason not in ("", job.phase) else "")
    head.append(f"  slices {status.ready_slices or f'-/{job.slices}'}")
    head.append(f"  failures {status.failures}  preemptions {status.preemptions}  since {age(job.created, now)}")
    parts: list[Any] = [head, Text(job.message, style="dim")]
    if hosts:
        parts.append(matrix(hosts, job.slices, job.hosts, head="ray" in job.stored.spec))
    if status.attempts:
        parts.append(timeline(tuple(reversed(status.attempts[:_SHOWN_ATTEMPTS])), now, width - _FRAME))
    return Panel(Group(*parts), title=f"SliceJob {job.namespace}/{job.name}", title_align="left")

"""Jobs while they run: a picture on a terminal and in a notebook, a line for each change elsewhere."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from typing import Any, Final

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from slipway.api.places import Place
from slipway.client.model import JobState
from slipway.client.pictures.formats import age, clock, coloured, span
from slipway.client.pictures.host_matrix import matrix
from slipway.client.pictures.timeline import timeline

_PER_SECOND: Final = 4
_SHOWN_ATTEMPTS: Final = 5
_FRAME: Final = 4
"""Columns of the frame."""
_NO_HOSTS: Final[Mapping[Place, str]] = {}

Seen = tuple[JobState, Mapping[Place, str]]
"""A job, and the states of its hosts."""


class LiveView:
    """Shows jobs that are waited for: one as its picture, several as a row each."""

    def __init__(self, console: Console, names: Sequence[str]) -> None:
        self._console = console
        self._seen: dict[str, Seen | None] = dict.fromkeys(names)
        self._drawn = False
        self._said: dict[str, Any] = {}
        self._told: set[tuple[str, int]] = set()

    @contextmanager
    def open(self) -> Iterator[None]:
        """Keep the picture up to date; where there is neither a terminal nor a notebook, print lines instead."""
        # FORCE_COLOR has rich take a file for a terminal, and a dumb one cannot draw over what it shows.
        terminal = self._console.file.isatty() and self._console.is_terminal and not self._console.is_dumb_terminal
        self._drawn = terminal or self._console.is_jupyter
        if self._console.is_jupyter:
            with _cell(self._draw):
                yield
        elif terminal:
            # Results that other programs read go to stdout, whatever is drawn meanwhile.
            with Live(
                console=self._console, get_renderable=self._draw, refresh_per_second=_PER_SECOND, transient=True,
                redirect_stdout=False,
            ):  # fmt: skip
                yield
        else:
            yield

    def show(self, job: JobState, hosts: Mapping[Place, str] = _NO_HOSTS) -> None:
        """The newest state; the hosts may go on changing."""
        self._seen[job.name] = (job, hosts)
        if not self._drawn:
            self._tell(job)

    def _draw(self) -> RenderableType:
        now = datetime.now(UTC)
        if len(self._seen) > 1:
            return overview(self._seen, now)
        # It is drawn in another thread than the hosts change in.
        seen = ((job, dict(hosts)) for job, hosts in filter(None, self._seen.values()))
        return next((picture(job, hosts, now, self._console.width) for job, hosts in seen), Text())

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
        for attempt in reversed(job.status.attempts):
            if attempt.cause is not None and (job.name, attempt.number) not in self._told:
                self._told.add((job.name, attempt.number))
                ended = f"attempt {attempt.number} ended ({attempt.cause}): {attempt.message}"
                yield f"{clock(attempt.end_time)} {job.name} {ended}"


@contextmanager
def _cell(draw: Callable[[], RenderableType]) -> Iterator[None]:
    """Shows a picture below the cell of a notebook, and draws it again and again.

    IPython does this in every notebook; what rich does itself needs widgets that may not be installed.
    """
    shown, over = import_module("IPython.display").display(draw(), display_id=True), threading.Event()

    def again() -> None:
        while not over.wait(1 / _PER_SECOND):
            shown.update(draw())

    thread = threading.Thread(target=again, name="slipway-cell", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        shown.update(draw())


def picture(job: JobState, hosts: Mapping[Place, str], now: datetime, width: int) -> Panel:
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


def overview(jobs: Mapping[str, Seen | None], now: datetime) -> Table:
    """A row for each job; those that nothing is known of yet have their name only."""
    table = Table(box=None, pad_edge=False, header_style="bold", expand=True)
    for name in ("NAME", "PHASE", "SLICES", "ELAPSED", "REASON", "MESSAGE"):
        # The message gives way.
        table.add_column(name, no_wrap=True, overflow="ellipsis", ratio=1 if name == "MESSAGE" else None)
    for name, seen in jobs.items():
        table.add_row(Text(name), *(_row(seen[0], now) if seen else ()))
    return table


def _row(job: JobState, now: datetime) -> Iterator[Text]:
    status = job.status
    began = status.start_time or job.created or now
    yield coloured(job.phase)
    yield Text(status.ready_slices or f"-/{job.slices}")
    yield Text(span((status.completion_time or now) - began))
    yield Text(job.reason if job.reason != job.phase else "")
    yield Text(job.message)

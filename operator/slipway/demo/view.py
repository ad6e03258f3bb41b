"""The output of the demo: a live picture on a terminal, a line for each change elsewhere; a timeline at the end."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from slipway.client.model import JobState
from slipway.client.pictures.formats import clock
from slipway.client.pictures.live import picture
from slipway.client.pictures.timeline import timeline
from slipway.demo.follow import Follower

_SHOWN_LINES = 8


class View:
    """Shows a follower's job while it runs."""

    def __init__(self, console: Console) -> None:
        self._console = console
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
        job = seen.job
        if job is not None and job.seen and self._said != (now := (job.phase, job.status.attempt)):
            self._said = now
            self._line(f"{clock(datetime.now(UTC))} attempt {job.status.attempt}: {job.phase}: {job.message}")
        for line in seen.output[self._lines :]:
            self._line(f"    {line}")
        self._lines = len(seen.output)

    def _picture(self, seen: Follower) -> Group:
        output = Text("\n".join(seen.output[-_SHOWN_LINES:]), style="dim")
        parts: list[RenderableType] = [Text(self.note, style="bold magenta"), output]
        if seen.job is not None:
            parts.insert(0, picture(seen.job, seen.hosts, datetime.now(UTC), self._console.width))
        return Group(*parts)


def story(job: JobState, width: int) -> Group:
    """The story of a job as its status tells it."""
    attempts = tuple(reversed(job.status.attempts))
    # In a column beside the others a message would be a few letters wide on most terminals.
    messages = (Text(f"attempt {attempt.number}: {attempt.message or '-'}") for attempt in attempts)
    return Group(Text("What happened, from status.attempts"), timeline(attempts, datetime.now(UTC), width), *messages)

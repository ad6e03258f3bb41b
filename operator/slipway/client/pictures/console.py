"""The console that commands print on."""

import os
import sys
from collections.abc import Iterable
from typing import Final

from rich import console as rich_console
from rich.segment import Segment

from slipway.client.pictures.escape import visible

_UNLIMITED: Final = 10_000


class Console(rich_console.Console):
    """A console on which texts of others, such as messages of Events, can forge nothing."""

    def render(
        self, renderable: rich_console.RenderableType, options: rich_console.ConsoleOptions | None = None
    ) -> Iterable[Segment]:
        """What is printed, with signs in place of control characters."""
        for segment in super().render(renderable, options):
            # Controls of rich's own are no text.
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


def console(*, stderr: bool = False) -> Console:
    """A console that is coloured on a terminal, unless NO_COLOR is set, and never breaks lines in a pipe."""
    found = Console(stderr=stderr, soft_wrap=False, highlight=False, emoji=False, markup=False)
    stream = sys.stderr if stderr else sys.stdout
    if not (stream.isatty() or found.is_jupyter or "COLUMNS" in os.environ):
        found.width = _UNLIMITED
    return found

"""Where people read."""

import os
import sys

from rich.console import Console

_UNLIMITED = 10_000


def console(*, stderr: bool = False) -> Console:
    """A console that is coloured on a terminal, unless NO_COLOR is set, and never breaks lines in a pipe."""
    found = Console(stderr=stderr, soft_wrap=False, highlight=False, emoji=False, markup=False)
    stream = sys.stderr if stderr else sys.stdout
    if not (stream.isatty() or found.is_jupyter or "COLUMNS" in os.environ):
        found.width = _UNLIMITED
    return found

"""Lists in sentences."""

from collections.abc import Sequence
from typing import Final

_MOST_NAMED: Final = 3


def listed(what: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`, `a, b, c and 2 more`."""
    more = len(what) - _MOST_NAMED
    *first, last = what if more <= 0 else (*what[:_MOST_NAMED], f"{more} more")
    return f"{', '.join(first)} and {last}" if first else last

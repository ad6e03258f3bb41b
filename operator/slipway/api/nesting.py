"""How deep an object may be nested: the API server stores what recursive readers cannot follow."""

import sys
from collections.abc import Mapping
from typing import Any, Final

MAX_LEVELS: Final = 64
"""Below a field of a spec. A pod template in its longest branch has 15."""
_RECURSIONS: Final = 15_000
"""The API server refuses JSON of more than 10,000 levels; at 20,000 a reader fills the usual stack of 8 MiB."""


def too_deep(spec: Mapping[str, Any]) -> str:
    """What is wrong with the first field of a spec that is nested more than `MAX_LEVELS` deep; empty when none is."""
    field = next((name for name, value in spec.items() if _is_too_deep(value)), None)
    return "" if field is None else f"spec.{field} is nested more than {MAX_LEVELS} levels deep"


def _is_too_deep(content: Any) -> bool:
    level = [content]
    for _ in range(MAX_LEVELS + 1):
        level = [inner for one in level for inner in _inside(one)]
        if not level:
            return False
    return True


def _inside(content: Any) -> Any:
    if isinstance(content, Mapping):
        return content.values()
    return content if isinstance(content, list | tuple) else ()


def allow_any_nesting() -> None:
    """Let this process read whatever the API server lists: one object too deep would make a whole list unreadable."""
    sys.setrecursionlimit(_RECURSIONS)

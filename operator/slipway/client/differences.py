"""Whether a job that is submitted is the one that is there already."""

from collections.abc import Mapping, Sequence
from typing import Any


def differences(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Fields that are given and stored otherwise; what the API server has added to them counts for nothing."""
    return [name for name, value in wanted.items() if not _contains(stored.get(name), value)]


def _contains(stored: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if not isinstance(stored, Mapping):
            return not wanted
        return all(_contains(stored.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(stored, Sequence) or len(stored) != len(wanted):
            return not wanted and not stored
        return all(_contains(one, other) for one, other in zip(stored, wanted, strict=True))
    return bool(stored == wanted) or wanted is None

"""RFC 7386: the smallest merge patch from one JSON object to another."""

from collections.abc import Mapping
from typing import Any


def merge_patch(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """The patch that turns `before` into `after`; empty when they are equal.

    Neither may hold nulls, for a merge patch cannot set one. Lists are replaced whole.
    """
    patch: dict[str, Any] = {name: None for name in before if name not in after}
    for name, value in after.items():
        if name not in before:
            patch[name] = value
            continue
        old = before[name]
        if isinstance(old, Mapping) and isinstance(value, Mapping):
            if inner := merge_patch(old, value):
                patch[name] = inner
        elif not _same(old, value):
            patch[name] = value
    return patch


def _same(one: Any, other: Any) -> bool:
    """Equal as JSON, where neither `1` nor `1.0` is `true`."""
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    return type(one) is type(other) and bool(one == other)


def apply_merge_patch(target: Any, patch: Any) -> Any:
    """What a server makes of a merge patch; the definition in section 2 of the RFC."""
    if not isinstance(patch, Mapping):
        return patch
    merged = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge_patch(merged.get(name), value)
    return merged

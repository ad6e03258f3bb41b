"""Compares the spec of a submitted job with that of the job of the same name that exists."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pydantic import ValidationError

from slipway.api.slicejob import CHANGEABLE_WHILE_SUSPENDED, SliceJobSpec

_COMMANDS: Final = frozenset({"suspend", "cancel", "cancelGracePeriodSeconds"})
"""What people and queues tell a job that is there; it makes no other job of it."""


def differences(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """The fields of the spec in which a job that is wanted is another than the one that is stored."""
    # Of another version of Slipway, whose defaults are not known here, both are taken as they are.
    with suppress(ValidationError):
        wanted, stored = _without_defaults(wanted), _without_defaults(stored)
    return [name for name in {**wanted, **stored} if not _same(name, wanted.get(name), stored.get(name))]


def _without_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    return SliceJobSpec.model_validate(spec).model_dump(by_alias=True, exclude_defaults=True, exclude_none=True)


def _same(name: str, wanted: Any, stored: Any) -> bool:
    if name in CHANGEABLE_WHILE_SUSPENDED:
        # A queue may have filled in more.
        return _contains(stored, wanted)
    return name in _COMMANDS or bool(wanted == stored)


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

"""Fields of a status that the API server does not keep, as its CRD is of another version than the operator."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any, Final

log = logging.getLogger(__name__)

DROPPED_SECONDS: Final = 5.0
"""After which a job is looked at again of whose status a field was dropped: that would be written again at once."""
_WARNING: Final = (
    "the API server has dropped %s of a SliceJob, so it has the CRD of another version: "
    "install the one of this version (kubectl apply --server-side -f crds/, or helm upgrade)"
)


class Dropped:
    """Warns of each field once."""

    def __init__(self) -> None:
        self._named: set[str] = set()

    def pause(self, patch: Mapping[str, Any], kept: Mapping[str, Any]) -> float:
        """Seconds to wait before a job is looked at again whose status was patched; none if all of it was kept."""
        if not (dropped := {*_lost(patch, kept)}):
            return 0.0
        if dropped - self._named:
            log.warning(_WARNING, ", ".join(sorted(dropped)))
            self._named |= dropped
        return DROPPED_SECONDS


def _lost(patch: Mapping[str, Any], kept: Mapping[str, Any], parent: str = "status") -> Iterator[str]:
    """The fields of a merge patch that its result does not show, by their paths; a list is one field."""
    for name, value in patch.items():
        path, found = f"{parent}.{name}", kept.get(name)
        if isinstance(value, Mapping):
            yield from _lost(value, found if isinstance(found, Mapping) else {}, path)
        elif not _shows(found, value):
            yield path


def _shows(found: Any, value: Any) -> bool:
    """Whether a JSON value has all of another; the API server may have added defaults."""
    if isinstance(value, Mapping):
        return isinstance(found, Mapping) and all(_shows(found.get(name), one) for name, one in value.items())
    if isinstance(value, list):
        return isinstance(found, list) and len(found) == len(value) and all(map(_shows, found, value))
    return bool(found == value)

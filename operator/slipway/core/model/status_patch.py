"""What to write of a status: what has changed, applied to the stored JSON.

A newer version of Slipway may have written fields and words that this one does not know. A merge patch leaves fields
alone that it does not name, but replaces lists whole: their entries are taken from the stored JSON and changed there.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from slipway.api.status import SliceJobStatus
from slipway.core.model.job import Job
from slipway.core.model.merge_patch import merge_patch

_KEYS: Final = {"attempts": "number", "conditions": "type", "hosts": "pod"}
"""Which field tells the entries of a list apart."""


def status_patch(job: Job, wanted: SliceJobStatus) -> dict[str, Any]:
    """The merge patch that makes the job's stored status the wanted one; empty when nothing has changed.

    Of a status that cannot be read nothing is written but its conditions.
    """
    read, new = {} if job.status_lost else _dump(job.status), _dump(wanted)
    if job.status_problem:
        new = read | {"conditions": new.get("conditions", [])}
    stored = job.stored_status
    return merge_patch(stored, _changed(stored, read, new))


def _dump(status: SliceJobStatus) -> dict[str, Any]:
    """The status as JSON; empty for one that was never written, so that the first write says everything."""
    if status == SliceJobStatus():
        return {}
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def _changed(stored: Any, read: Mapping[str, Any], wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The stored object with what differs between `read` and `wanted`."""
    found = dict(stored) if isinstance(stored, Mapping) else {}
    for name in (*read, *wanted):
        old, new = read.get(name), wanted.get(name)
        if old == new:
            continue
        if new is None:
            found.pop(name, None)
        elif name in _KEYS and isinstance(new, list):
            found[name] = _changed_list(found.get(name, []), old or [], new, _KEYS[name])
        elif isinstance(new, Mapping):
            found[name] = _changed(found.get(name), old or {}, new)
        else:
            found[name] = new
    return found


def _changed_list(stored: Any, read: list[Any], wanted: list[Any], key: str) -> Any:
    """The stored list with the wanted entries, and with those that only another version can read.

    A list with an entry that should be readable, and is not, stays as it is.
    """
    if not isinstance(stored, list | tuple) or not all(map(_named_by(key), stored)):
        return stored
    kept = {one[key]: one for one in stored}
    known, new = {one[key]: one for one in read}, {one[key]: one for one in wanted}
    foreign = [one for name, one in kept.items() if name not in known]
    if any(one[key] in new for one in foreign):
        return stored
    return [_changed(kept.get(name), known.get(name, {}), one) for name, one in new.items()] + foreign


def _named_by(key: str) -> Callable[[Any], bool]:
    return lambda one: isinstance(one, Mapping) and isinstance(one.get(key), str | int)

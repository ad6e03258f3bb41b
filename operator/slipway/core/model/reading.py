"""Reading a SliceJob from the JSON that is stored of it."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from slipway.api.names import LABEL_OPERATOR_ID, ORIGIN_LABEL, QUEUE_LABEL, QUEUE_PRIORITY_LABEL
from slipway.api.reading import describe, read_spec
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import UNSEEN, ConditionType, SliceJobStatus
from slipway.core.model.job import Job
from slipway.core.model.parts import packed

NEVER_WRITTEN: Final = {"observedGeneration": UNSEEN}
"""The status that the API server gives a new SliceJob."""

_TYPES: Final = (*ConditionType, None)


def read_job(body: Mapping[str, Any], known: Job | None = None) -> Job:
    """Read a SliceJob; the spec of a `known` one of the same generation is taken over rather than read again."""
    metadata = body["metadata"]
    uid, generation = str(metadata["uid"]), int(metadata.get("generation", 0))
    labels, stored = metadata.get("labels") or {}, body.get("status") or {}
    status, status_problem = read_status(stored)
    same = known if known is not None and known.uid == uid else None
    earlier = same.status if same is not None else status
    # No operator takes the attempt out of a status: somebody has emptied it, and the pods of the attempt are there.
    # Of a job that runs in another cluster MultiKueue writes the status.
    own = not status_problem and not (body.get("spec") or {}).get("managedBy")
    lost = own and status.attempt is None and earlier.attempt is not None
    status = earlier if lost else _without_told(status, earlier)
    if known is not None and (known.uid, known.generation) == (uid, generation) and known.written is not None:
        spec: SliceJobSpec | None = known.written
        problem, accepted = known.problem, known.accepted
    else:
        (spec, problem), accepted = read_spec(body.get("spec") or {}), {}
    return Job(
        namespace=str(metadata["namespace"]),
        name=str(metadata["name"]),
        uid=uid,
        generation=generation,
        resource_version=str(metadata["resourceVersion"]),
        created=_moment(metadata.get("creationTimestamp")),
        spec=spec,
        status=status,
        problem=problem,
        operator_id=labels.get(LABEL_OPERATOR_ID, ""),
        queue=labels.get(QUEUE_LABEL),
        queue_priority=labels.get(QUEUE_PRIORITY_LABEL, ""),
        origin=labels.get(ORIGIN_LABEL, ""),
        deleting=metadata.get("deletionTimestamp") is not None,
        orphaning="orphan" in (metadata.get("finalizers") or ()),
        status_problem=status_problem,
        status_lost=lost,
        stored=packed(stored),
        accepted=accepted,
    )


def read_status(content: Mapping[str, Any]) -> tuple[SliceJobStatus, str]:
    """The status without what only another version knows; and, of what cannot be read at all, one line.

    Fields that cannot be read are left out of the status.
    """
    if content == NEVER_WRITTEN:
        return SliceJobStatus(), ""
    content = {name: _familiar(value) if name == "conditions" else value for name, value in content.items()}
    try:
        return SliceJobStatus.model_validate(content), ""
    except ValidationError as error:
        bad = {one["loc"][0] for one in error.errors()}
        rest = {name: value for name, value in content.items() if name not in bad}
        return SliceJobStatus.model_validate(rest), describe(error, "status")


def _without_told(status: SliceJobStatus, earlier: SliceJobStatus) -> SliceJobStatus:
    """The status of a job that is over, without the attempts whose metrics and Events are written: most of its memory.

    These are the attempts that the version before had alike. A job that was over when it was first read keeps the
    newest attempt alone.
    """
    if not status.final:
        return status
    attempts = status.attempts if earlier.final else earlier.attempts
    kept = (*status.attempts[:1], *(attempt for attempt in status.attempts[1:] if attempt not in attempts))
    return status.model_copy(update={"attempts": kept})


def _familiar(conditions: Any) -> Any:
    """The conditions without those of types that this version does not know."""
    if not isinstance(conditions, list | tuple):
        return conditions
    return [
        condition for condition in conditions if not isinstance(condition, Mapping) or condition.get("type") in _TYPES
    ]


def _moment(text: str | None) -> datetime:
    return datetime.fromisoformat(text) if text else datetime.fromtimestamp(0, UTC)

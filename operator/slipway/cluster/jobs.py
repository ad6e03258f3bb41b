"""What is known of the SliceJobs: read once for each generation, never put back to an older version."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final

from pydantic import ValidationError

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import ConditionType, Phase, SliceJobStatus
from slipway.cluster.graveyard import Graveyard
from slipway.cluster.store import Key
from slipway.planner.snapshot import POD_REJECTED, QUOTA_EXCEEDED, Job

_MAX_VALUE: Final = 80


class JobStore:
    """SliceJobs by namespace and name."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` is monotonic, in seconds."""
        self._jobs: dict[Key, Job] = {}
        self._waiting: dict[_Shape, dict[Key, Job]] = {}
        self._graveyard = Graveyard(clock)

    def __len__(self) -> int:
        return len(self._jobs)

    def get(self, key: Key) -> Job | None:
        """The job as it was last read."""
        return self._jobs.get(key)

    def attempt_ended(self, key: Key) -> bool:
        """Whether the last attempt has ended, so that its pods only have to go."""
        job = self._jobs.get(key)
        return job is not None and job.attempt_ended

    def uids(self) -> dict[Key, str]:
        """UID of every job there is."""
        return {key: job.uid for key, job in self._jobs.items()}

    def upsert(self, body: Mapping[str, Any]) -> Key | None:
        """Take a SliceJob as JSON; returns its key when that is news, None when newer is known or it is gone."""
        metadata = body["metadata"]
        key = (str(metadata["namespace"]), str(metadata["name"]))
        known = self._jobs.get(key)
        if metadata["uid"] in self._graveyard:
            return None
        if known is not None and _version(metadata["resourceVersion"]) <= _version(known.resource_version):
            return None
        self._keep(key, read_job(body, known))
        return key

    def remove(self, key: Key, uid: str | None = None) -> Job | None:
        """Drop a job, if it is that one; returns what was known of it."""
        known = self._jobs.get(key)
        if uid is not None:
            self._graveyard.bury(uid)
        if known is None or (uid is not None and known.uid != uid):
            return None
        self._graveyard.bury(known.uid)
        self._waiting.get(_shape(known), {}).pop(key, None)
        return self._jobs.pop(key)

    def older_waits(self, job: Job) -> bool:
        """Whether an older job waits for capacity of the same shape; asked only of jobs that wait themselves."""
        if not _waits_for_nodes(job):
            return False
        return any(_age(other) < _age(job) for other in self._waiting.get(_shape(job), {}).values())

    def _keep(self, key: Key, job: Job) -> None:
        if (known := self._jobs.get(key)) is not None:
            self._waiting.get(_shape(known), {}).pop(key, None)
        self._jobs[key] = job
        same = self._waiting.setdefault(_shape(job), {})
        if _waits_for_nodes(job):
            same[key] = job
        else:
            same.pop(key, None)


_Shape = tuple[str | None, str | None]


def _shape(job: Job) -> _Shape:
    """What jobs compete for."""
    resolved = job.status.resolved
    return (resolved.label, resolved.topology) if resolved else (None, None)


def _waits_for_nodes(job: Job) -> bool:
    """Whether nodes are what the job waits for, rather than a quota or leave to create its pods."""
    if job.status.phase is not Phase.WAITING_FOR_CAPACITY:
        return False
    known = (one for one in job.status.conditions if one.type == ConditionType.CAPACITY_AVAILABLE)
    return all(one.reason not in (QUOTA_EXCEEDED, POD_REJECTED) for one in known)


def _age(job: Job) -> tuple[datetime, str, str]:
    return job.created, job.namespace, job.name


def _version(text: str) -> int:
    return int(text) if text.isdigit() else 0


def read_job(body: Mapping[str, Any], known: Job | None = None) -> Job:
    """Read a SliceJob; the spec of a `known` one of the same generation is taken over rather than read again."""
    metadata = body["metadata"]
    uid, generation = str(metadata["uid"]), int(metadata.get("generation", 0))
    status, status_problem = read_status(body.get("status") or {})
    if known is not None and (known.uid, known.generation) == (uid, generation) and known.spec is not None:
        spec: SliceJobSpec | None = known.spec
        problem = ""
    else:
        spec, problem = read_spec(body.get("spec") or {})
    if status_problem:
        spec, problem = None, status_problem
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
        deleting=metadata.get("deletionTimestamp") is not None,
    )


def read_spec(content: Mapping[str, Any]) -> tuple[SliceJobSpec | None, str]:
    """The spec, or None and one line that names the field, its value and what is allowed."""
    try:
        return SliceJobSpec.model_validate(content), ""
    except ValidationError as error:
        return None, describe(error, "spec")


def read_status(content: Mapping[str, Any]) -> tuple[SliceJobStatus, str]:
    """The status; fields of a newer Slipway are left alone, anything else unreadable is said in one line."""
    try:
        return SliceJobStatus.model_validate(content), ""
    except ValidationError as error:
        strangers = [one["loc"] for one in error.errors() if one["type"] == "extra_forbidden"]
        if len(strangers) < error.error_count():
            return SliceJobStatus(), describe(error, "status")
        return read_status(_without(content, strangers))


def describe(error: ValidationError, root: str) -> str:
    """The first fault as one line: field, value, what is allowed; and how many more there are."""
    first = error.errors()[0]
    field = root + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"])
    if first["type"] == "extra_forbidden":
        line = f"{field} is not a known field"
    else:
        value = repr(first["input"])
        shown = value if len(value) <= _MAX_VALUE else value[:_MAX_VALUE] + "…"
        # What stands in env is never repeated: it may be a secret.
        named = "" if ".env" in field else f" {shown}"
        line = f"{field}{named}: {first['msg'][0].lower()}{first['msg'][1:]}"
    more = error.error_count() - 1
    return f"{line} (and {more} more)" if more else line


def _without(content: Any, places: list[tuple[int | str, ...]]) -> Any:
    """The content without what stands at these places."""
    here = {place[0] for place in places if len(place) == 1}
    if isinstance(content, Mapping):
        inner = {name: [place[1:] for place in places if len(place) > 1 and place[0] == name] for name in content}
        return {
            name: _without(value, inner[name]) if inner[name] else value
            for name, value in content.items()
            if name not in here
        }
    return [
        _without(value, below) if (below := [p[1:] for p in places if len(p) > 1 and p[0] == index]) else value
        for index, value in enumerate(content)
    ]


def _moment(text: str | None) -> datetime:
    return datetime.fromisoformat(text) if text else datetime.fromtimestamp(0, UTC)

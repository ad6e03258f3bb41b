"""Records what each decision was made from, so that it can be made again elsewhere: one line of JSON a decision.

Node pools are left out: those of new pods are not chosen again, and why a slice has none is not looked into again. The
form follows from the types of `Snapshot`. A field that is added later is read as its default from older records, and
one that is removed is skipped.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec
from pydantic import BaseModel, ValidationError

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import SliceJobStatus
from slipway.controller.observability.log_fields import log_fields
from slipway.core.manifests.redact import HIDDEN, redacted
from slipway.core.model.events import PodEvents
from slipway.core.model.job import Job
from slipway.core.model.reading import read_status
from slipway.core.model.site import NO_SITE
from slipway.core.model.tenants import NOBODY, Tenants, Visitors
from slipway.core.planner.contract.pool_pinning import NodePools
from slipway.core.planner.contract.snapshot import Snapshot
from slipway.core.validation.acceptance import template_hash

log = logging.getLogger(__name__)

MAX_BYTES: Final = 16 * 1024 * 1024
"""Size at which a job's record is moved aside; the one before that is dropped."""


@dataclass(frozen=True, slots=True)
class Record:
    """What one decision was made from."""

    now: datetime
    snapshot: Snapshot
    visitors: Mapping[str, Visitors] = field(default_factory=dict)
    """Pods of others, by node."""


class Recorder:
    """Appends to `<namespace>_<name>.jsonl`, two files of bounded size for each job. For debugging: it blocks."""

    def __init__(self, directory: Path | None, max_bytes: int = MAX_BYTES) -> None:
        """Without a directory nothing is recorded."""
        self._directory = directory
        self._max_bytes = max_bytes

    def add(self, snapshot: Snapshot, now: datetime) -> None:
        """Record a decision that is about to be made; a full disk, or a mistake here, keeps nobody from making it."""
        if self._directory is None:
            return
        job = snapshot.job
        path = self._directory / f"{job.namespace}_{job.name}.jsonl"
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            if path.exists() and path.stat().st_size > self._max_bytes:
                path.replace(path.with_suffix(".jsonl.1"))
            with path.open("ab") as file:
                file.write(line_of(Record(now, snapshot)))
        except OSError as error:
            log.warning("decisions are not recorded any more: %s", error)
            self._directory = None
        except Exception:
            log.exception("a decision is not recorded, by a mistake in Slipway", extra=log_fields(job))


def line_of(record: Record) -> bytes:
    """The record without secrets, without node pools, and without nodes that the decision does not depend on."""
    job = record.snapshot.job
    rivals = tuple(map(_without_secrets, record.snapshot.rivals))
    # Whether a rival can run at all, and why a pod has no node, depends on nodes that this job has no pods on.
    waits = any(not pod.spec.node_name for pod in record.snapshot.pods)
    snapshot = record.snapshot if rivals or waits else _only_its_nodes(record.snapshot)
    events = _its_events(snapshot)
    shown = replace(snapshot, job=_without_secrets(job), rivals=rivals, pools=NodePools(), pod_events=events)
    visitors = record.snapshot.pools.tenants.visitors if waits else {}
    content = msgspec.to_builtins(Record(record.now, shown, visitors), enc_hook=_encoded)
    del content["snapshot"]["pools"]
    hiding = job.site.hiding(job.spec)
    cleaned = _cleaned(content, lambda text: redacted(text, hiding))
    for one in (cleaned["snapshot"]["job"], *cleaned["snapshot"]["rivals"]):
        one.setdefault("spec", None)
    cleaned["snapshot"]["kueue"].setdefault("topologies", None)
    for lease in cleaned["snapshot"]["kubelets"].values():
        lease.setdefault("renewed_at", None)
    return msgspec.json.encode(cleaned) + b"\n"


def records(path: Path) -> Iterator[Record]:
    """Read a file of records, oldest first."""
    decoder = msgspec.json.Decoder(Record, dec_hook=_decoded)
    with path.open("rb") as file:
        for line in file:
            record = decoder.decode(line)
            tenants = Tenants(record.visitors) if record.visitors else NOBODY
            yield replace(record, snapshot=replace(record.snapshot, pools=NodePools(tenants=tenants)))


def _only_its_nodes(snapshot: Snapshot) -> Snapshot:
    pods = chain(snapshot.pods, (vanished.pod for vanished in (*snapshot.vanished, *snapshot.vanished_foreign)))
    names = {pod.spec.node_name for pod in pods}
    known = {field.name: getattr(snapshot, field.name) for field in fields(snapshot) if "nodes" in field.name}
    fewer: dict[str, Any] = {
        field: {name: value for name, value in nodes.items() if name in names}
        for field, nodes in known.items()
        if isinstance(nodes, Mapping)
    }
    return replace(snapshot, **fewer)


def _its_events(snapshot: Snapshot) -> dict[str, PodEvents]:
    of_job = {pod.metadata.uid for pod in snapshot.pods}
    return {uid: read for uid, read in snapshot.pod_events.items() if uid in of_job}


def _without_secrets(job: Job) -> Job:
    """The job without values of environment variables; its template still counts as the one it was accepted with."""
    spec, accepted = job.spec, job.status.resolved
    if spec is None:
        return job
    content = _cleaned(_without_values(_encoded(spec)), lambda text: redacted(text, spec))
    try:
        shown = SliceJobSpec.model_validate(content)
    except ValidationError as error:
        fault = f"cannot be recorded without its secrets: {error.error_count()} faults"
        return replace(job, spec=None, given=None, site=NO_SITE, problem=fault, accepted={})
    status = job.status
    if accepted is not None and accepted.template_hash == template_hash(job.written or spec):
        resolved = accepted.model_copy(update={"template_hash": template_hash(shown)})
        status = status.model_copy(update={"resolved": resolved})
    # The profile has done its part: its defaults are in the spec.
    site = replace(job.site, choice=job.site.choice._replace(profile=None), hidden=())
    return replace(job, spec=shown, given=None, site=site, status=status, accepted={})


def _without_values(content: Any) -> Any:
    """The JSON without what environment variables are set to."""
    if isinstance(content, list):
        return [_without_values(one) for one in content]
    if not isinstance(content, dict):
        return content
    hidden = {name: _without_values(value) for name, value in content.items()}
    if isinstance(content.get("env_vars"), dict):
        hidden["env_vars"] = dict.fromkeys(content["env_vars"], HIDDEN)
    if isinstance(content.get("env"), list):
        hidden["env"] = [one | {"value": HIDDEN} if one.get("value") else one for one in content["env"]]
    return hidden


def _cleaned(content: Any, clean: Callable[[str], str]) -> Any:
    """The JSON with every text cleaned, and without nulls."""
    match content:
        case str():
            return clean(content)
        case dict():
            return {name: _cleaned(value, clean) for name, value in content.items() if value is not None}
        case list() | tuple() | set() | frozenset():
            return [_cleaned(one, clean) for one in content]
    return content


def _encoded(value: Any) -> Any:
    match value:
        case SliceJobSpec():
            return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
        case BaseModel():
            return value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
        case Mapping():
            return dict(value)
        case Tenants():
            # They go with the node pools.
            return {}
    raise NotImplementedError(f"{type(value).__name__} cannot be recorded")


def _decoded(kind: type, content: Any) -> Any:
    if kind is SliceJobStatus:
        status, problem = read_status(content)
        if problem:
            raise ValueError(problem)
        return status
    return kind.model_validate(content)  # type: ignore[attr-defined]

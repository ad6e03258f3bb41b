"""Why a job waits in its queue: Kueue's words, and what would help."""

import re
from dataclasses import dataclass
from typing import Final

from slipway.api import names
from slipway.api.base import rfc3339
from slipway.core.model.workload import ADMITTED, EVICTED, QUOTA_RESERVED, REQUEUED, Workload
from slipway.core.vocabulary.reasons import (
    CHECKS,
    DEACTIVATED,
    DELETED_WORKLOAD,
    ENTERING,
    FINISHED_WORKLOAD,
    NEVER_FITS,
    NO_QUOTA,
    NOT_USABLE,
    PREEMPTS,
    QUEUED,
)

_MOST_NAMES: Final = 3
_MISSING: Final = re.compile(
    r"insufficient unused quota for (?P<what>\S+) in flavor (?P<flavor>[^,]+), (?P<more>\S+) more needed"
)
_TOO_MUCH: Final = re.compile(
    r"insufficient quota for (?P<what>\S+) in flavor (?P<flavor>[^,]+), previously considered podsets requests "
    r"\([^)]+\) \+ current podset request \((?P<asked>[^)]+)\) > maximum capacity \((?P<most>[^)]+)\)"
)
_PREEMPTOR: Final = re.compile(r"\(UID: [^,)]*, JobUID: (?P<uid>[^)]+)\)")
_POD_SET: Final = "couldn't assign flavors to pod set"
_UNITS: Final = {names.TPU_RESOURCE: "chips"}


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the table of what Kueue says of a Workload that has no quota."""

    pattern: re.Pattern[str]
    """What its message must contain; a named group is a name in the text."""
    reason: str
    """One CamelCase word; those of Kueue's own newer versions where they have one."""
    help: str


def _row(pattern: str, reason: str, text: str) -> Row:
    return Row(re.compile(pattern), reason, text)


ROWS: Final = (
    _row(
        r"Pending the preemption of",
        PREEMPTS,
        "it begins when the jobs that it preempts have stopped",
    ),
    Row(
        _TOO_MUCH,
        NEVER_FITS,
        "it never fits: asks {asked} {of_it}, queue has {most}; ask for less, or have the quota raised",
    ),
    Row(_MISSING, NO_QUOTA, "it begins when {more} more {of_it} are free"),
    _row(
        r"resource (?P<what>\S+) unavailable in ClusterQueue",
        "NoMatchingFlavor",
        "the ClusterQueue has no quota for {what}: remove the request from the job, or have the resource added",
    ),
    _row(
        r"doesn't match node affinity|untolerated taint",
        "NoMatchingFlavor",
        "no flavor of the queue has nodes that the job selects: use a queue for this hardware, or change the job",
    ),
    _row(
        r"LocalQueue (?P<name>\S+) doesn't exist",
        "LocalQueueNotFound",
        "create it in the namespace of the job, or change the label kueue.x-k8s.io/queue-name",
    ),
    _row(
        r"namespace doesn't match ClusterQueue selector",
        "NamespaceNotAllowed",
        "have the namespaceSelector of the ClusterQueue changed, or use another queue",
    ),
    _row(
        r"ClusterQueue (?P<name>\S+) (?:doesn't exist|not found)",
        "ClusterQueueNotFound",
        "have it created, or use another queue",
    ),
    _row(
        r"(?P<name>(?:LocalQueue|ClusterQueue) \S+) is inactive",
        "QueueStopped",
        "{name} is stopped or not complete: see its condition Active",
    ),
    _row(
        r"allows? to fit",
        NO_QUOTA,
        "it begins when nodes of the topology are free",
    ),
    _row(
        r"does not support TopologyAwareScheduling",
        "TopologyPlacementFailed",
        "some flavors of the queue have a topologyName and this one has none: have one added, or use another queue",
    ),
    _row(
        r"does not contain the requested level",
        "TopologyPlacementFailed",
        "have the level added to the Topology of the flavor, or use another queue",
    ),
    _row(
        r"[Aa]dmission is gated by",
        "AdmissionGated",
        "it is queued when the annotation kueue.x-k8s.io/admission-gated-by of its Workload is removed",
    ),
)
"""The first row that matches decides; the message of Kueue is shown in any case."""

_EVICTED_WAITS_FOR: Final = {
    "AdmissionCheck": "an admission check asked for it; it is queued again when Kueue says so",
    "LocalQueueStopped": "it is queued again when the LocalQueue is started",
    "ClusterQueueStopped": "it is queued again when the ClusterQueue is started",
}
"""What an evicted job waits for, by the reason of its eviction."""

QUEUE_REASONS: Final = frozenset(
    {
        *(ENTERING, QUEUED, CHECKS, EVICTED, DEACTIVATED, DELETED_WORKLOAD, FINISHED_WORKLOAD, NOT_USABLE),
        *(row.reason for row in ROWS),
        *_EVICTED_WAITS_FOR,
        "PodsReadyTimeout",
    }
)
"""Why a job is not admitted, in one word each; Kueue's own reasons may be others besides."""


def waiting(known: Workload) -> tuple[str, str]:
    """Reason and message of a job whose Workload is not admitted."""
    if known.holds(EVICTED) and (known.status.admission is not None or known.holds(QUOTA_RESERVED)):
        evicted = known.condition(EVICTED)
        return EVICTED, f"evicted by its queue: {evicted.get('reason')}: {evicted.get('message', '')}"
    if not known.spec.active:
        said = known.condition(EVICTED).get("message") or "The workload is deactivated"
        return DEACTIVATED, f"{said}; it is queued again when spec.active of Workload {known.metadata.name} is true"
    requeued = known.condition(REQUEUED)
    if requeued.get("status") == "False":
        return str(requeued.get("reason") or QUEUED), f"{requeued.get('message', '')}; {_held(known)}"
    if known.holds(QUOTA_RESERVED):
        return _checks(known)
    return _quota(known)


def missing(known: Workload, resource: str) -> int:
    """How much more of a resource a Workload needs that has no quota, in the flavor that has most; 0 if unknown."""
    said = str(known.condition(QUOTA_RESERVED).get("message") or "")
    told = [(one["what"], one["more"], "0") for one in _MISSING.finditer(said)]
    told += [(one["what"], one["asked"], one["most"]) for one in _TOO_MUCH.finditer(said)]
    counts = [(asked, has) for what, asked, has in told if what == resource and (asked + has).isdecimal()]
    return min((int(asked) - int(has) for asked, has in counts), default=0)


def is_about(known: Workload, pod_set: str) -> bool:
    """Whether it is that podSet for which there is no quota, as far as Kueue names any."""
    said = str(known.condition(QUOTA_RESERVED).get("message") or "")
    return _POD_SET not in said or f"{_POD_SET} {pod_set}:" in said


def _never_fits(said: str) -> bool:
    """Whether one podSet is too large for every flavor of which Kueue tells what is missing, however much is free."""
    for of_pod_set in said.split(_POD_SET):
        small = {one["flavor"] for one in _TOO_MUCH.finditer(of_pod_set)}
        if small and small >= {one["flavor"] for one in _MISSING.finditer(of_pod_set)}:
            return True
    return False


def preemptor_of(known: Workload) -> str:
    """UID of the job for which a Workload was preempted, as Kueue tells it; empty where it does not."""
    found = _PREEMPTOR.search(str(known.condition(EVICTED).get("message") or ""))
    return found["uid"] if found is not None else ""


def stops_for(known: Workload) -> str:
    """UID of the job for which a Workload is preempted that has its quota still; empty where there is none."""
    return preemptor_of(known) if known.holds(EVICTED) and known.holds(QUOTA_RESERVED) else ""


def with_preempted(message: str, jobs: tuple[str, ...]) -> str:
    """Kueue's words with the names of jobs that it preempts for this one."""
    if not jobs:
        return message
    more = f" and {len(jobs) - _MOST_NAMES} more" if len(jobs) > _MOST_NAMES else ""
    return f"{message}; it preempts SliceJob {', '.join(jobs[:_MOST_NAMES])}{more}"


def with_name(message: str, preemptor: str) -> str:
    """Kueue's words with the name of the job for which it preempted another, in the place of UIDs."""
    return _PREEMPTOR.sub(f"of SliceJob {preemptor}", message) if preemptor else message


def _held(known: Workload) -> str:
    """When an evicted Workload is queued again."""
    due = known.status.requeue_state.requeue_at
    if due is not None:
        return f"it is queued again at {rfc3339(due)}"
    return _EVICTED_WAITS_FOR.get(str(known.condition(REQUEUED).get("reason")), "it is queued again when Kueue says so")


def _checks(known: Workload) -> tuple[str, str]:
    pending = [check for check in known.status.admission_checks if check.state != "Ready"]
    said = "; ".join(f"{one.name}: {one.state}" + (f", {one.message}" if one.message else "") for one in pending)
    words = known.condition(ADMITTED).get("message") or "quota is reserved"
    return CHECKS, f"{words}; admission checks: {said or 'not answered yet'}"


def _quota(known: Workload) -> tuple[str, str]:
    condition = known.condition(QUOTA_RESERVED)
    said = str(condition.get("message") or "")
    if not said:
        return QUEUED, f"waits in LocalQueue {known.spec.queue_name}; Kueue has not considered it yet"
    for row in ROWS:
        if row.reason == NEVER_FITS and not _never_fits(said):
            continue
        if found := row.pattern.search(said):
            named = found.groupdict()
            named["of_it"] = _UNITS.get(named.get("what", ""), f"of {named.get('what')}")
            return row.reason, f"{said}; {row.help.format(**named)}"
    reason = str(condition.get("reason") or "")
    return (reason if reason not in ("", "Pending") else QUEUED), said

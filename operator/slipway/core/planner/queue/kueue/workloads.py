"""What is sent to Kueue of a job, and what its answer adds to the pods."""

import json
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from slipway.api import names
from slipway.api.base import rfc3339
from slipway.api.places import FIRST, HEAD
from slipway.core.manifests.additions import NO_ADDITIONS, PodAdditions
from slipway.core.manifests.containers import part
from slipway.core.manifests.metadata import metadata
from slipway.core.model.parts import Body
from slipway.core.model.workload import (
    ADMITTED,
    EVICTED,
    FINALIZER,
    PODS_READY,
    QUOTA_RESERVED,
    REQUEUED,
    Kueue,
    Workload,
    workload_name,
)
from slipway.core.planner.queue.kueue import topology
from slipway.core.planner.state.draft import Draft
from slipway.core.vocabulary.reasons import DEACTIVATED

OLDER: Final = "kueue.x-k8s.io/v1beta1"
WORKERS: Final = "slice"
RAY_HEAD: Final = "head"
"""Names of the podSets."""
REQUEUED_AT_ONCE: Final = frozenset({"Preempted", "NodeFailures"})
"""Reasons of evictions after which a Workload is queued again at once; after others Kueue or a person decides that."""
_JOB_UID: Final = "kueue.x-k8s.io/job-uid"
_POD_FIELDS: Final = (
    "nodeSelector", "tolerations", "runtimeClassName", "overhead", "priorityClassName", "resources", "resourceClaims",
)  # fmt: skip
_CONTAINER_FIELDS: Final = ("name", "image", "resources", "restartPolicy")
_MAX_MESSAGE: Final = 1024


class Contradiction(Exception):
    """What the queue adds to the pods contradicts the job; the message says what."""


def workload(draft: Draft) -> Body:
    """The Workload that asks for the quota of all pods of an attempt."""
    job, kueue = draft.job, draft.snapshot.kueue
    own = metadata(job, workload_name(job.name), {_JOB_UID: job.uid} | labels_of(draft))
    return {
        "apiVersion": kueue.version,
        "kind": "Workload",
        "metadata": own | {"finalizers": [FINALIZER]},
        "spec": {"active": True, "podSets": pod_sets(draft, draft.spec.most_slices)} | wanted(draft),
    }


def labels_of(draft: Draft) -> dict[str, str]:
    """Labels that tell what pods are asked for, and for which attempt their number was chosen, where there is a choice.

    Kueue completes what it is sent, so the podSets themselves do not tell whether they are what was asked for.
    """
    number = 0 if draft.attempt is None else draft.attempt.number + 1
    chosen = {names.LABEL_ATTEMPT: str(number)} if draft.spec.acceptable_slices else {}
    return chosen | {names.LABEL_POD_SETS: _digest(draft)}


def is_outdated(draft: Draft, known: Workload) -> bool:
    """Whether the next attempt has other pods than the Workload asks for, because the defaults of the site changed."""
    if draft.job.origin or draft.active is not None or draft.problem is not None:
        return False
    return known.metadata.labels.pod_sets not in ("", _digest(draft))


def _digest(draft: Draft) -> str:
    """What a slice takes of the quota: neither the number of slices, nor the image, nor where Kueue places it."""
    taken = [(one["name"], one["count"], _without_images(one["template"]["spec"])) for one in pod_sets(draft, 1)]
    return sha256(json.dumps(taken, sort_keys=True).encode()).hexdigest()[:16]


def _without_images(spec: Body) -> Body:
    kinds = [kind for kind in ("containers", "initContainers") if kind in spec]
    return spec | {kind: [{**one, "image": ""} for one in spec[kind]] for kind in kinds}


def wanted(draft: Draft) -> Body:
    """Queue and priority as the labels of the job name them."""
    job, kueue = draft.job, draft.snapshot.kueue
    spec: Body = {"queueName": job.queue, "priority": kueue.priorities.get(job.queue_priority, 0)}
    if not job.queue_priority:
        return spec
    if kueue.version == OLDER:
        source = "kueue.x-k8s.io/workloadpriorityclass"
        return spec | {"priorityClassName": job.queue_priority, "priorityClassSource": source}
    reference = {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": job.queue_priority}
    return spec | {"priorityClassRef": reference}


def changed_spec(draft: Draft, known: Workload) -> Body | None:
    """What the labels ask for otherwise than the Workload; with quota it cannot change queues, nor gain a class."""
    job, asked, spec = draft.job, wanted(draft), known.spec
    if not names.is_dns_subdomain(job.queue):
        return None
    # A class that was deleted leaves those that have it their priority; one that never was changes nothing.
    unknown_class = bool(job.queue_priority) and job.queue_priority not in draft.snapshot.kueue.priorities
    if unknown_class:
        moves = spec.queue_name != job.queue and not known.holds(QUOTA_RESERVED)
        return {"queueName": job.queue} if moves else None
    same_class = spec.priority_class == job.queue_priority and spec.priority == asked["priority"]
    if known.holds(QUOTA_RESERVED):
        if same_class or not (spec.priority_class and job.queue_priority):
            return None
        return {field: value for field, value in asked.items() if field != "queueName"}
    if same_class and spec.queue_name == job.queue:
        return None
    return asked if job.queue_priority else asked | without_class(draft.snapshot.kueue.version)


def without_class(version: str) -> Body:
    """What takes the priority class out of a Workload."""
    fields = ("priorityClassName", "priorityClassSource") if version == OLDER else ("priorityClassRef",)
    return dict.fromkeys(fields)


def pod_sets(draft: Draft, slices: int) -> list[Body]:
    """The pods of an attempt with so many slices."""
    factory = draft.pod_factory()
    places = draft.runtime.places(slices, draft.resolved.hosts)
    workers = sum(not place.is_head for place in places)
    found: list[Body] = [{"name": WORKERS, "count": workers, "template": _template(factory.pod(0, FIRST))}]
    if HEAD in places:
        found.insert(0, {"name": RAY_HEAD, "count": 1, "template": _template(factory.pod(0, HEAD))})
    for one in found:
        if draft.snapshot.kueue.places(_requests(one["template"])):
            one["topologyRequest"] = topology.request(draft, slices, head=one["name"] == RAY_HEAD)
    return found


def placed(draft: Draft) -> frozenset[str]:
    """The podSets for which Kueue is asked to choose the nodes, as its flavors are now."""
    if not draft.snapshot.kueue.topologies:
        return frozenset()
    return frozenset(one["name"] for one in pod_sets(draft, draft.spec.most_slices) if "topologyRequest" in one)


def _requests(template: Body) -> set[str]:
    """The resources that a pod requests; those with a limit alone are requested as well."""
    spec = template["spec"]
    containers = (*spec["containers"], *spec.get("initContainers", ()))
    asked = [part(one, "resources") for one in (spec, *containers)]
    return {name for one in asked for field in ("requests", "limits") for name in part(one, field)}


def _template(pod: Body) -> Body:
    """What Kueue needs of a pod: resources, and which nodes it selects. No variable of the job is copied."""
    given = pod["spec"]
    spec: Body = {field: given[field] for field in _POD_FIELDS if field in given} | {"restartPolicy": "Never"}
    for kind in ("containers", "initContainers"):
        if given.get(kind):
            spec[kind] = [{field: one[field] for field in _CONTAINER_FIELDS if field in one} for one in given[kind]]
    if nodes := part(given, "affinity").get("nodeAffinity"):
        spec["affinity"] = {"nodeAffinity": nodes}
    return {"metadata": {}, "spec": spec}


def additions(kueue: Kueue, pod_set: str) -> PodAdditions:
    """What the flavors and the checks of an admitted Workload add to the pods of a podSet.

    Raises:
        Contradiction: when two of them contradict each other, or a flavor is not known.
    """
    known = kueue.workload
    if known is None or known.status.admission is None:
        return NO_ADDITIONS
    labels, annotations = dict[str, str](), dict[str, str]()
    selector, tolerations = dict[str, str](), list[Body]()
    for assignment in known.status.admission.pod_set_assignments:
        if assignment.name != pod_set:
            continue
        if assignment.topology_assignment is not None and pod_set not in known.placed:
            raise Contradiction(
                "its ResourceFlavor has a topologyName since it was queued: delete the Workload, and the job is queued "
                "again"
            )
        for name in sorted(set(assignment.flavors.values())):
            if (flavor := kueue.flavors.get(name)) is None:
                raise Contradiction(
                    f"ResourceFlavor {name} is not known: it is missing, or the operator may not list it"
                )
            _merge(selector, flavor.node_labels, "nodeSelector")
            tolerations += flavor.tolerations
    for check in known.status.admission_checks:
        for update in check.pod_set_updates:
            if update.name == pod_set:
                _merge(labels, update.labels, "labels")
                _merge(annotations, update.annotations, "annotations")
                _merge(selector, update.node_selector, "nodeSelector")
                tolerations += update.tolerations
    return PodAdditions(labels, annotations, selector, tuple(tolerations))


def refuse_contradictions(added: PodAdditions, pod: Body) -> None:
    """Compare what a queue adds with what the job says itself.

    Raises:
        Contradiction: naming the key and both values.
    """
    about, spec = pod["metadata"], pod["spec"]
    _merge(dict(about.get("labels") or {}), added.labels, "labels")
    _merge(dict(about.get("annotations") or {}), added.annotations, "annotations")
    _merge(dict(spec.get("nodeSelector") or {}), added.node_selector, "nodeSelector")


def _merge(into: dict[str, str], more: Mapping[str, str], field: str) -> None:
    for key, value in more.items():
        if into.setdefault(key, value) != value:
            raise Contradiction(f"{field} {key}: the queue asks for {value!r}, and it is {into[key]!r}")


def released(known: Workload, now: datetime) -> Body:
    """The patch of the status that gives the quota of an evicted Workload back, in one write.

    A status in which the admission is left while QuotaReserved is False has Kueue give the same quota out twice.
    """
    evicted = known.condition(EVICTED)
    reason, said = str(evicted.get("reason", "")), str(evicted.get("message", ""))
    again = reason in REQUEUED_AT_ONCE
    if reason.startswith(DEACTIVATED):
        # Kueue queues a Workload that is active again for this reason alone, not for one that says why it was not.
        reason = DEACTIVATED
    changed = [
        (QUOTA_RESERVED, False, "Pending", said),
        (ADMITTED, False, "NoReservation", "The workload has no reservation"),
        (REQUEUED, again, reason or "Evicted", said),
    ]
    if known.condition(PODS_READY):
        changed.append((PODS_READY, False, "WaitForStart", said))
    conditions = list(known.status.conditions)
    for kind, holds, why, words in changed:
        conditions = _set(conditions, kind, holds, why, words, now)
    return {"admission": None, "conditions": conditions}


def with_condition(known: Workload, kind: str, holds: bool, reason: str, message: str, now: datetime) -> Body:
    """The patch of the status that sets one condition and keeps all others."""
    return {"conditions": _set(list(known.status.conditions), kind, holds, reason, message, now)}


def _set(
    conditions: list[dict[str, Any]], kind: str, holds: bool, reason: str, message: str, now: datetime
) -> list[dict[str, Any]]:
    value = "True" if holds else "False"
    before = next((one for one in conditions if one.get("type") == kind), {})
    same = before.get("status") == value
    condition = {
        "type": kind,
        "status": value,
        "reason": reason,
        "message": message[:_MAX_MESSAGE],
        "lastTransitionTime": before.get("lastTransitionTime") if same else rfc3339(now.replace(microsecond=0)),
    }
    return [one for one in conditions if one.get("type") != kind] + [condition]


def without_finalizer(known: Workload) -> Body:
    """The patch of the metadata after which Kueue counts nothing for the Workload any more once it is deleted."""
    return {"finalizers": [finalizer for finalizer in known.metadata.finalizers if finalizer != FINALIZER] or None}

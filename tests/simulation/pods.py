"""What the API server does with pods: creation, graceful deletion, status, and what changes them on whose behalf."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from slipway.api import names
from slipway.core.model.pod_parts import OwnerReference, PodCondition, PodLabels, PodMetadata, PodSpec
from slipway.core.model.pods import ENDED_PHASES, Pod
from tests.simulation.store import MARK, NAMESPACE, PodRecord, Store, replace
from tests.simulation.timeline import second


def create(store: Store, body: Mapping[str, Any]) -> PodRecord:
    """A new pod; the name must be free."""
    metadata, spec = body["metadata"], body["spec"]
    labels = metadata["labels"]
    pod = Pod(
        PodMetadata(
            name=metadata["name"],
            namespace=NAMESPACE,
            uid=store.new_uid("pod"),
            creation_timestamp=store.second(),
            labels=PodLabels(
                labels[names.LABEL_JOB_NAME],
                labels[names.LABEL_JOB_UID],
                labels[names.LABEL_ATTEMPT],
                labels.get(names.LABEL_SLICE, ""),
                labels.get(names.LABEL_HOST, ""),
                labels[names.LABEL_ROLE],
                node_pool=labels.get(names.LABEL_NODE_POOL, ""),
            ),
            owner_references=(OwnerReference(metadata["ownerReferences"][0]["uid"]),),
        ),
        PodSpec(termination_grace_period_seconds=spec.get("terminationGracePeriodSeconds", 30)),
    )
    record = PodRecord(
        pod,
        owner=metadata["ownerReferences"][0]["uid"],
        selector=spec.get("nodeSelector", {}),
        slice_key=labels.get(names.LABEL_SLICE_KEY, ""),
        exclusive="podAntiAffinity" in spec.get("affinity", {}),
        kept_out=_kept_out(spec.get("affinity", {})),
        mark=_mark(spec),
    )
    store.put_pod("ADDED", record, pod)
    return record


def _mark(spec: Mapping[str, Any]) -> str:
    return _variable(spec, MARK)


def workers_told(body: Mapping[str, Any]) -> int:
    """How many workers there are in all, as the variables of a pod say."""
    return int(_variable(body["spec"], "SLIPWAY_WORLD_SIZE"))


def _variable(spec: Mapping[str, Any], name: str) -> str:
    containers = (*spec["containers"], *spec.get("initContainers", ()))
    variables = (one for container in containers for one in container.get("env", ()))
    return next((one["value"] for one in variables if one["name"] == name), "")


def _kept_out(affinity: Mapping[str, Any]) -> frozenset[str]:
    required = affinity.get("nodeAffinity", {}).get("requiredDuringSchedulingIgnoredDuringExecution", {})
    rules = [rule for term in required.get("nodeSelectorTerms", []) for rule in term["matchExpressions"]]
    pools = [rule for rule in rules if (rule["key"], rule["operator"]) == (names.NODE_POOL, "NotIn")]
    assert all(rule in pools or rule["operator"] == "DoesNotExist" for rule in rules)
    return frozenset(pool for rule in pools for pool in rule["values"])


def delete(store: Store, record: PodRecord, grace: int | None = None) -> None:
    """Ask a pod to go, as `DELETE` with that grace period does; it may go at once."""
    pod = record.pod
    seconds = record.grace if grace is None else grace
    if not pod.spec.node_name or pod.status.phase in ENDED_PHASES:
        seconds = 0
    if seconds <= 0:
        store.drop_pod(record)
        return
    store.asked_at.setdefault(record.uid, store.timeline.now)
    metadata = pod.metadata
    if metadata.deletion_timestamp is None:
        due = store.second() + timedelta(seconds=seconds)
    elif seconds < (metadata.deletion_grace_period_seconds or 0):
        earlier = (metadata.deletion_grace_period_seconds or 0) - seconds
        due = metadata.deletion_timestamp - timedelta(seconds=earlier)
    else:
        return
    marked = replace(metadata, deletion_timestamp=due, deletion_grace_period_seconds=seconds)
    store.put_pod("MODIFIED", record, replace(pod, metadata=marked))


def bind(store: Store, record: PodRecord, node: str) -> None:
    """The scheduler has chosen a node."""
    bound = condition(store, "PodScheduled")
    spec, status = replace(record.pod.spec, node_name=node), replace(record.pod.status, conditions=(bound,))
    pod = replace(record.pod, spec=spec, status=status)
    store.put_pod("MODIFIED", record, pod)
    store.bound_in[record.uid] = record.version


def set_status(store: Store, record: PodRecord, **changes: Any) -> None:
    """Change the status; nothing is written when that changes nothing, and an ended phase stays."""
    status = record.pod.status
    if status.phase in ENDED_PHASES:
        changes.pop("phase", None)
    changed = replace(status, **changes)
    if changed != status:
        store.put_pod("MODIFIED", record, replace(record.pod, status=changed))


def condition(store: Store, kind: str, reason: str = "", message: str = "", status: str = "True") -> PodCondition:
    """A condition that holds from this second on."""
    return PodCondition(kind, status, reason, message, second(store.timeline.now))


def add_condition(store: Store, record: PodRecord, added: PodCondition, **changes: Any) -> None:
    """Set a condition of a pod; one that holds already keeps its time."""
    for one in record.pod.status.conditions:
        if one.type == added.type and one.status == added.status:
            added = replace(added, last_transition_time=one.last_transition_time)
    others = tuple(one for one in record.pod.status.conditions if one.type != added.type)
    set_status(store, record, conditions=(*others, added), **changes)


def disrupt(store: Store, record: PodRecord, reason: str, message: str = "") -> None:
    """Somebody says why the pod is about to go."""
    add_condition(store, record, condition(store, "DisruptionTarget", reason, message))

"""Where the pods of a slice may run: selectors, tolerations, and the pool each slice has to itself."""

from collections.abc import Collection, Mapping
from typing import Any, Final

from slipway.api import names
from slipway.api.slicejob import SliceJobSpec
from slipway.planner.hardware import Hardware
from slipway.planner.nodes import Node
from slipway.planner.snapshot import Job, Settings

LOST_NODE_SECONDS: Final = 30
"""How long a pod tolerates a NotReady node. A slice that hangs costs all its chips."""

_ONE_NODE: Final = "kubernetes.io/hostname"
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def slice_key(job: Job, slice_index: int) -> str:
    """Label value that is unique to this slice in the cluster and the same in all attempts."""
    return f"{job.uid}-{slice_index}"


def common_tolerations(spec: SliceJobSpec) -> list[dict[str, Any]]:
    """Tolerations of every pod: NotReady nodes for a short time, and those of the spec. Hardware has its own."""
    tolerated: list[dict[str, Any]] = []
    for key in ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"):
        tolerated.append(
            {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": LOST_NODE_SECONDS}
        )
    given = [one.model_dump(by_alias=True, exclude_none=True) for one in spec.tolerations]
    return tolerated + given


def suits(node: Node, selector: Mapping[str, str]) -> bool:
    """Whether a node has these labels, is ready and schedulable, and has only taints for TPUs or requested spot."""
    labels, ready = node.metadata.labels, node.ready
    if any(labels.get(key) != value for key, value in selector.items()) or ready is None or ready.status != "True":
        return False
    if node.spec.unschedulable:
        return False
    asked = {names.TPU_RESOURCE} | (selector.keys() & {names.NODE_SPOT})
    return all(taint.key in asked for taint in node.spec.taints)


def affinity(
    job: Job, slice_index: int, hardware: Hardware, settings: Settings, promised: Collection[str]
) -> dict[str, Any] | None:
    """One node pool for each multi-host TPU slice, shared with no other slice of any job; None for other shapes.

    Args:
        job: the job.
        slice_index: the slice.
        hardware: what its slices run on.
        settings: the operator's.
        promised: the node pools that other slices of the attempt are pinned to. Their pods may have no nodes yet, and
            affinity between pods applies only to pods on nodes.
    """
    if not hardware.own_pool:
        return None
    mine = slice_key(job, slice_index)
    together = {"matchLabels": {names.LABEL_SLICE_KEY: mine}}
    others = {
        "matchExpressions": [
            {"key": names.LABEL_SLICE_KEY, "operator": "Exists"},
            {"key": names.LABEL_SLICE_KEY, "operator": "NotIn", "values": [mine]},
        ]
    }
    topology = {"topologyKey": settings.topology_key}
    rules: dict[str, Any] = {
        "podAffinity": {_REQUIRED: [{"labelSelector": together, **topology}]},
        "podAntiAffinity": {_REQUIRED: [{"labelSelector": others, "namespaceSelector": {}, **topology}]},
    }
    if promised:
        elsewhere = {"key": settings.topology_key, "operator": "NotIn", "values": sorted(promised)}
        rules["nodeAffinity"] = {_REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [elsewhere]}]}}
    return rules


def spread(job: Job, hardware: Hardware) -> list[dict[str, Any]]:
    """CPU workers prefer one node each. A TPU worker has one anyway, because it requests all chips of its node."""
    if hardware.accelerated:
        return []
    return [
        {
            "maxSkew": 1,
            "topologyKey": _ONE_NODE,
            "whenUnsatisfiable": "ScheduleAnyway",
            "labelSelector": _of(job),
        }
    ]


def apart(job: Job) -> dict[str, Any]:
    """No two pods of the job on one node: those with the node's network would take each other's ports."""
    rule = {"labelSelector": _of(job), "topologyKey": _ONE_NODE}
    return {"podAntiAffinity": {_REQUIRED: [rule]}}


def _of(job: Job) -> dict[str, Any]:
    return {"matchLabels": {names.LABEL_JOB_UID: job.uid}}

"""Where the pods of a slice may run: selectors, tolerations, and the pool each slice has to itself."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from slipway.api import names
from slipway.api.gpus import is_gpu
from slipway.api.resources import amount
from slipway.api.slicejob import SliceJobSpec
from slipway.core.manifests.containers import part, template_spec
from slipway.core.manifests.hardware import Hardware
from slipway.core.model.job import Job, Settings
from slipway.core.model.nodes import Node, Taint
from slipway.core.model.parts import Body

_HARD: Final = ("NoSchedule", "NoExecute")
LOST_NODE_SECONDS: Final = 30
"""How long a pod tolerates a NotReady node. A slice that hangs costs all its chips."""

_ONE_NODE: Final = "kubernetes.io/hostname"
_NOWHERE: Final = f"{names.GROUP}/nowhere"
"""A topology key that no node has as a label."""
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
    given = [toleration.model_dump(by_alias=True, exclude_none=True) for toleration in spec.tolerations]
    return tolerated + given


@dataclass(frozen=True, slots=True)
class Needs:
    """What a pod asks of its node."""

    selector: Mapping[str, str]
    """Node labels."""
    tolerations: Collection[Mapping[str, Any]]
    sizes: Mapping[str, Decimal]
    """Requests of all its containers, by resource."""

    @classmethod
    def of(cls, spec: Body) -> "Needs":
        """Those of a PodSpec."""
        inits = [
            (container.get("restartPolicy") == "Always", _asked(container))
            for container in spec.get("initContainers", ())
        ]
        sizes = requested(
            (_asked(container) for container in spec.get("containers", ())), inits, part(spec, "overhead")
        )
        return cls(spec.get("nodeSelector", {}), spec.get("tolerations", ()), sizes)

    @property
    def gpus(self) -> frozenset[str]:
        """The resources among them that are GPUs."""
        return frozenset(name for name, asked in self.sizes.items() if asked and is_gpu(name))

    @property
    def text(self) -> str:
        """All of it; two that have the same text ask the same."""
        asked = (
            sorted(self.selector.items()),
            [sorted(toleration.items()) for toleration in self.tolerations],
            sorted(self.sizes.items()),
        )
        return repr(asked)

    def missing_labels(self, node: Node) -> list[str]:
        """Keys of the labels that a node does not have as asked."""
        labels = node.metadata.labels
        return [key for key, value in self.selector.items() if labels.get(key) != value]

    def too_large(self, node: Node) -> list[str]:
        """Resources of which an empty node has too little."""
        has = node.status.allocatable
        return [name for name, asked in self.sizes.items() if _there(has, name, asked) < asked]

    def kept_out(self, node: Node) -> list[Taint]:
        """Taints of a node that nothing tolerates and that keep pods out."""
        hard = (taint for taint in node.spec.taints if taint.effect in _HARD)
        return [taint for taint in hard if not any(_tolerates(toleration, taint) for toleration in self.tolerations)]


def is_device(resource: str) -> bool:
    """Whether it is an extended resource of an accelerator: TPU chips or GPUs."""
    return resource == names.TPU_RESOURCE or is_gpu(resource)


def requested(
    containers: Iterable[Mapping[str, object]],
    inits: Iterable[tuple[bool, Mapping[str, object]]],
    overhead: Mapping[str, object],
) -> dict[str, Decimal]:
    """What the scheduler takes a pod to request, by resource.

    Args:
        containers: what each of its containers requests.
        inits: what each of its init containers requests, and whether it goes on running beside the containers.
        overhead: that of its RuntimeClass.
    """
    running: dict[str, Decimal] = {}
    peak: dict[str, Decimal] = {}
    for stays, sizes in inits:
        # An init container that ends runs beside those before it that do not.
        before = dict(running)
        target = running if stays else before
        _add(target, sizes)
        peak = {name: max(peak.get(name, Decimal(0)), target.get(name, Decimal(0))) for name in peak | target}
    for sizes in containers:
        _add(running, sizes)
    found = {name: max(peak.get(name, Decimal(0)), running.get(name, Decimal(0))) for name in peak | running}
    _add(found, overhead)
    return found


def _add(sizes: dict[str, Decimal], more: Mapping[str, object]) -> None:
    for name, quantity in more.items():
        sizes[name] = sizes.get(name, Decimal(0)) + (amount(quantity) or Decimal(0))


def _asked(container: Body) -> Mapping[str, object]:
    """A limit without a request is the request."""
    resources = part(container, "resources")
    return part(resources, "limits") | part(resources, "requests")


def suits(node: Node, needs: Needs) -> bool:
    """Whether a node is ready and schedulable, and an empty one would take the pod."""
    return is_open(node, needs) and takes(node, needs)


def is_open(node: Node, needs: Needs) -> bool:
    """Whether a node has the labels, is ready and is schedulable."""
    if needs.missing_labels(node) or node.ready is None or node.ready.status != "True" or node.spec.unschedulable:
        return False
    # A node that is about to go is not chosen, even if the pod tolerates everything.
    return node.well


def takes(node: Node, needs: Needs) -> bool:
    """Whether the pod tolerates the taints of a node, and has room there when it is empty."""
    return not needs.kept_out(node) and not needs.too_large(node)


def _there(has: Mapping[str, str], resource: str, asked: Decimal) -> Decimal:
    """How much of a resource a node has; enough where it is not known.

    A node that says nothing of its devices has none: their plugin has not registered them.
    """
    known = amount(has.get(resource))
    if known is not None:
        return known
    return Decimal(0) if has and is_device(resource) else asked


def _tolerates(toleration: Mapping[str, Any], taint: Taint) -> bool:
    key, effect = toleration.get("key") or "", toleration.get("effect") or ""
    exists = toleration.get("operator") == "Exists"
    if effect not in ("", taint.effect) or key not in ("", taint.key) or (not key and not exists):
        return False
    return exists or (toleration.get("value") or "") == taint.value


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


def spread(job: Job, spec: SliceJobSpec, hardware: Hardware, *, pinned: bool) -> list[dict[str, Any]]:
    """Workers prefer one node each. A TPU worker has one anyway, because it requests all chips of its node.

    In a pinned slice its constraint has a key that no node has. Without one the scheduler takes its defaults for a pod
    that a Service selects, and compares all nodes of the cluster for them, though one node pool alone is in question.
    """
    soft = {"maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"}
    if not hardware.is_tpu:
        of_the_job = {"matchLabels": {names.LABEL_JOB_UID: job.uid}}
        return [soft | {"topologyKey": _ONE_NODE, "labelSelector": of_the_job}]
    if not pinned or "topologySpreadConstraints" in template_spec(spec):
        # Beside ours the scheduler would score no node by those of the template.
        return []
    return [soft | {"topologyKey": _NOWHERE}]


def apart(job: Job, labels: Mapping[str, str]) -> dict[str, Any]:
    """No two pods of the job with these labels on one node."""
    pods = {"matchLabels": {names.LABEL_JOB_UID: job.uid, **labels}}
    return {"podAntiAffinity": {_REQUIRED: [{"labelSelector": pods, "topologyKey": _ONE_NODE}]}}

"""What the API server shows of a node, and the nodes that a slice takes together."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Final

import msgspec
from msgspec.structs import force_setattr
from propcache.api import cached_property

from slipway.api import names
from slipway.api.gpus import is_gpu
from slipway.core.model.parts import ObjectMeta, Part, keep_once, kept_once
from slipway.core.model.pod_parts import PodCondition, kept

SHAPE: Final = (names.NODE_ACCELERATOR, names.NODE_TOPOLOGY, names.NODE_CHIPS)
"""Labels by which the nodes of a slice are of one shape."""
Shape = tuple[str | None, ...]
"""The values of these labels, None of one that is not there or not asked for."""

NODE_CONDITIONS: Final = frozenset(("Ready",))
SIZES: Final = frozenset(("cpu", "memory", "pods", names.TPU_RESOURCE))
"""Resources of which a node shows how much pods may request, besides GPUs."""


class Taint(Part, frozen=True):
    """A taint of a node."""

    key: str
    effect: str = ""
    time_added: datetime | None = None
    value: str = ""

    def __post_init__(self) -> None:
        """Share the texts with taints of other nodes."""
        keep_once(self, ("key", "effect", "value"))


class NodeMetadata(ObjectMeta, frozen=True):
    """Identity and labels of a node."""

    creation_timestamp: datetime | None = None
    labels: dict[str, str] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        """Share the texts with pods and other nodes."""
        keep_once(self, ("name",))
        force_setattr(self, "labels", kept_once(self.labels))


class NodeSpec(Part, frozen=True):
    """The taints of a node."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    """Set by `kubectl cordon`; the taint follows a moment later."""


class NodeStatus(Part, frozen=True):
    """Conditions and size of a node."""

    conditions: tuple[PodCondition, ...] = ()
    allocatable: dict[str, str] = msgspec.field(default_factory=dict)
    """What pods may request of it, as quantities by resource."""

    def __post_init__(self) -> None:
        """Keep only what the planner reads."""
        force_setattr(self, "conditions", kept(self.conditions, NODE_CONDITIONS))
        sizes = {key: value for key, value in self.allocatable.items() if key in SIZES or is_gpu(key)}
        force_setattr(self, "allocatable", kept_once(sizes))


class Node(Part, frozen=True, gc=True, dict=True):
    """A Node."""

    metadata: NodeMetadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @cached_property
    def ready(self) -> PodCondition | None:
        """The Ready condition, whatever its status."""
        return next((condition for condition in self.status.conditions if condition.type == "Ready"), None)

    @cached_property
    def well(self) -> bool:
        """Whether it is not known to be NotReady and has no taint that announces its loss."""
        ready = self.ready
        if ready is not None and ready.status != "True":
            return False
        return not any(taint.key in names.TAINTS_OF_LOSS for taint in self.spec.taints)

    @cached_property
    def silent(self) -> bool:
        """Whether its Ready condition is Unknown: the kubelet has stopped posting its status."""
        return self.ready is not None and self.ready.status == "Unknown"

    @cached_property
    def remembered(self) -> dict[str, Any]:
        """What `explain.candidates` has found of this version of the node, by what a request asks."""
        return {}

    def taint(self, key: str) -> Taint | None:
        """The taint of that key."""
        if not self.spec.taints:
            return None
        return next((taint for taint in self.spec.taints if taint.key == key), None)


def name_of(node: Node) -> str:
    """The name of a node."""
    return node.metadata.name


class NodeGroup:
    """The nodes with TPUs of a node pool, or one node where slices have one host, as they are at a moment."""

    __slots__ = ("members", "name", "nodes", "remembered", "shape")

    def __init__(self, name: str, nodes: tuple[Node, ...]) -> None:
        """`nodes` are in the order of their names."""
        self.name = name
        self.nodes = nodes
        self.members = tuple(map(name_of, nodes))
        """The names of the nodes."""
        self.shape = shape_of(nodes[0])
        self.remembered: dict[str, Any] = {}
        """What `explain.candidates` has found of it, by what a request asks."""


def shape_of(node: Node) -> Shape:
    """The values of its labels `SHAPE`."""
    return tuple(map(node.metadata.labels.get, SHAPE))


def group_of(pool: str, nodes: Iterable[Node]) -> NodeGroup | None:
    """Those nodes of a node pool that have TPUs; None where none has."""
    tpus = tuple(sorted((node for node in nodes if names.NODE_ACCELERATOR in node.metadata.labels), key=name_of))
    return NodeGroup(pool, tpus) if tpus else None


def grouped(nodes: Iterable[Node], pool_key: str) -> list[NodeGroup]:
    """The node pools with TPUs, in the order of their names; a node label of that key says which is whose."""
    found: dict[str, list[Node]] = {}
    for node in nodes:
        if (pool := node.metadata.labels.get(pool_key)) is not None:
            found.setdefault(pool, []).append(node)
    groups = (group_of(pool, members) for pool, members in sorted(found.items()))
    return [group for group in groups if group is not None]

"""Which node pools or nodes could take a slice now, and what keeps a slice out of each of the others.

This repeats what the scheduler's filters do with the pods that Slipway creates, as far as the caches show. A TPU pod
takes all devices of its node, so a node has room for one or for none.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from typing import Final

from slipway.api import names
from slipway.planner.acceptance import accept
from slipway.planner.containers import template_spec
from slipway.planner.nodes import Node, Taint
from slipway.planner.placement import Needs
from slipway.planner.pods import PodFactory
from slipway.planner.snapshot import Job, Settings
from slipway.planner.tenants import Tenant, Tenants

_SHAPE: Final = (names.NODE_ACCELERATOR, names.NODE_TOPOLOGY, names.NODE_CHIPS)
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_CONDITION_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_OWN_RULES: Final = frozenset(("affinity", "schedulingGates", "topologySpreadConstraints", "schedulerName"))
"""Fields of podTemplate.spec with rules for placement that are not repeated here."""
HELD: Final = "NodesHeld"
TOO_LOW: Final = "PriorityTooLow"
TOO_FEW: Final = "TooFewNodes"
_OF_MANY: Final = {"has": "have", "is": "are", "waits": "wait"}


class Kind(IntEnum):
    """What keeps a slice out; the greater, the sooner it may pass by itself."""

    SHAPE = 0
    LABEL = 1
    HOSTS = 2
    SIZE = 3
    TAINT = 4
    CORDONED = 5
    NOT_READY = 6
    HELD = 7


@dataclass(frozen=True, slots=True)
class Obstacle:
    """One thing that keeps a slice out of a site."""

    kind: Kind
    what: str
    """Key of the label, taint, node, resource or tenant."""
    words: str
    """What it is, for people: what is said of one site, beginning with the verb."""
    holder: Tenant | None = field(default=None, compare=False)
    """Who has a node of it."""

    @property
    def words_of_many(self) -> str:
        """The same, said of several sites."""
        verb, _, rest = self.words.partition(" ")
        return f"{_OF_MANY[verb]} {rest}"


@dataclass(frozen=True, slots=True)
class Site:
    """A node pool, or a node where slices have one host: room for one slice, unless something is in its way."""

    name: str
    nodes: tuple[str, ...]
    obstacles: tuple[Obstacle, ...]
    """Those first that are the last to pass."""
    shape: tuple[str, ...]
    """Its labels of accelerator, topology and chips of a host."""

    @property
    def main(self) -> Obstacle:
        """The obstacle that is the last to pass."""
        return self.obstacles[0]

    @property
    def holders(self) -> tuple[Tenant, ...]:
        """Who has nodes of it."""
        return tuple(one.holder for one in self.obstacles if one.holder is not None)

    def has(self, *kinds: Kind) -> bool:
        """Whether an obstacle of such a kind is in the way."""
        return any(one.kind in kinds for one in self.obstacles)


@dataclass(frozen=True, slots=True)
class Request:
    """What the workers of a job ask of nodes."""

    uid: str
    """UID of the job."""
    accelerated: bool
    """Whether they take all devices of their nodes."""
    needs: Needs
    """What one of their pods asks of its node."""
    pool_hosts: int
    """Nodes of a node pool that a slice takes whole; 0 where no slice takes a whole one."""
    own_rules: bool
    """Whether the spec has rules for placement that are not repeated here."""
    alone: bool = False
    """Whether no two of the pods may be on one node."""
    given_labels: Collection[str] = ()
    """Keys of the labels that follow from the accelerator."""


def request_of(job: Job, settings: Settings) -> Request:
    """What the workers of a job ask of nodes.

    Raises:
        InvalidSpec: when the job's spec cannot be accepted.
    """
    asked, factory = accept(job, settings), PodFactory(job, settings)
    return Request(
        uid=job.uid,
        accelerated=asked.hardware.accelerated,
        needs=factory.needs,
        pool_hosts=asked.resolved.hosts if asked.hardware.own_pool else 0,
        own_rules=bool(template_spec(asked.spec).keys() & _OWN_RULES),
        alone=factory.alone,
        given_labels=asked.hardware.labels().keys(),
    )


@dataclass(frozen=True, slots=True)
class Ground:
    """The nodes of the cluster and who has them."""

    nodes: Collection[Node]
    tenants: Tenants
    since: datetime
    """From when on it counts which pods of others were on a node."""
    pool_key: str
    """The node label whose values are node pools."""


def survey(request: Request, ground: Ground) -> list[Site]:
    """Every node pool, or node, in the order of their names, with what keeps a slice out of it.

    For a TPU job that is every one with TPUs, for a GPU job every one with GPUs of that vendor. Who else is on a node
    matters for TPU jobs only.
    """
    return [_site(name, nodes, found) for name, nodes, found in _surveyed(request, ground)]


def vacant(request: Request, ground: Ground) -> list[Site]:
    """The sites of `survey` that nothing is in the way of; of the others no more is looked at than the first thing."""
    return [_site(name, nodes, ()) for name, nodes, found in _surveyed(request, ground) if next(found, None) is None]


def _surveyed(request: Request, ground: Ground) -> Iterator[tuple[str, list[Node], Iterator[Obstacle]]]:
    known = sorted(ground.nodes, key=lambda node: node.metadata.name)
    if request.accelerated:
        known = [node for node in known if names.NODE_ACCELERATOR in node.metadata.labels]
    elif gpus := request.needs.gpus:
        known = [node for node in known if gpus <= node.status.allocatable.keys()]
    if not request.pool_hosts:
        return ((node.metadata.name, [node], _of_node(request, node, ground)) for node in known)
    pools: dict[str, list[Node]] = {}
    for node in known:
        if (pool := node.metadata.labels.get(ground.pool_key)) is not None:
            pools.setdefault(pool, []).append(node)
    return ((pool, nodes, _of_pool(request, pool, nodes, ground)) for pool, nodes in sorted(pools.items()))


def said_alike(sites: Iterable[Site]) -> list[tuple[list[str], str]]:
    """Names of closed sites in whose way the same is, with the words for it; in the order of the first of each."""
    groups: dict[Obstacle, list[str]] = {}
    for site in sites:
        groups.setdefault(site.main, []).append(site.name)
    return [(found, what.words if len(found) == 1 else what.words_of_many) for what, found in groups.items()]


def _site(name: str, members: list[Node], found: Iterable[Obstacle]) -> Site:
    labels = members[0].metadata.labels
    shape = tuple(labels.get(key, "") for key in _SHAPE)
    obstacles = tuple(dict.fromkeys(found))
    if len(obstacles) > 1:
        obstacles = tuple(sorted(obstacles, key=lambda one: (one.kind, one.what)))
    return Site(name, tuple(node.metadata.name for node in members), obstacles, shape)


def _of_pool(request: Request, pool: str, members: list[Node], ground: Ground) -> Iterator[Obstacle]:
    if another := list(_another_shape(request, members[0])):
        # Nothing else matters then, and most node pools of a large cluster are of other shapes.
        yield from another
        return
    if len(members) != request.pool_hosts:
        few = len(members) < request.pool_hosts
        words = f"has {len(members)} {'of' if few else 'hosts, and a slice'} {request.pool_hosts}{' hosts' * few}"
        yield Obstacle(Kind.HOSTS, str(len(members)), words)
    for tenant in ground.tenants.in_pool(pool):
        yield from _held(request, tenant)
    for node in members:
        yield from _of_node(request, node, ground)


def _of_node(request: Request, node: Node, ground: Ground) -> Iterator[Obstacle]:
    if another := list(_another_shape(request, node)):
        yield from another
        return
    name, needs = node.metadata.name, request.needs
    for key in needs.missing_labels(node):
        yield Obstacle(Kind.LABEL, key, _has(node, key))
    for resource in needs.too_large(node):
        words = f"has {node.status.allocatable[resource]} {resource} on each host, less than a pod requests"
        yield Obstacle(Kind.SIZE, resource, words)
    for taint in needs.kept_out(node):
        if not _known_otherwise(taint):
            yield Obstacle(Kind.TAINT, taint.key, _said_of(taint))
    if node.spec.unschedulable:
        yield Obstacle(Kind.CORDONED, name, f"waits for its node {name}, which is cordoned")
    if node.ready is not None and node.ready.status != "True":
        yield Obstacle(Kind.NOT_READY, name, f"waits for its node {name}, which is not ready")
    for tenant in ground.tenants.on(name, ground.since) if request.accelerated else ():
        yield from _held(request, tenant)


def _another_shape(request: Request, node: Node) -> Iterator[Obstacle]:
    labels, selector = node.metadata.labels, request.needs.selector
    for key in _SHAPE:
        if key in selector and labels.get(key) != selector[key]:
            yield Obstacle(Kind.SHAPE, key, _has(node, key))


def _has(node: Node, key: str) -> str:
    labels = node.metadata.labels
    return f"has {key}={labels[key]}" if key in labels else f"has no label {key}"


def _held(request: Request, tenant: Tenant) -> Iterator[Obstacle]:
    if tenant.uid != request.uid:
        yield _held_by(tenant)


@lru_cache(maxsize=1024)
def _held_by(tenant: Tenant) -> Obstacle:
    what = f"{tenant.kind} {tenant.namespace}/{tenant.name}"
    return Obstacle(Kind.HELD, what, f"is held by {tenant.words}", tenant)


def _known_otherwise(taint: Taint) -> bool:
    """Whether the taint follows from a cordon or a condition, which are told of as such."""
    return taint.key == _UNSCHEDULABLE or taint.key in _CONDITION_TAINTS


def _said_of(taint: Taint) -> str:
    if taint.key == names.NODE_SPOT:
        return "has spot nodes, and accelerator.spot is not true"
    value = f"={taint.value}" if taint.value else ""
    return f"has the taint {taint.key}{value}:{taint.effect}, which nothing tolerates"

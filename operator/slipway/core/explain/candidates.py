"""Which node pools or nodes could take a slice now, and what keeps a slice out of each of the others.

This repeats what the scheduler's filters do with the pods that Slipway creates, as far as the caches show. A TPU pod
takes all devices of its node, so a node has room for one or for none.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import IntEnum
from functools import lru_cache
from typing import Any, Final

from propcache.api import cached_property

from slipway.api import names
from slipway.core.manifests.containers import template_spec
from slipway.core.manifests.placement import Needs
from slipway.core.manifests.pods import PodFactory
from slipway.core.model.job import Job, Settings
from slipway.core.model.nodes import SHAPE, Node, NodeGroup, Shape, Taint, grouped, name_of, shape_of
from slipway.core.model.tenants import Tenant, Tenants
from slipway.core.validation.acceptance import accept

_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
_CONDITION_TAINTS: Final = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_OWN_RULES: Final = frozenset(("affinity", "schedulingGates", "topologySpreadConstraints", "schedulerName"))
"""Fields of podTemplate.spec with rules for placement that are not repeated here."""
_MOST_REMEMBERED: Final = 32
"""How many different requests a node or node pool remembers what is in the way of."""
_OF_MANY: Final = {"has": "have", "is": "are", "waits": "wait"}


class Kind(IntEnum):
    """Kinds of obstacles, from permanent ones (a wrong shape) to passing ones (others have the nodes)."""

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


@dataclass(frozen=True)
class Candidate:
    """A node pool, or a node where slices have one host: room for one slice, unless something is in its way."""

    name: str
    nodes: tuple[str, ...]
    obstacles: tuple[Obstacle, ...]
    """Those first that are the last to pass."""
    shape: tuple[str, ...]
    """Its labels of accelerator, topology and chips of a host."""

    @cached_property
    def holders(self) -> tuple[Tenant, ...]:
        """Who has nodes of it."""
        return tuple(obstacle.holder for obstacle in self.obstacles if obstacle.holder is not None)

    @property
    def main(self) -> Obstacle:
        """The obstacle that is the last to pass."""
        return self.obstacles[0]

    def has(self, *kinds: Kind) -> bool:
        """Whether an obstacle of such a kind is in the way."""
        return any(obstacle.kind in kinds for obstacle in self.obstacles)


@dataclass(frozen=True)
class Request:
    """What the workers of a job ask of nodes."""

    uid: str
    """UID of the job."""
    is_tpu: bool
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

    @cached_property
    def shape(self) -> Shape:
        """The values that the selector asks of the labels of the shape."""
        return tuple(map(self.needs.selector.get, SHAPE))

    @cached_property
    def asks(self) -> str:
        """What they ask, as text. A node or node pool has the same obstacles for each request with the same text.

        That does not include the obstacles that come from the pods on the nodes.
        """
        return f"{self.pool_hosts} {self.needs.text}"


def request_of(job: Job, settings: Settings) -> Request:
    """What the workers of a job ask of nodes.

    Raises:
        InvalidSpec: when the job's spec cannot be accepted.
    """
    asked = accept(job, settings)
    factory = PodFactory(job, asked, settings)
    return Request(
        uid=job.uid,
        is_tpu=asked.hardware.is_tpu,
        needs=factory.needs,
        pool_hosts=asked.resolved.hosts if asked.hardware.own_pool else 0,
        own_rules=bool(template_spec(asked.spec).keys() & _OWN_RULES),
        alone=factory.alone,
        given_labels=asked.hardware.labels().keys(),
    )


@dataclass(frozen=True)
class Ground:
    """The nodes of the cluster and who has them."""

    nodes: Collection[Node]
    tenants: Tenants
    since: datetime
    """From when on it counts which pods of others were on a node."""
    pool_key: str
    """The node label whose values are node pools."""
    tpu_pools: Iterable[NodeGroup] | None = None
    """The node pools with TPUs, where somebody keeps them."""

    @cached_property
    def pools(self) -> Sequence[NodeGroup]:
        """The node pools with TPUs, in the order of their names."""
        return grouped(self.nodes, self.pool_key) if self.tpu_pools is None else tuple(self.tpu_pools)

    @cached_property
    def single_nodes(self) -> Sequence[NodeGroup]:
        """Every node, in the order of their names."""
        return [NodeGroup(name_of(node), (node,)) for node in sorted(self.nodes, key=name_of)]

    def groups(self, request: Request) -> Sequence[NodeGroup]:
        """By the request: node pools with TPUs, nodes with TPUs, nodes with GPUs of that vendor, or all nodes."""
        if request.pool_hosts:
            return self.pools
        if request.is_tpu:
            return [group for group in self.single_nodes if names.NODE_ACCELERATOR in group.nodes[0].metadata.labels]
        if gpus := request.needs.gpus:
            return [group for group in self.single_nodes if gpus <= group.nodes[0].status.allocatable.keys()]
        return self.single_nodes


def survey(request: Request, ground: Ground) -> list[Candidate]:
    """Every node pool, or node, with what keeps a slice out of it, in the order of their names.

    Who else is on a node matters for TPU jobs only.
    """
    sites = []
    for group in ground.groups(request):
        # Nothing else matters where the shape is another, as in most node pools of a large cluster.
        another = _another_shape(request.shape, group.shape)
        sites.append(_site(group, another or (*_standing(request, group), *_held(request, group, ground))))
    return sites


def vacant(request: Request, ground: Ground) -> list[Candidate]:
    """The sites of `survey` that nothing is in the way of; who has a node is looked for until one is found."""
    groups = (group for group in ground.groups(request) if not _another_shape(request.shape, group.shape))
    fit = (group for group in groups if not _standing(request, group))
    return [_site(group, ()) for group in fit if next(_held(request, group, ground), None) is None]


def said_alike(sites: Iterable[Candidate]) -> list[tuple[list[str], str]]:
    """Names of closed sites in whose way the same is, with the words for it; in the order of the first of each."""
    groups: dict[Obstacle, list[str]] = {}
    for site in sites:
        groups.setdefault(site.main, []).append(site.name)
    return [(found, what.words if len(found) == 1 else what.words_of_many) for what, found in groups.items()]


def _site(group: NodeGroup, found: Sequence[Obstacle]) -> Candidate:
    shape = tuple([value or "" for value in group.shape])
    obstacles = tuple(dict.fromkeys(found))
    if len(obstacles) > 1:
        obstacles = tuple(sorted(obstacles, key=lambda obstacle: (obstacle.kind, obstacle.what)))
    return Candidate(group.name, group.members, obstacles, shape)


def _standing(request: Request, group: NodeGroup) -> Sequence[Obstacle]:
    """The obstacles that do not come from the pods on the nodes. The first node has the shape that is asked for."""
    if not request.pool_hosts:
        return _in_the_way(request, group.nodes[0])
    return _once(group.remembered, request, lambda: _of_pool(request, group))


def _of_pool(request: Request, group: NodeGroup) -> Iterator[Obstacle]:
    if (count := len(group.nodes)) != request.pool_hosts:
        few = count < request.pool_hosts
        words = f"has {count} {'of' if few else 'hosts, and a slice'} {request.pool_hosts}{' hosts' * few}"
        yield _obstacle(Kind.HOSTS, str(count), words)
    for node in group.nodes:
        yield from _another_shape(request.shape, shape_of(node)) or _in_the_way(request, node)


def _held(request: Request, group: NodeGroup, ground: Ground) -> Iterator[Obstacle]:
    tenants: Iterable[Tenant] = ()
    if request.pool_hosts:
        tenants = ground.tenants.in_pool(group.name, group.members, ground.since)
    elif request.is_tpu:
        tenants = ground.tenants.on(group.name, ground.since)
    return (_held_by(tenant) for tenant in tenants if tenant.uid != request.uid)


def _in_the_way(request: Request, node: Node) -> Sequence[Obstacle]:
    """The obstacles of one node that do not come from the pods on it. It has the shape that is asked for."""
    return _once(node.remembered, request, lambda: _of_node(request.needs, node))


def _once(known: dict[str, Any], request: Request, look: Callable[[], Iterable[Obstacle]]) -> Sequence[Obstacle]:
    """What `look` finds. It is called once for each version of a node or node pool, and for requests that ask the same.

    A job that waits looks at thousands of nodes, and few of them have changed since the last look.
    """
    obstacles: Sequence[Obstacle] | None = known.get(request.asks)
    if obstacles is None:
        if len(known) >= _MOST_REMEMBERED:
            known.clear()
        obstacles = known[request.asks] = tuple(look())
    return obstacles


def _of_node(needs: Needs, node: Node) -> Iterator[Obstacle]:
    name = node.metadata.name
    for key in needs.missing_labels(node):
        yield _obstacle(Kind.LABEL, key, _has(key, node.metadata.labels.get(key)))
    for resource in needs.too_large(node):
        words = f"has {node.status.allocatable.get(resource, '0')} {resource} on each host, less than a pod requests"
        yield _obstacle(Kind.SIZE, resource, words)
    for taint in needs.kept_out(node):
        if not _known_otherwise(taint):
            yield _obstacle(Kind.TAINT, taint.key, _said_of(taint))
    if node.spec.unschedulable:
        yield _obstacle(Kind.CORDONED, name, f"waits for its node {name}, which is cordoned")
    if node.ready is not None and node.ready.status != "True":
        yield _obstacle(Kind.NOT_READY, name, f"waits for its node {name}, which is not ready")


@lru_cache(maxsize=1024)
def _another_shape(asked: Shape, has: Shape) -> tuple[Obstacle, ...]:
    """The labels by which a node is of another shape than a request asks for."""
    different = [which for which in zip(SHAPE, asked, has, strict=True) if which[1] not in (None, which[2])]
    return tuple(Obstacle(Kind.SHAPE, key, _has(key, value)) for key, _, value in different)


@lru_cache(maxsize=1024)
def _obstacle(kind: Kind, what: str, words: str) -> Obstacle:
    """Thousands of nodes share one."""
    return Obstacle(kind, what, words)


def _has(key: str, value: str | None) -> str:
    return f"has no label {key}" if value is None else f"has {key}={value}"


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

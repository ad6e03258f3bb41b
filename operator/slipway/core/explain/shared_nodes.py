"""Why pods that share their nodes with others find no room: how full each node is, by whom, and what would make room.

This repeats how the scheduler counts: what a node offers, less what its pods request.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import partial
from typing import Final

from propcache.api import cached_property

from slipway.api.resources import amount
from slipway.core.explain.candidates import Candidate, Kind, Request
from slipway.core.explain.preemption import HIGHEST, Standing
from slipway.core.explain.remedies import Remedy, Search
from slipway.core.explain.wording import listed
from slipway.core.manifests.placement import is_device
from slipway.core.model.nodes import Node
from slipway.core.model.tenants import Tenant, Use
from slipway.core.vocabulary.reasons import TOO_FEW

_PODS: Final = "pods"
"""What a node offers of places for pods, each of which takes one."""
_MOST_CLAUSES: Final = 3
_MOST_HOLDERS: Final = 2
_MOST_FREED: Final = 3
_MOST_LOOKED_AT: Final = 32
_UNITS: Final = tuple((Decimal(1024**power), suffix) for power, suffix in ((3, "Gi"), (2, "Mi"), (1, "Ki")))

Goes = Callable[[Tenant], bool]
"""Whether a tenant would be gone."""


def _nobody(_: Tenant) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class Room:
    """One node with what its pods request."""

    site: Candidate
    node: Node
    uses: tuple[Use, ...]

    @property
    def name(self) -> str:
        """The name of the node."""
        return self.site.name

    def offers(self, resource: str) -> Decimal:
        """How much of a resource its pods may request in all."""
        return amount(self.node.status.allocatable.get(resource)) or Decimal(0)

    def free(self, resource: str, gone: Goes = _nobody) -> Decimal:
        """How much of it nobody requests, with some tenants gone."""
        return self.offers(resource) - sum(
            (use.sizes.get(resource, Decimal(0)) for use in self.uses if not gone(use.tenant)), Decimal(0)
        )


@dataclass(frozen=True)
class Crowd:
    """The pods of a job that wait, and the nodes that others share with them."""

    request: Request
    waiting: int
    """Pods that the scheduler has found no node for."""
    wanted: int
    """Pods of the attempt."""
    rooms: tuple[Room, ...]

    @cached_property
    def asked(self) -> Mapping[str, Decimal]:
        """What a pod requests, of resources that nodes tell of."""
        known = {name for room in self.rooms for name in room.node.status.allocatable}
        sizes = {name: size for name, size in self.request.needs.sizes.items() if size and name in known}
        return sizes | ({_PODS: Decimal(1)} if _PODS in known else {})

    @cached_property
    def open(self) -> tuple[Room, ...]:
        """The nodes that only their tenants keep pods out of."""
        return tuple(room for room in self.rooms if not room.site.obstacles)

    def capacity(self, room: Room, gone: Goes = _nobody) -> int:
        """How many of the pods a node has room for, with some tenants gone."""
        most = min((int(room.free(name, gone) // size) for name, size in self.asked.items()), default=self.waiting)
        if self.request.alone:
            most = min(most, 0 if any(self.mine(use.tenant) for use in room.uses) else 1)
        return max(most, 0)

    def fits(self, rooms: Collection[Room], gone: Goes = _nobody) -> bool:
        """Whether all pods that wait would find room."""
        return sum(self.capacity(room, gone) for room in rooms) >= self.waiting

    def mine(self, tenant: Tenant) -> bool:
        """Whether it is the job itself."""
        return tenant.uid == self.request.uid

    def lacks(self, room: Room) -> list[str]:
        """Resources of which a node has too little left for one pod more than it has room for."""
        more = self.capacity(room) + 1
        return [name for name, size in self.asked.items() if room.free(name) < size * more]


def near(request: Request, sites: Sequence[Candidate], nodes: Mapping[str, Node], most: int) -> list[Candidate]:
    """The nodes that matter to a job, at most so many: none where more do.

    Nodes with devices that it does not ask for are kept for those that do.
    """
    candidates = list(sites)
    if not any(map(is_device, request.needs.sizes)):
        has = {site.name: any(map(is_device, nodes[site.name].status.allocatable)) for site in sites}
        candidates = [site for site in sites if not site.obstacles or not has[site.name]]
    if len(candidates) > most:
        candidates = [site for site in candidates if not site.obstacles]
    return candidates if len(candidates) <= most else []


def crowded(crowd: Crowd, standing: Standing) -> tuple[str, str]:
    """Reason and message of a job for whose pods the nodes that suit it have no room."""
    count = f"{crowd.waiting} of {crowd.wanted} pods cannot be scheduled"
    rooms = crowd.open
    placed = sum(1 for room in rooms for use in room.uses if crowd.mine(use.tenant))
    in_all = placed + sum(crowd.capacity(room, lambda tenant: not crowd.mine(tenant)) for room in rooms)
    if in_all < placed + crowd.waiting:
        what = "the only node that suits it has" if len(rooms) == 1 else f"the {len(rooms)} nodes that suit it have"
        each = ", one for each node" if crowd.request.alone else ""
        return TOO_FEW, f"{count}: {what} room for {in_all} of its pods even without the pods of others{each}"
    full = sorted((room for room in rooms if not crowd.capacity(room)), key=lambda room: len(crowd.lacks(room)))
    clauses = [_clause(crowd, room) for room in full[:_MOST_CLAUSES]]
    more = len(full) - _MOST_CLAUSES
    clauses += [f"and {more} more node{'s' * (more > 1)}"] if more > 0 else []
    lacking = {name for room in full for name in crowd.lacks(room)}
    asks = " and ".join(_quantity(name, crowd.asked[name]) for name in sorted(lacking - {_PODS}))
    clauses += [f"a pod requests {asks}"] if asks else []
    if not full:
        clauses = [f"the nodes that suit it have room for {sum(map(crowd.capacity, rooms))} of them"]
    reason, words = standing.words(_bar(crowd))
    clauses += [words] if words else []
    return reason, f"{count}: {'; '.join(clauses)}"


def _clause(crowd: Crowd, room: Room) -> str:
    lacks = crowd.lacks(room)
    if not lacks:
        return f"{room.name} has a pod of this job, and each has a node to itself"
    return f"{room.name} has {' and '.join(_left(crowd, room, name) for name in lacks)}"


def _left(crowd: Crowd, room: Room, resource: str) -> str:
    """How much of a resource is left, and who has the rest."""
    free, offers = max(room.free(resource), Decimal(0)), room.offers(resource)
    held: dict[Tenant, Decimal] = {}
    for use in room.uses:
        if size := use.sizes.get(resource):
            held[use.tenant] = held.get(use.tenant, Decimal(0)) + size
    most = sorted(held, key=lambda tenant: (-held[tenant], tenant.title))
    said = [_holds(crowd, tenant, resource, held[tenant]) for tenant in most[:_MOST_HOLDERS]]
    more = len(most) - _MOST_HOLDERS
    said += [f"{more} more {'has' if more == 1 else 'have'} the rest"] if more > 0 else []
    return f"{_number(resource, free)} of {_quantity(resource, offers)} left ({', '.join(said)})"


def _holds(crowd: Crowd, tenant: Tenant, resource: str, size: Decimal) -> str:
    who = "this job" if crowd.mine(tenant) else tenant.words
    return f"{who} has {_number(resource, size)}"


def _bar(crowd: Crowd) -> int | None:
    """The least priority such that the pods fit where all of others up to it are gone; None where none is enough."""
    ranks = {use.tenant.priority for room in crowd.open for use in room.uses if not crowd.mine(use.tenant)}
    return next((rank for rank in sorted(ranks) if crowd.fits(crowd.open, _up_to(crowd, rank))), None)


def _up_to(crowd: Crowd, priority: int) -> Goes:
    return lambda tenant: tenant.priority <= priority and not crowd.mine(tenant)


def make_room(crowd: Crowd, standing: Standing) -> Iterator[Remedy]:
    """Changes after which the pods that wait fit, the smallest first."""
    search = Search(crowd.request, [room.site for room in crowd.rooms], partial(_opened, crowd))
    yield from search.selectors()
    yield from search.tolerations()
    yield from search.uncordoned()
    yield from _outranked(crowd, standing)
    yield from _freed(crowd)


def _opened(crowd: Crowd, kind: Kind, what: str | None) -> tuple[Candidate, ...]:
    """Nodes that the pods need, with those that only obstacles of one kind close; none where they do not suffice."""

    def opened(room: Room) -> bool:
        return all(obstacle.kind is kind and what in (None, obstacle.what) for obstacle in room.site.obstacles)

    rooms = [room for room in crowd.rooms if opened(room)]
    rooms = sorted((room for room in rooms if crowd.capacity(room)), key=lambda room: bool(room.site.obstacles))
    needed: list[Room] = []
    while rooms and not crowd.fits(needed):
        needed.append(rooms.pop(0))
    return tuple(room.site for room in needed) if crowd.fits(needed) else ()


def _outranked(crowd: Crowd, standing: Standing) -> Iterator[Remedy]:
    least = _bar(crowd)
    if least is None or least >= HIGHEST or (standing.preempts and not standing.kept_out(least)):
        return
    gone = _up_to(crowd, least)
    rooms = tuple(room for room in crowd.open if crowd.capacity(room, gone) > crowd.capacity(room))
    whose = {
        use.tenant.title for room in rooms for use in room.uses if gone(use.tenant) and _in_the_way(crowd, room, use)
    }
    yield _remedy("priorityClassName", (least + 1,), standing.raised(least, sorted(whose)), rooms)


def _in_the_way(crowd: Crowd, room: Room, use: Use) -> bool:
    return any(use.sizes.get(name) for name in crowd.lacks(room))


def _freed(crowd: Crowd) -> Iterator[Remedy]:
    """Few tenants without whom the pods fit: those first without whom the most do."""
    rooms, free = crowd.open, list[Tenant]()
    left = _holders(crowd)
    while left and len(free) < _MOST_FREED and not crowd.fits(rooms, free.__contains__):
        gains = {tenant: _gain(crowd, held.rooms, tenant, free) for tenant, held in left.items()}
        # Of those without whom as many fit, who has the least; where none is enough alone, who has the most.
        best = max(left, key=lambda tenant: (gains[tenant], left[tenant].share * (-1 if gains[tenant] else 1)))
        del left[best]
        free.append(best)
    if free and crowd.fits(rooms, free.__contains__):
        nodes = [room for room in rooms if any(use.tenant in free for use in room.uses)]
        words = (
            f"wait for, or free, {listed([tenant.words for tenant in free])} on {listed([room.name for room in nodes])}"
        )
        yield _remedy("free", tuple(tenant.title for tenant in free), words, nodes)


@dataclass(slots=True)
class _Held:
    """What a tenant has of what pods lack."""

    share: Decimal = Decimal(0)
    """In pods of the job."""
    rooms: list[Room] = field(default_factory=list)


def _holders(crowd: Crowd) -> dict[Tenant, _Held]:
    """Who has the most of what a pod lacks."""
    found: dict[Tenant, _Held] = {}
    for room in crowd.open:
        lacks = crowd.lacks(room)
        for use in room.uses:
            share = sum((use.sizes.get(name, Decimal(0)) / crowd.asked[name] for name in lacks), Decimal(0))
            # Pods of Kubernetes' own are there to stay.
            if share and not crowd.mine(use.tenant) and use.tenant.priority <= HIGHEST:
                held = found.setdefault(use.tenant, _Held())
                held.share += share
                if room not in held.rooms:
                    held.rooms.append(room)
    most = sorted(found, key=lambda tenant: (-found[tenant].share, tenant.title, tenant.uid))[:_MOST_LOOKED_AT]
    return {tenant: found[tenant] for tenant in most}


def _gain(crowd: Crowd, rooms: Sequence[Room], tenant: Tenant, free: Sequence[Tenant]) -> int:
    """How many more pods fit when it is gone, too."""
    gone = [*free, tenant].__contains__
    return sum(crowd.capacity(room, gone) - crowd.capacity(room, free.__contains__) for room in rooms)


def _remedy(change: str, values: tuple[str | int | bool, ...], words: str, rooms: Sequence[Room]) -> Remedy:
    return Remedy(change, values, words, tuple(room.site for room in rooms))


def _number(resource: str, size: Decimal) -> str:
    if resource in ("memory", "ephemeral-storage") and size:
        unit, suffix = next((one for one in _UNITS if size >= one[0]), (Decimal(1), ""))
        return f"{size / unit:.1f}".removesuffix(".0") + suffix
    return f"{size.normalize():f}"


def _quantity(resource: str, size: Decimal) -> str:
    return f"{_number(resource, size)} {resource}"

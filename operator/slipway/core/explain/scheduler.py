"""Why the scheduler finds no nodes for a job, in words for people: which node pools there are, and who has them."""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from propcache.api import cached_property

from slipway.api import names
from slipway.core.explain.candidates import Candidate, Ground, Kind, Request, request_of, said_alike, survey
from slipway.core.explain.kubelet import Explanation
from slipway.core.explain.preemption import ORDINARY, Standing, bar
from slipway.core.explain.remedies import Remedy, Scene, remedies
from slipway.core.explain.shared_nodes import Crowd, Room, crowded, make_room, near
from slipway.core.explain.wording import listed
from slipway.core.model.job import Job, Settings
from slipway.core.model.nodes import Node, NodeGroup
from slipway.core.model.tenants import Tenants
from slipway.core.vocabulary.reasons import COMING, HELD, NO_SUCH_LABELS, NO_SUCH_NODES, TOO_FEW, TOO_LOW

VISITS_LAST: Final = timedelta(seconds=60)
"""How long it counts which pods of others were on a node."""
VISITS_APART: Final = timedelta(seconds=5)
"""How long it counts at least."""
MAX_VISITS: Final = 64
"""Nodes whose pods are read for one decision, at most."""
_MOST_CLAUSES: Final = 3
_MOST_SHAPES: Final = 5
_REASONS: Final = {
    Kind.HOSTS: "NodePoolIncomplete",
    Kind.SIZE: "NodesTooSmall",
    Kind.TAINT: "NodesTainted",
    Kind.CORDONED: "NodesCordoned",
    Kind.NOT_READY: "NodesNotReady",
    Kind.HELD: HELD,
}
_SELECTED: Final = (Kind.SHAPE, Kind.LABEL)
"""What keeps pods out of nodes that they do not select."""
NODE_REASONS: Final = {
    NO_SUCH_NODES: "no node has that TPU type and topology, or none is a spot node; the message lists those there are; "
    "of a GPU job: no node has GPUs of that vendor",
    NO_SUCH_LABELS: "no node of that type has a label that `nodeSelector` asks for; the message names the label",
    COMING: "an Event of the cluster autoscaler says that it adds nodes",
    TOO_FEW: "fewer node pools match than slices are wanted; of a GPU or CPU job: the nodes have no room for all its "
    "pods even without the pods of others",
    "NodePoolIncomplete": "a node pool has not as many hosts as a slice",
    "NodesTooSmall": "a pod requests more CPU, memory or GPUs than an empty node has",
    "NodesTainted": "nodes have a taint that nothing tolerates",
    "NodesCordoned": "nodes are cordoned",
    "NodesNotReady": "nodes are not ready",
    HELD: "SliceJobs or pods of others have the nodes; the message names them, their priority and since when",
    TOO_LOW: "SliceJobs or pods of others have the nodes, and the scheduler preempts them only for a higher priority",
}
"""Why there are no nodes, by reason; where several are in the way, the one that may pass first."""


@dataclass(frozen=True)
class View:
    """What an explanation is made from."""

    job: Job
    settings: Settings
    nodes: Collection[Node]
    tenants: Tenants
    slices: int
    """Slices that the attempt wants."""
    refused_at: datetime
    """When the scheduler last said that it finds no node for a pod."""
    now: datetime
    standing: Standing = ORDINARY
    waiting: int = 0
    """Workers that the scheduler has found no node for; 0 where it has found none for another pod, too."""
    wanted: int = 0
    """Pods of the attempt."""
    tpu_pools: Iterable[NodeGroup] | None = None
    """The node pools with TPUs, where somebody keeps them."""

    @cached_property
    def ground(self) -> Ground:
        """The nodes; what was read of them before the scheduler refused, or long ago, does not count."""
        # The clock of the scheduler may be ahead.
        since = min(max(self.refused_at, self.now - VISITS_LAST), self.now - VISITS_APART)
        return Ground(self.nodes, self.tenants, since, self.settings.topology_key, self.tpu_pools)


@dataclass(frozen=True, slots=True)
class Answer:
    """An explanation, and what has to be read before it can be completed."""

    found: Explanation | None
    """None when Slipway sees nothing that is in the way."""
    unread: tuple[str, ...] = ()
    """Nodes that look free and whose pods of others are not known."""
    remedy: Remedy | None = None


def explain_unscheduled(view: View) -> Answer:
    """Why the slices of a job have no nodes, as far as the caches show, and the smallest change that would help.

    Raises:
        InvalidSpec: when the job's spec cannot be accepted.
    """
    request = request_of(view.job, view.settings)
    sites = survey(request, view.ground)
    if request.own_rules or not view.nodes:
        return Answer(None)
    if not request.is_tpu:
        return _of_shared_nodes(view, request, sites)
    free = [site for site in sites if not site.obstacles]
    if len(free) >= view.slices:
        return Answer(None, _unread(view, free))
    explanation = _explained(view, request, sites, len(free))
    if not view.settings.whole_cluster:
        # Pods in other namespaces are not seen.
        return Answer(explanation)
    scene = Scene(view.job, view.settings, request, view.ground, view.slices, tuple(sites), view.standing)
    for remedy in remedies(scene):
        if unread := _unread(view, remedy.sites):
            return Answer(explanation, unread)
        if _seen_whole(view, remedy.sites):
            return Answer(Explanation(explanation.reason, explanation.message, remedy.words), remedy=remedy)
    return Answer(explanation)


def _unread(view: View, sites: Sequence[Candidate]) -> tuple[str, ...]:
    """Nodes to read before it is said that these are free. Nobody reads hundreds of them for one sentence."""
    if not view.settings.whole_cluster:
        return ()
    nodes = _of_nobody(sites)
    visitors, since = view.tenants.visitors, view.ground.since
    old = tuple(node for node in nodes if node not in visitors or visitors[node].read_at < since)
    return old if len(nodes) <= MAX_VISITS else ()


def _of_nobody(sites: Sequence[Candidate]) -> list[str]:
    """Nodes that no SliceJob has, so that others may be there."""
    return [
        node for site in sites if not any(holder.kind == names.KIND for holder in site.holders) for node in site.nodes
    ]


def _seen_whole(view: View, sites: Sequence[Candidate]) -> bool:
    known = [view.tenants.visitors.get(node) for node in _of_nobody(sites)]
    return all(visitors is not None and not visitors.unknown for visitors in known)


def _of_shared_nodes(view: View, request: Request, sites: Sequence[Candidate]) -> Answer:
    """For CPU and GPU jobs: what keeps every node out, or who has them, as far as the pods on them were read."""
    explanation = _closed(request, sites)
    nodes = {node.metadata.name: node for node in view.nodes}
    sites = near(request, sites, nodes, MAX_VISITS)
    if not view.settings.whole_cluster or not view.waiting or not sites:
        return Answer(explanation)
    visitors, since = view.tenants.visitors, view.ground.since
    if unread := tuple(site.name for site in sites if site.name not in visitors or visitors[site.name].read_at < since):
        return Answer(explanation, unread)
    if any(visitors[site.name].unknown for site in sites):
        return Answer(explanation)
    rooms = tuple(Room(site, nodes[site.name], visitors[site.name].uses) for site in sites)
    crowd = Crowd(request, view.waiting, view.wanted, rooms)
    if explanation is None:
        if crowd.fits(crowd.open):
            # The scheduler sees something else in the way.
            return Answer(None)
        explanation = Explanation(*crowded(crowd, view.standing), "")
    remedy = next(make_room(crowd, view.standing), None)
    step = remedy.words if remedy is not None else ""
    return Answer(Explanation(explanation.reason, explanation.message, step), remedy=remedy)


def _closed(request: Request, sites: Sequence[Candidate]) -> Explanation | None:
    """What keeps pods that share nodes out of every node, however full these are."""
    if not sites:
        return Explanation(NO_SUCH_NODES, f"no node has {' and '.join(sorted(request.needs.gpus))}", "")
    if any(not site.obstacles for site in sites):
        return None
    if matching := [site for site in sites if not site.has(*_SELECTED)]:
        near = min(matching, key=lambda site: len(site.obstacles))
        return Explanation(_REASONS[near.main.kind], "; ".join(_clauses(matching)), "")
    lacking = [[obstacle.what for obstacle in site.obstacles if obstacle.kind in _SELECTED] for site in sites]
    keys = min(lacking, key=len)
    if any(set(keys).isdisjoint(others) for others in lacking):
        keys = sorted({key for others in lacking for key in others})
    wanted = " and ".join(f"{key}={request.needs.selector.get(key)}" for key in keys)
    return Explanation(NO_SUCH_LABELS, f"no node has {wanted}", "")


def _explained(view: View, request: Request, sites: Sequence[Candidate], free: int) -> Explanation:
    count = "the slice has no room"
    if view.slices > 1:
        count = f"{free} of {view.slices} slices {'has' if free == 1 else 'have'} room"
    what = "node pool" if request.pool_hosts else "node"
    shaped = [site for site in sites if not site.has(Kind.SHAPE)]
    if not shaped:
        return Explanation(NO_SUCH_NODES, f"{count}: no {what} is {_asked(view, request)}; {_there(sites, what)}", "")
    matching = [site for site in shaped if not site.has(Kind.LABEL)]
    if not matching:
        keys = {obstacle.what for site in shaped for obstacle in site.obstacles if obstacle.kind is Kind.LABEL}
        wanted = " and ".join(f"{key}={request.needs.selector[key]}" for key in sorted(keys))
        some = f"none of the {len(shaped)} {what}s" if len(shaped) > 1 else f"the only {what}"
        has = "has" if len(shaped) > 1 else "does not have"
        spot = keys == {names.NODE_SPOT}
        words = f"{some} of {_asked(view, request)} {has} {wanted}"
        return Explanation(NO_SUCH_NODES if spot else NO_SUCH_LABELS, f"{count}: {words}", "")
    kinds = [site.main.kind for site in matching if site.obstacles]
    few = len(matching) < view.slices
    reason = TOO_FEW if few else _REASONS[max(kinds)]
    there = f"there {'is' if len(matching) == 1 else 'are'} {len(matching)} {what}{'s' * (len(matching) != 1)} of "
    clauses = [there + _asked(view, request)] if few else []
    clauses += _clauses(matching)
    if reason == HELD:
        reason, ranked = _ranked(view, request, matching)
        clauses += [ranked] * bool(ranked)
    return Explanation(reason, f"{count}: {'; '.join(clauses)}", "")


def _ranked(view: View, request: Request, sites: Sequence[Candidate]) -> tuple[str, str]:
    """The reason where others have the nodes, and why the scheduler does not preempt them if priorities matter."""
    found, mine = bar(request, sites, view.slices), view.standing
    reason, words = mine.words(found.least if found is not None else None)
    if words:
        return reason, words
    lower = any(
        holder.kind == names.KIND and holder.priority < mine.priority for site in sites for holder in site.holders
    )
    if request.pool_hosts and lower:
        return HELD, (
            f"this job's priority is {mine.priority}, but the scheduler preempts pods of one node at a time and frees "
            "no node pool for a slice"
        )
    return HELD, ""


def _clauses(sites: Sequence[Candidate]) -> Iterator[str]:
    """What keeps slices out of sites, those first that may soon be open."""
    closed = sorted((site for site in sites if site.obstacles), key=lambda site: -site.main.kind)
    groups = said_alike(closed)
    for found, words in groups[:_MOST_CLAUSES]:
        yield f"{listed(found)} {words}"
    if more := sum(len(found) for found, _ in groups[_MOST_CLAUSES:]):
        yield f"and {more} more"


def _asked(view: View, request: Request) -> str:
    resolved = view.job.status.resolved
    kind = f"{resolved.type} " if resolved is not None and resolved.type else ""
    label, topology = (request.needs.selector.get(key, "") for key in (names.NODE_ACCELERATOR, names.NODE_TOPOLOGY))
    return f"{kind}({label}, {topology})"


def _there(sites: Sequence[Candidate], what: str) -> str:
    shapes = Counter(" ".join(filter(None, site.shape[:2])) for site in sites)
    if not shapes:
        return "the cluster has no TPU nodes"
    listed = [f"{shape} in {count} {what}{'s' * (count != 1)}" for shape, count in shapes.most_common(_MOST_SHAPES)]
    more = f" and {len(shapes) - _MOST_SHAPES} other shapes" if len(shapes) > _MOST_SHAPES else ""
    return f"this cluster has {', '.join(listed)}{more}"

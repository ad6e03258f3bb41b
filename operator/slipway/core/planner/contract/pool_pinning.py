"""Which node pool a slice is pinned to: a free one, where the cache shows one.

Affinity would find one as well, but then the scheduler compares every pod with the pods of every other slice.
Pods of other controllers are not known here: a pool that they are in looks free until an attempt has failed there.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain, filterfalse

from slipway.api.status import SliceJobStatus
from slipway.core.model.nodes import Node, NodeGroup
from slipway.core.model.tenants import NOBODY, Tenants
from slipway.core.vocabulary.endings import ending_of


@dataclass(frozen=True, slots=True)
class Claim:
    """The node pools of one attempt, by slice; "" for a slice that the scheduler places."""

    uid: str
    """UID of the job."""
    attempt: int
    pools: Mapping[int, str]


@dataclass(frozen=True, slots=True)
class NodePools:
    """What is known of node pools, current but for `claim`.

    Where the pods of all jobs are not seen, that is `tpu_pools` alone.
    """

    nodes: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Names of the nodes of each pool."""
    open: Collection[str] = ()
    """Pools that no pod is pinned to and that are promised to no slice, in the order in which they are chosen."""
    pinned: Collection[str] = ()
    """Pools that a pod which has not ended is pinned to."""
    busy: Collection[str] = ()
    """Nodes that a pod which has not ended is bound to."""
    doubted: Collection[str] = ()
    """Pools to choose last."""
    tenants: Tenants = NOBODY
    """Who has the nodes."""
    tpu_pools: Iterable[NodeGroup] | None = None
    """Those with TPUs, in the order of their names; None where nobody keeps them."""
    claim: Claim | None = None
    """That of the job itself."""


def choose(
    known: NodePools,
    nodes: Mapping[str, Node],
    attempt: int,
    slices: Iterable[int],
    hosts: int,
    suits: Callable[[Node], bool],
) -> dict[int, str]:
    """The node pool of each of these slices; "" where none is free. What the attempt has claimed it keeps.

    Args:
        known: the node pools.
        nodes: all nodes by name.
        attempt: the attempt whose pods are about to be created.
        slices: indices of its slices.
        hosts: nodes that a pool must have, no more and no fewer.
        suits: whether a pod of the job may run on a node.
    """
    if not known.nodes:
        return {}
    own: Mapping[int, str] = known.claim.pools if known.claim is not None else {}
    kept = own if known.claim is not None and known.claim.attempt == attempt else {}
    # Pools of the attempt before may be chosen again, but last: whether they caused its end is not recorded yet.
    claimed = () if kept else dict.fromkeys(filter(None, own.values()))
    given_up = tuple(filterfalse(known.pinned.__contains__, claimed))
    free = _free(known, given_up, nodes, hosts, suits)
    return {index: kept[index] if index in kept else next(free, "") for index in slices}


def _free(
    known: NodePools, given_up: Collection[str], nodes: Mapping[str, Node], hosts: int, suits: Callable[[Node], bool]
) -> Iterator[str]:
    trusted = filterfalse(known.doubted.__contains__, chain(known.open, given_up))
    doubted = (pool for pool in known.doubted if pool in known.open or pool in given_up)
    for pool in chain(trusted, doubted):
        members = known.nodes.get(pool, ())
        if len(members) == hosts and all(name not in known.busy and suits(nodes[name]) for name in members):
            yield pool


def claim_over(status: SliceJobStatus) -> bool:
    """Whether the job needs the node pools of its last attempt no longer."""
    return status.final or status.attempt_ended or status.attempt is None


def doubts(status: SliceJobStatus) -> bool:
    """Whether the last attempt's end casts doubt on its node pools."""
    return ending_of(status.newest).doubts_pools

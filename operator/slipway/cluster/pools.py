"""Which node pool a slice is pinned to: a free one, where the cache shows one.

Affinity would find one as well, but then the scheduler compares every pod with the pods of every other slice.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from slipway.cluster.nodes import NodeStore
from slipway.cluster.store import Key, PodStore
from slipway.planner.nodes import Node


@dataclass(slots=True)
class _Claim:
    """The node pools of one attempt, by slice; "" for a slice that found none free."""

    uid: str
    attempt: int
    pools: dict[int, str] = field(default_factory=dict)


class Pools:
    """Chooses node pools, each for one slice at a time.

    A choice is kept as long as its attempt, so that pods whose creation failed on the way go where their siblings are.
    Pods of other controllers are not known here: a pool that they are in looks free, which the planner finds out.
    """

    def __init__(self, nodes: NodeStore, pods: PodStore) -> None:
        self._nodes = nodes
        self._pods = pods
        self._claims: dict[Key, _Claim] = {}
        self._claimed: set[str] = set()
        self._doubted: dict[str, None] = {}

    def choose(
        self, key: Key, uid: str, attempt: int, slices: Iterable[int], hosts: int, suits: Callable[[Node], bool]
    ) -> dict[int, str]:
        """The node pool of each of these slices; "" where none is free.

        Args:
            key: the job.
            uid: the job's UID.
            attempt: the attempt whose pods are about to be created.
            slices: indices of its slices.
            hosts: nodes that a pool must have, no more and no fewer.
            suits: whether a pod of the job may run on a node.
        """
        claim = self._claims.get(key)
        if claim is None or (claim.uid, claim.attempt) != (uid, attempt):
            self.release(key)
            claim = self._claims[key] = _Claim(uid, attempt)
        free = self._free(hosts, suits)
        for index in slices:
            if index not in claim.pools:
                claim.pools[index] = pool = next(free, "")
                self._claimed |= {pool} if pool else set()
        return {index: claim.pools[index] for index in slices}

    def release(self, key: Key, *, doubted: bool = False) -> None:
        """The job's attempt has ended, or the job is gone; pools that are doubted are chosen last from then on."""
        claim = self._claims.pop(key, None)
        if claim is None:
            return
        for pool in filter(None, claim.pools.values()):
            self._claimed.discard(pool)
            self._doubted.pop(pool, None)
            if doubted:
                self._doubted[pool] = None

    def _free(self, hosts: int, suits: Callable[[Node], bool]) -> Iterator[str]:
        trusted = (pool for pool in self._nodes.pools if pool not in self._doubted)
        for pool in (*trusted, *self._doubted):
            nodes = self._nodes.pools.get(pool, ())
            if pool in self._claimed or self._pods.holds_pool(pool) or len(nodes) != hosts:
                continue
            if all(not self._pods.holds_node(name) and suits(self._nodes.view[name]) for name in nodes):
                yield pool

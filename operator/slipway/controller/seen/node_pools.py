"""Node pools: which are open, which have TPUs, and which this process has promised to the slices of jobs.

All are kept from change to change: a large cluster has thousands, and few change at a time.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from itertools import chain

from slipway.core.model.job import Key
from slipway.core.model.nodes import Node, NodeGroup, group_of
from slipway.core.planner.contract.pool_pinning import Claim


class OpenPools(Collection[str]):
    """Node pools that no pod which has not ended is pinned to, and that are promised to no slice.

    Those that were let go last come first, because their nodes have images already; then those that were not let go
    since they appeared.
    """

    def __init__(self) -> None:
        self._there: set[str] = set()
        self._holds: Counter[str] = Counter()
        self._untouched: dict[str, None] = {}
        self._let_go: dict[str, None] = {}

    def __contains__(self, pool: object) -> bool:
        return pool in self._let_go or pool in self._untouched

    def __iter__(self) -> Iterator[str]:
        return chain(reversed(self._let_go), self._untouched)

    def __len__(self) -> int:
        return len(self._let_go) + len(self._untouched)

    def appeared(self, pool: str) -> None:
        """The pool has its first node."""
        self._there.add(pool)
        if pool not in self._holds:
            self._untouched[pool] = None

    def gone(self, pool: str) -> None:
        """The pool has lost its last node."""
        self._there.discard(pool)
        self._close(pool)

    def hold(self, pool: str) -> None:
        """Somebody has the pool, perhaps one more."""
        self._holds[pool] += 1
        self._close(pool)

    def let_go(self, pool: str) -> None:
        """One of those who hold the pool does so no longer."""
        self._holds[pool] -= 1
        if not self._holds[pool]:
            del self._holds[pool]
            if pool in self._there:
                self._let_go[pool] = None

    def _close(self, pool: str) -> None:
        self._untouched.pop(pool, None)
        self._let_go.pop(pool, None)


class TpuPools:
    """The node pools with TPUs, in the order of their names, each with its nodes; always current.

    A node pool that has changed is put together again when somebody looks.
    """

    def __init__(self, nodes: Mapping[str, Node], pools: Mapping[str, Collection[str]]) -> None:
        """`nodes` has every node by its name, `pools` the names of the nodes of every node pool; both are current."""
        self._nodes = nodes
        self._pools = pools
        self._known: dict[str, NodeGroup] = {}
        self._changed: set[str] = set()

    def changed(self, pool: str) -> None:
        """A node of the pool has come, changed or gone."""
        self._known.pop(pool, None)
        if pool in self._pools:
            self._changed.add(pool)
        else:
            self._changed.discard(pool)

    def __iter__(self) -> Iterator[NodeGroup]:
        for pool in self._changed:
            group = group_of(pool, map(self._nodes.__getitem__, self._pools[pool]))
            if group is not None:
                self._known[pool] = group
        self._changed.clear()
        return map(self._known.__getitem__, sorted(self._known))


class Claims:
    """Claims of jobs; one stands as long as its attempt.

    So pods whose creation failed on the way go where their siblings are, and two jobs never choose the same pool.
    """

    def __init__(self, open_pools: OpenPools) -> None:
        """`open_pools` learn what is claimed."""
        self._open = open_pools
        self._claims: dict[Key, Claim] = {}
        self._doubted: dict[str, None] = {}
        self.doubted: Collection[str] = self._doubted.keys()
        """Node pools that did not serve when they were claimed last, the longest ago first."""

    def of(self, key: Key, uid: str) -> Claim | None:
        """The claim of a job."""
        claim = self._claims.get(key)
        return claim if claim is not None and claim.uid == uid else None

    def take(self, key: Key, uid: str, attempt: int, pools: Mapping[int, str]) -> None:
        """Note the node pools that an attempt is about to be created in."""
        claim = self.of(key, uid)
        if claim is None or claim.attempt != attempt:
            self.release(key)
            claim = Claim(uid, attempt, {})
        self._claims[key] = taken = Claim(uid, attempt, {**claim.pools, **pools})
        for pool in filter(None, taken.pools.values()):
            self._open.hold(pool)
        self._let_go(claim)

    def release(self, key: Key) -> Claim | None:
        """Drop the claim of a job and return it."""
        claim = self._claims.pop(key, None)
        if claim is not None:
            self._let_go(claim)
        return claim

    def end(self, key: Key, attempt: int | None, *, doubted: bool) -> None:
        """Drop the claim of a job because its attempt has ended.

        Pools that are doubted are chosen last from then on, until one serves well. A claim for an attempt that never
        began says nothing of its pools.
        """
        claim = self.release(key)
        if claim is None or claim.attempt != attempt:
            return
        for pool in filter(None, claim.pools.values()):
            self._doubted.pop(pool, None)
            if doubted:
                self._doubted[pool] = None

    def _let_go(self, claim: Claim) -> None:
        # Where no pod has them any more, the pool of the first slice is chosen first again.
        for pool in reversed([pool for pool in claim.pools.values() if pool]):
            self._open.let_go(pool)

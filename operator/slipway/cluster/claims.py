"""Which node pools this process has promised to the slices of jobs, as the planner decided."""

from collections.abc import Collection, Mapping

from slipway.cluster.open_pools import OpenPools
from slipway.cluster.store import Key
from slipway.core.planner.contract.node_pools import Claim


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

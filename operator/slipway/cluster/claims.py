"""Which node pools this process has promised to the slices of jobs, as the planner decided."""

from collections.abc import Collection, Mapping

from slipway.cluster.store import Key
from slipway.planner.node_pools import Claim


class Claims:
    """Claims of jobs; one stands as long as its attempt.

    So pods whose creation failed on the way go where their siblings are, and two jobs never choose the same pool.
    """

    def __init__(self) -> None:
        self._claims: dict[Key, Claim] = {}
        self._claimed: set[str] = set()
        self._doubted: dict[str, None] = {}
        self.claimed: Collection[str] = self._claimed
        """Node pools of all claims, always current."""
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
        self._claims[key] = Claim(uid, attempt, {**claim.pools, **pools})
        self._claimed.update(filter(None, pools.values()))

    def release(self, key: Key, *, doubted: bool = False) -> None:
        """The job's attempt has ended, or the job is gone; pools that are doubted are chosen last from then on."""
        claim = self._claims.pop(key, None)
        for pool in filter(None, claim.pools.values() if claim is not None else ()):
            self._claimed.discard(pool)
            self._doubted.pop(pool, None)
            if doubted:
                self._doubted[pool] = None

"""Which node pools are open, after watches, lists and claims in any order: what a count from scratch finds."""

from datetime import UTC, datetime
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.apiserver.watch import Applied, Deleted, Init, InitDone
from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Settings
from slipway.core.model.nodes import Node
from slipway.core.model.pods import Pod
from tests.controller.things import Time, node, pod

POOLS = ("a", "b")
pools, jobs, numbers = st.sampled_from(POOLS), st.sampled_from(["one", "two"]), st.integers(0, 1)
CHANGES = st.one_of(
    st.tuples(st.just("node"), numbers, pools),
    st.tuples(st.just("node_gone"), numbers, st.booleans()),
    st.tuples(st.just("pod"), jobs, numbers, pools, st.sampled_from(["Running", "Succeeded"])),
    st.tuples(st.just("pod_gone"), jobs, numbers, st.booleans()),
    st.tuples(st.just("listed")),
    st.tuples(st.just("claim"), jobs, numbers, st.dictionaries(numbers, st.sampled_from(["", *POOLS]))),
    st.tuples(st.just("release"), jobs),
    st.tuples(st.just("end"), jobs, numbers, st.booleans()),
)


class World:
    """A cache, and what it was told."""

    def __init__(self) -> None:
        self.cache = Cache(Settings(whole_cluster=True), lambda: datetime(2026, 1, 1, tzinfo=UTC), Time())
        self.version = 0
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        self.unseen = False
        """Whether something has gone without an event."""
        self.claims: dict[str, tuple[int, dict[int, str]]] = {}
        """Attempt and node pools by job."""

    def node(self, number: int, pool: str) -> None:
        """A node appears, or another node pool is its own."""
        name = f"n{number}"
        uid = self.nodes[name].metadata.uid if name in self.nodes else ""
        self.nodes[name] = node(name, *self._versioned(uid), pool=pool)
        self.cache.nodes.observe(Applied(self.nodes[name]))

    def node_gone(self, number: int, shown: bool) -> None:
        """A node goes; where it is not `shown`, the watch misses it."""
        gone = self.nodes.pop(f"n{number}", None)
        if gone is not None and shown:
            self.cache.nodes.observe(Deleted(gone))
        self.unseen |= not shown

    def pod(self, job: str, host: int, pool: str, phase: str) -> None:
        """A pod appears, is labelled, or ends."""
        name = f"{job}-0-0-{host}"
        before = self.pods.get(name)
        if before is None or before.may_run:
            uid = before.metadata.uid if before is not None else ""
            self.pods[name] = pod(name, *self._versioned(uid), job=job, pool=pool, phase=phase)
            self.cache.pods.observe(Applied(self.pods[name]))

    def pod_gone(self, job: str, host: int, shown: bool) -> None:
        """A pod goes; where it is not `shown`, the watch misses it."""
        gone = self.pods.pop(f"{job}-0-0-{host}", None)
        if gone is not None and shown:
            self.cache.pods.observe(Deleted(gone))
        self.unseen |= not shown

    def listed(self) -> None:
        """Both watches begin anew."""
        self.version += 1
        for store, there in ((self.cache.nodes, self.nodes), (self.cache.pods, self.pods)):
            store.observe(Init())
            for one in there.values():
                store.observe(Applied(one))
            store.observe(InitDone(str(self.version)))
        self.unseen = False

    def claim(self, job: str, attempt: int, chosen: dict[int, str]) -> None:
        """A job's attempt is promised node pools."""
        self.cache.claims.take(("ns", job), job, attempt, chosen)
        number, before = self.claims.get(job, (attempt, {}))
        self.claims[job] = attempt, (before if number == attempt else {}) | chosen

    def release(self, job: str) -> None:
        """A job is gone."""
        self.cache.claims.release(("ns", job))
        self.claims.pop(job, None)

    def end(self, job: str, attempt: int, doubted: bool) -> None:
        """A job's attempt has ended."""
        self.cache.claims.end(("ns", job), attempt, doubted=doubted)
        self.claims.pop(job, None)

    def _versioned(self, uid: str) -> tuple[int, str]:
        self.version += 1
        return self.version, uid or f"uid-{self.version}"

    def open(self) -> set[str]:
        """The open node pools, counted from scratch."""
        claimed = {pool for _, chosen in self.claims.values() for pool in chosen.values()}
        pinned = {one.metadata.labels.node_pool for one in self.pods.values() if one.may_run}
        there = {one.metadata.labels["cloud.google.com/gke-nodepool"] for one in self.nodes.values()}
        return there - pinned - claimed


@settings(max_examples=500)
@given(st.lists(CHANGES, max_size=30))
def test_open_is_the_node_pool_that_no_pod_is_pinned_to_and_nobody_claims(changes: list[tuple[Any, ...]]) -> None:
    world = World()
    for what, *of in (*changes, ("listed",)):
        getattr(world, what)(*of)
        found = world.cache.nodes.open_pools
        assert len(found) == len(list(found)) == sum(pool in found for pool in POOLS)
        assert world.unseen or set(found) == world.open()


def test_a_node_pool_without_nodes_is_not_open() -> None:
    world = World()
    world.node(0, "a")
    assert set(world.cache.nodes.open_pools) == {"a"}
    world.node_gone(0, shown=True)
    assert set(world.cache.nodes.open_pools) == set()
    world.node(0, "a")
    world.node(0, "b")
    assert set(world.cache.nodes.open_pools) == {"b"}

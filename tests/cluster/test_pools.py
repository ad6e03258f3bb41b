"""Which node pools are free, and for whom they are kept."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from slipway.cluster.cache import Cache
from slipway.cluster.jobs import read_job
from slipway.cluster.nodes import NodeStore
from slipway.cluster.pools import Pools
from slipway.cluster.store import PodStore
from slipway.cluster.watch import Applied, Deleted
from slipway.planner.nodes import Node
from slipway.planner.placement import suits
from slipway.planner.snapshot import Settings
from tests.cluster.things import Time, job_json, node, pod

JOB, OTHER = ("ns", "train"), ("ns", "other")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TPU, SPOT, CORDON = (
    {"key": key, "effect": "NoSchedule"}
    for key in ("google.com/tpu", "cloud.google.com/gke-spot", "node.kubernetes.io/unschedulable")
)


@pytest.fixture
def nodes() -> NodeStore:
    """Three node pools of two nodes."""
    store = NodeStore(lambda: NOW, lambda: 0.0)
    for pool in "abc":
        for host in range(2):
            store.applied(node(f"{pool}-{host}", pool=pool, taints=[TPU]))
    return store


@pytest.fixture
def pods(time: Time) -> PodStore:
    return PodStore(lambda: NOW, time)


@pytest.fixture
def pools(nodes: NodeStore, pods: PodStore) -> Pools:
    return Pools(nodes, pods)


def chosen(
    pools: Pools, *slices: int, job: tuple[str, str] = JOB, attempt: int = 0, selector: dict[str, str] | None = None
) -> list[str]:
    fits = partial(suits, selector=selector or {})
    return list(pools.choose(job, f"uid-{job[1]}", attempt, slices, 2, fits).values())


def test_each_slice_has_one_and_the_last_ones_none(pools: Pools) -> None:
    assert chosen(pools, 0, 1, 2, 3) == ["a", "b", "c", ""]


def test_a_choice_is_kept_as_long_as_the_attempt(pools: Pools) -> None:
    assert chosen(pools, 0, 1) == ["a", "b"]
    assert chosen(pools, 1, 2) == ["b", "c"]
    assert chosen(pools, 0, attempt=1) == ["a"]


def test_two_jobs_do_not_choose_the_same(pools: Pools) -> None:
    assert chosen(pools, 0, 1) == ["a", "b"]
    assert chosen(pools, 0, 1, job=OTHER) == ["c", ""]
    pools.release(JOB)
    assert chosen(pools, 0, 1, job=OTHER) == ["c", ""]
    assert chosen(pools, 0, 1, job=OTHER, attempt=1) == ["a", "b"]


def test_what_was_doubted_comes_last_until_it_served_well(pools: Pools) -> None:
    assert chosen(pools, 0, 1) == ["a", "b"]
    pools.release(JOB, doubted=True)
    assert chosen(pools, 0, 1, attempt=1) == ["c", "a"]
    pools.release(JOB)
    assert chosen(pools, 0, 1, 2, attempt=2) == ["a", "c", "b"]


ENDS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("the attempt runs", {"reason": None, "endTime": None}, ["c"]),
    ("it has ended", {"reason": "ExitCode"}, ["a"]),
    ("its pool was taken", {"reason": "NodePoolTaken"}, ["c"]),
    ("its hosts refused pods", {"reason": "RefusedByNode"}, ["c"]),
]


@pytest.mark.parametrize(("last", "next_choice"), [end[1:] for end in ENDS], ids=[end[0] for end in ENDS])
def test_pools_are_kept_for_an_attempt_until_it_ends(
    last: dict[str, Any], next_choice: list[str], nodes: NodeStore, time: Time
) -> None:
    cache = cache_with(nodes, time)
    assert chosen(cache.pools, 0, 1) == ["a", "b"]
    attempt = {"number": 0, "startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T00:01:00Z"} | last
    cache.tidy(read_job(job_json(status={"attempt": 0, "attempts": [attempt]})))
    assert chosen(cache.pools, 0, job=OTHER) == next_choice


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_pools_of_a_finished_job_are_free(phase: str, nodes: NodeStore, time: Time) -> None:
    cache = cache_with(nodes, time)
    assert chosen(cache.pools, 0) == ["a"]
    cache.tidy(read_job(job_json(status={"phase": phase})))
    assert chosen(cache.pools, 0, job=OTHER) == ["a"]


def test_the_pools_of_a_job_that_is_gone_are_free(nodes: NodeStore, time: Time) -> None:
    cache = cache_with(nodes, time)
    assert chosen(cache.pools, 0) == ["a"]
    cache.forget(JOB)
    assert chosen(cache.pools, 0, job=OTHER) == ["a"]


def cache_with(nodes: NodeStore, time: Time) -> Cache:
    cache = Cache(Settings(), lambda: NOW, time)
    for node_ in nodes.view.values():
        cache.nodes.applied(node_)
    return cache


NEWS: list[tuple[str, Node]] = [
    ("not ready", node("a-0", 2, ready="False", pool="a", taints=[TPU])),
    ("cordoned", node("a-0", 2, pool="a", taints=[TPU, CORDON])),
    ("cordoned, without the taint yet", node("a-0", 2, pool="a", taints=[TPU], unschedulable=True)),
    ("for spot only", node("a-0", 2, pool="a", taints=[TPU, SPOT])),
    ("too large", node("a-2", 2, pool="a", taints=[TPU])),
    ("moved away", node("a-0", 2, pool="b", taints=[TPU])),
    ("left out of all pools", node("a-0", 2, taints=[TPU])),
]


@pytest.mark.parametrize("news", [news for _, news in NEWS], ids=[name for name, _ in NEWS])
def test_a_pool_whose_nodes_do_not_suit_is_not_free(news: Node, pools: Pools, nodes: NodeStore) -> None:
    nodes.observe(Applied(news))
    assert "a" not in chosen(pools, 0, 1, 2)


def test_a_pool_that_has_lost_a_node_is_not_free_until_it_is_back(pools: Pools, nodes: NodeStore) -> None:
    nodes.observe(Deleted(node("a-1", 2, pool="a")))
    assert chosen(pools, 0) == ["b"]
    nodes.observe(Applied(node("a-1", 3, uid="anew", pool="a", taints=[TPU])))
    assert chosen(pools, 1) == ["a"]


def test_a_taint_for_spot_keeps_out_only_who_did_not_ask_for_it(pools: Pools, nodes: NodeStore) -> None:
    for host in range(2):
        labelled = {"cloud.google.com/gke-spot": "true", "cloud.google.com/gke-nodepool": "b"}
        nodes.observe(Applied(node(f"b-{host}", 2, pool="b", labels=labelled, taints=[TPU, SPOT])))
    assert chosen(pools, 0, selector={"cloud.google.com/gke-spot": "true"}) == ["b"]


def test_a_pool_with_a_pod_is_free_once_that_has_ended(pools: Pools, pods: PodStore) -> None:
    pods.applied(pod("other-0-0-0", job="other", node="a-1"))
    pods.applied(pod("other-0-1-0", job="other", pool="b"))
    assert chosen(pools, 0, 1) == ["c", ""]
    pods.applied(pod("other-0-0-0", 2, job="other", node="a-1", phase="Succeeded"))
    pods.observe(Deleted(pod("other-0-1-0", 2, job="other", pool="b")))
    assert chosen(pools, 2, 3) == ["a", "b"]

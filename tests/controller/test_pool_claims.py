"""Which node pools are free, and for whom they are kept."""

from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from slipway.api import names
from slipway.apiserver.watch import Applied, Deleted
from slipway.controller.seen.cache import Cache
from slipway.core.manifests.placement import Needs, suits
from slipway.core.model.job import Settings
from slipway.core.model.nodes import Node
from slipway.core.model.reading import read_job
from slipway.core.planner.contract.pool_pinning import choose
from tests.controller.things import Time, job_json, node, pod

JOB, OTHER = ("ns", "train"), ("ns", "other")
NOW = datetime(2026, 1, 1, tzinfo=UTC)
TPU, SPOT, CORDON = (
    {"key": key, "effect": "NoSchedule"}
    for key in ("google.com/tpu", "cloud.google.com/gke-spot", "node.kubernetes.io/unschedulable")
)


@pytest.fixture
def cache(time: Time) -> Cache:
    """Three node pools of two nodes."""
    found = Cache(Settings(whole_cluster=True), lambda: NOW, time)
    for pool in "abc":
        for host in range(2):
            found.nodes.applied(node(f"{pool}-{host}", pool=pool, taints=[TPU]))
    return found


def chosen(
    cache: Cache, *slices: int, job: tuple[str, str] = JOB, attempt: int = 0, selector: dict[str, str] | None = None
) -> list[str]:
    """What the planner chooses, as the applier notes it."""
    reader = read_job(job_json(uid=f"uid-{job[1]}", name=job[1]))
    asked = {names.TPU_RESOURCE} | ((selector or {}).keys() & {names.NODE_SPOT})
    tolerations = [{"key": key, "operator": "Exists"} for key in asked]
    fits = partial(suits, needs=Needs(selector or {}, tolerations, {}))
    found = choose(cache.node_pools(reader), cache.nodes.view, attempt, slices, 2, fits)
    cache.claims.take(job, reader.uid, attempt, found)
    return list(found.values())


def test_each_slice_has_one_and_the_last_ones_none(cache: Cache) -> None:
    assert chosen(cache, 0, 1, 2, 3) == ["a", "b", "c", ""]


def test_a_choice_is_kept_as_long_as_the_attempt(cache: Cache) -> None:
    assert chosen(cache, 0, 1) == ["a", "b"]
    assert chosen(cache, 1, 2) == ["b", "c"]
    assert chosen(cache, 0, attempt=1) == ["a"]


def test_two_jobs_do_not_choose_the_same(cache: Cache) -> None:
    assert chosen(cache, 0, 1) == ["a", "b"]
    assert chosen(cache, 0, 1, job=OTHER) == ["c", ""]
    cache.claims.release(JOB)
    assert chosen(cache, 0, 1, job=OTHER) == ["c", ""]
    assert chosen(cache, 0, 1, job=OTHER, attempt=1) == ["a", "b"]


def test_a_job_that_restarts_finds_its_pools_again_whose_nodes_have_the_image(cache: Cache) -> None:
    assert chosen(cache, 0) == ["a"]
    assert chosen(cache, 0, 1, job=OTHER) == ["b", "c"]
    for job in (JOB, OTHER):
        cache.claims.end(job, 0, doubted=False)
    assert chosen(cache, 0, 1, 2, job=OTHER, attempt=1) == ["b", "c", "a"]


def test_what_was_doubted_comes_last_until_it_served_well(cache: Cache) -> None:
    assert chosen(cache, 0, 1) == ["a", "b"]
    cache.claims.end(JOB, 0, doubted=True)
    assert chosen(cache, 0, 1, attempt=1) == ["c", "a"]
    cache.claims.end(JOB, 1, doubted=False)
    assert chosen(cache, 0, 1, 2, attempt=2) == ["c", "a", "b"]


def test_a_pool_of_an_earlier_attempt_is_chosen_again_once_its_pods_have_gone(cache: Cache) -> None:
    assert chosen(cache, 0, 1, 2) == ["a", "b", "c"]
    cache.pods.applied(pod("train-0-0-0", pool="a"))
    assert chosen(cache, 0, 1, 2, attempt=1) == ["b", "c", ""]
    cache.pods.observe(Deleted(pod("train-0-0-0", 2, pool="a")))
    assert chosen(cache, 0, attempt=2) == ["a"]


def test_what_is_doubted_and_claimed_is_not_free(cache: Cache) -> None:
    assert chosen(cache, 0) == ["a"]
    cache.claims.end(JOB, 0, doubted=True)
    assert chosen(cache, 0, 1, 2, job=OTHER) == ["b", "c", "a"]
    assert chosen(cache, 0, attempt=1) == [""]


def test_a_claim_of_an_attempt_that_never_began_says_nothing_of_its_pools(cache: Cache) -> None:
    """The write of its status met a conflict, so what the status says is of the attempt before."""
    assert chosen(cache, 0, attempt=1) == ["a"]
    cache.claims.end(JOB, 0, doubted=True)
    assert chosen(cache, 0, job=OTHER) == ["a"]


def test_a_pool_that_a_slice_is_not_created_in_after_all_is_free_again(cache: Cache) -> None:
    assert chosen(cache, 0) == ["a"]
    cache.claims.take(JOB, "uid-train", 0, {0: ""})
    assert chosen(cache, 0, job=OTHER) == ["a"]


ENDS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("the attempt runs", {"reason": None, "endTime": None}, ["c"]),
    ("it has ended", {"reason": "ExitCode"}, ["a"]),
    ("its pool was taken", {"reason": "NodePoolTaken"}, ["c"]),
    ("its hosts refused pods", {"reason": "RefusedByNode"}, ["c"]),
]


@pytest.mark.parametrize(("last", "next_choice"), [end[1:] for end in ENDS], ids=[end[0] for end in ENDS])
def test_pools_are_kept_for_an_attempt_until_it_ends(
    last: dict[str, Any], next_choice: list[str], cache: Cache
) -> None:
    assert chosen(cache, 0, 1) == ["a", "b"]
    attempt = {"number": 0, "startTime": "2026-01-01T00:00:00Z", "endTime": "2026-01-01T00:01:00Z"} | last
    cache.tidy(read_job(job_json(status={"attempt": 0, "attempts": [attempt]})))
    assert chosen(cache, 0, job=OTHER) == next_choice


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_the_pools_of_a_finished_job_are_free(phase: str, cache: Cache) -> None:
    assert chosen(cache, 0) == ["a"]
    cache.tidy(read_job(job_json(status={"phase": phase})))
    assert chosen(cache, 0, job=OTHER) == ["a"]


def test_the_pools_of_a_job_that_is_gone_are_free(cache: Cache) -> None:
    assert chosen(cache, 0) == ["a"]
    cache.forget(JOB, "job-1")
    assert chosen(cache, 0, job=OTHER) == ["a"]


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
def test_a_pool_whose_nodes_do_not_suit_is_not_free(news: Node, cache: Cache) -> None:
    cache.nodes.observe(Applied(news))
    assert "a" not in chosen(cache, 0, 1, 2)


def test_a_pool_that_has_lost_a_node_is_not_free_until_it_is_back(cache: Cache) -> None:
    cache.nodes.observe(Deleted(node("a-1", 2, pool="a")))
    assert chosen(cache, 0) == ["b"]
    cache.nodes.observe(Applied(node("a-1", 3, uid="anew", pool="a", taints=[TPU])))
    assert chosen(cache, 1) == ["a"]


def test_a_taint_for_spot_keeps_out_only_who_did_not_ask_for_it(cache: Cache) -> None:
    for host in range(2):
        labelled = {"cloud.google.com/gke-spot": "true", "cloud.google.com/gke-nodepool": "b"}
        cache.nodes.observe(Applied(node(f"b-{host}", 2, pool="b", labels=labelled, taints=[TPU, SPOT])))
    assert chosen(cache, 0, selector={"cloud.google.com/gke-spot": "true"}) == ["b"]


def test_a_pool_with_a_pod_is_free_once_that_has_ended(cache: Cache) -> None:
    cache.pods.applied(pod("other-0-0-0", job="other", node="a-1"))
    cache.pods.applied(pod("other-0-1-0", job="other", pool="b"))
    assert chosen(cache, 0, 1) == ["c", ""]
    cache.pods.applied(pod("other-0-0-0", 2, job="other", node="a-1", phase="Succeeded"))
    cache.pods.observe(Deleted(pod("other-0-1-0", 2, job="other", pool="b")))
    assert chosen(cache, 2, 3) == ["b", "a"]

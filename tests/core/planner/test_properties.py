"""What holds for every job and every state of its pods, however senseless."""

from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest.mock import patch

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from slipway.api.names import TAINT_IMPENDING_TERMINATION
from slipway.api.places import Place, intervals, parse_intervals, worker
from slipway.api.status import Cause, Phase
from slipway.core.model.pod_parts import PodStatus
from slipway.core.model.pods import Pod
from slipway.core.planner.contract.actions import CreatePods
from slipway.core.planner.state.observation import _Judging
from tests.core.build import World, actions_of

PLACES = st.builds(worker, st.integers(0, 5), st.integers(0, 300))


@given(st.frozensets(PLACES, max_size=80))
def test_intervals_are_read_back_as_written(places: frozenset[Place]) -> None:
    written = intervals(places)
    assert parse_intervals(written) == places
    assert len(written) <= len(places)


HAPPENINGS = (
    "exit 0", "exit 1", "oom", "evict", "delete", "vanish", "terminated", "kubelet", "node gone", "not ready",
    "tainted", "refused", "restart", "suspend", "resume", "senseless",
)  # fmt: skip
EVENTS = st.sampled_from(HAPPENINGS)


def happen(world: World, event: str, host: int) -> None:
    """One thing that clusters do, whether it makes sense in this state or not."""
    key = (world.status.attempt or 0, 0, host)
    pod = world.pod(0, host)
    if event == "suspend":
        world.fields["suspend"] = True
    elif event == "resume":
        world.fields["suspend"] = False
    elif event == "restart":
        world.vanished.clear()
        world.written = None
    elif event == "kubelet":
        for handle in world.all_pods():
            if not handle.now.ended and not handle.now.terminating:
                handle.runs()
        world.obey()
    elif key in world.pods:
        actions: dict[str, Any] = {
            "exit 0": lambda: pod.exits(0),
            "exit 1": lambda: pod.exits(1),
            "oom": lambda: pod.exits(137, reason="OOMKilled"),
            "evict": lambda: pod.has("DisruptionTarget", "EvictionByEvictionAPI").is_deleted(),
            "delete": pod.is_deleted,
            "vanish": pod.vanishes,
            "terminated": lambda: pod.is_deleted().exits(143).vanishes(),
            "node gone": lambda: world.lose_node(pod.now.spec.node_name),
            "not ready": lambda: pod.now.spec.node_name in world.nodes and world.not_ready(pod.now.spec.node_name),
            "tainted": lambda: (
                pod.now.spec.node_name in world.nodes
                and world.taint(pod.now.spec.node_name, TAINT_IMPENDING_TERMINATION)
            ),
            "refused": lambda: pod.fails("UnexpectedAdmissionError"),
            "senseless": lambda: world.pods.update(
                {key: msgspec.structs.replace(pod.now, status=PodStatus(phase="Fnord", reason="?"))}
            ),
        }
        actions[event]()


# E2-54, E2-56: every snapshot gives a plan, whatever a pod says of itself.
@settings(max_examples=300)
@given(st.lists(st.tuples(EVENTS, st.integers(0, 2), st.integers(0, 90)), max_size=25), st.integers(0, 3))
def test_counters_balance_and_nothing_is_charged_twice(history: list[tuple[str, int, int]], limit: int) -> None:
    world = World(slices=1, hosts=3, retries={"maxFailures": limit, "maxPreemptions": limit + 1}).begin()
    for event, host, seconds in history:
        before = world.status
        happen(world, event, host)
        decision = world.step(seconds)
        status = world.status
        ended = [one for one in status.attempts if one.end_time and one.reason != "Succeeded"]
        judged = [one for one in ended if one.cause is not None]
        assert len(judged) == status.failures + status.preemptions + status.uncharged
        assert status.failures == sum(one.cause is Cause.FAILURE for one in judged)
        assert len(ended) - len(judged) <= 1
        assert (status.attempt or 0) >= (before.attempt or 0)
        if before.phase is not None and before.phase.final:
            assert status.phase is before.phase
            assert status.attempts == before.attempts
        if status.phase is None or not status.phase.final:
            assert status.failures < max(1, limit)
            assert status.preemptions < limit + 1
        assert decision.wake_at is None or decision.wake_at > world.now
        for created in actions_of(decision, CreatePods):
            assert created.attempt == status.attempt
            assert not any(key[0] != status.attempt and not pod.ended for key, pod in world.pods.items())


quick_look = _Judging.nothing_to_judge


def checked(judging: _Judging, pod: Pod) -> bool:
    """The quick look, and beside it the long one when there shall be nothing to see."""
    settled = quick_look(judging, pod)
    if settled:
        apart = replace(judging, succeeded=set(judging.succeeded), evidence=[], never_bound=set())
        apart.examine(pod, pod.place, None)
        assert (apart.evidence, apart.succeeded, apart.never_bound) == ([], judging.succeeded, set())
    return settled


@settings(max_examples=200)
@given(st.lists(st.tuples(EVENTS, st.integers(0, 2), st.integers(0, 90)), max_size=20))
def test_the_quick_look_leaves_out_nothing_that_would_be_judged(history: list[tuple[str, int, int]]) -> None:
    world = World(slices=1, hosts=3).run()
    with patch.object(_Judging, "nothing_to_judge", checked):
        for event, host, seconds in history:
            happen(world, event, host)
            world.step(seconds)


@settings(max_examples=200)
@given(st.lists(st.tuples(EVENTS, st.integers(0, 2)), max_size=12))
def test_deciding_again_on_the_same_state_changes_nothing(history: list[tuple[str, int]]) -> None:
    world = World(slices=1, hosts=3).begin()
    for event, host in history:
        happen(world, event, host)
        world.step()
    world.settle(limit=30)
    decision = world.plan()
    assert decision.status == world.status
    assert not actions_of(decision, CreatePods)


@settings(max_examples=100)
@given(st.lists(st.tuples(EVENTS, st.integers(0, 2)), max_size=12))
def test_a_job_left_alone_comes_to_an_end(history: list[tuple[str, int]]) -> None:
    world = World(slices=1, hosts=3).begin()
    for event, host in history:
        happen(world, event, host)
        world.step()
    world.fields["suspend"] = False
    for _ in range(20):
        world.now += timedelta(seconds=400)
        world.obey()
        world.settle(limit=30)
        for handle in world.all_pods():
            if handle.key[0] == world.status.attempt and not handle.now.ended and not handle.now.terminating:
                handle.binds(f"fresh-{handle.key[1]}-{handle.key[2]}-{world.now:%H%M%S}")
                handle.exits(0)
        world.settle(limit=30)
        if world.status.phase is not None and world.status.phase.final:
            return
    assert world.status.phase in (Phase.SUCCEEDED, Phase.FAILED), world.status

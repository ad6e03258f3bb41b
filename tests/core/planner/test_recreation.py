"""Pods that somebody deletes before they have a node are created again, ever less often, and the status says so."""

from datetime import timedelta
from itertools import pairwise

import pytest

from slipway.api.places import worker
from slipway.core.planner.contract.actions import CreatePods, Plan
from tests.core.build import START, World, actions_of


def created(decision: Plan) -> int:
    return sum(len(action.places) for action in actions_of(decision, CreatePods))


def deleted_all_the_time(world: World, *, seconds: int) -> list[float]:
    """Somebody deletes every new pod; the seconds at which pods were created."""
    times = []
    until = world.now + timedelta(seconds=seconds)
    while world.now < until and not world.status.final:
        for handle in world.all_pods():
            handle.vanishes(seen=True)
        decision = world.step(seconds=0.5)
        times += [(world.now - START).total_seconds()] * created(decision)
    return times


def test_a_pod_that_waited_for_long_is_created_again_at_once() -> None:
    world = World(hosts=2).begin()
    world.now += timedelta(hours=1)
    world.pod(0, 1).vanishes(seen=True)
    assert created(world.step()) == 1
    assert world.condition("Running").reason == "Starting"


def test_a_new_pod_is_created_again_after_two_seconds() -> None:
    world = World(hosts=2).begin()
    world.pod(0, 1).vanishes(seen=True)
    decision = world.step(seconds=1)
    assert (created(decision), decision.wake_at) == (0, START + timedelta(seconds=2))
    assert created(world.step(seconds=1)) == 1


@pytest.mark.parametrize(("after", "apart"), [(0, 2), (40, 10), (400, 100), (1200, 300), (40_000, 300)])
def test_the_longer_an_attempt_has_been_starting_the_less_often_its_pods_are_created(after: int, apart: int) -> None:
    world = World().begin()
    world.now = START + timedelta(seconds=after)
    world.pods.clear()
    world.add_pod(0, worker(0, 0))
    world.pod(0, 0).vanishes(seen=True)
    decision = world.plan()
    assert (created(decision), decision.wake_at) == (0, START + timedelta(seconds=after + apart))


def test_pods_that_somebody_always_deletes_cost_few_requests() -> None:
    times = deleted_all_the_time(World(hosts=4).begin(), seconds=1800)
    assert len(times) < 4 * 32
    assert max(later - earlier for earlier, later in pairwise(times)) > 290


def test_the_status_says_that_somebody_deletes_them() -> None:
    world = World(hosts=4).begin()
    deleted_all_the_time(world, seconds=120)
    assert (world.status.phase, world.condition("Running").reason) == ("Pending", "PodsDeleted")
    message = world.condition("Running").message
    assert "4 of 4 pods were deleted before they had a node, for example train-0-0-0" in message
    assert "find out who deletes them" in message
    assert "the next ones are created at 2026-11-21T12:0" in message
    assert (world.status.attempt, world.status.uncharged) == (0, 0)


def test_other_pods_are_created_meanwhile() -> None:
    world = World(hosts=3).begin()
    world.pod(0, 1).vanishes(seen=True)
    del world.pods[0, 0, 2]
    [action] = actions_of(world.step(seconds=1), CreatePods)
    assert action.places == (worker(0, 2),)


def test_nodes_are_released_when_the_other_pods_are_always_deleted() -> None:
    world = World(hosts=2).begin()
    world.pod(0, 0).binds()
    while world.attempt.end_time is None and world.now < START + timedelta(hours=1):
        if (0, 0, 1) in world.pods:
            world.pod(0, 1).vanishes(seen=True)
        world.step(seconds=1)
    [attempt] = world.status.attempts
    assert (attempt.reason, attempt.cause) == ("PodsRefused", "uncharged")
    assert world.now - START < timedelta(minutes=10)
    assert "1 of 2 pods held nodes for 60 s in vain: 1 of 2 pods were deleted" in (attempt.message or "")


def test_a_job_that_gets_no_pods_ends_when_its_time_for_nodes_is_over() -> None:
    world = World(hosts=2, timeouts={"scheduleSeconds": 600}).begin()
    deleted_all_the_time(world, seconds=700)
    assert world.status.result is not None
    assert (world.status.phase, world.status.result.reason) == ("Failed", "ScheduleTimeout")
    assert "2 of 2 pods were deleted before they had a node, for example train-0-0-0" in world.status.result.message

"""Waiting for nodes: nothing is charged, fewer slices may do, and two jobs never block each other for ever."""

from datetime import timedelta

import pytest

from slipway.api.status import Phase
from slipway.planner import environment
from slipway.planner.actions import CreatePods, CreateServices, DeletePods, ListPods, Plan
from slipway.planner.pods import PodFactory
from slipway.planner.snapshot import NAME_TAKEN, QUOTA_EXCEEDED, WAITING_FOR_OLD, Rejection, Settings

from .build import World, actions_of


def waiting(*, placed: int, slices: int = 4, **fields: object) -> World:
    """An attempt of which the first slices have nodes and run, and the others have none."""
    world = World(slices=slices, hosts=2, **fields).begin()
    for handle in world.all_pods():
        handle.runs() if handle.key[1] < placed else handle.unschedulable()
    world.step(seconds=6)
    return world


def test_waiting_is_a_phase_with_the_schedulers_words_and_charges_nothing() -> None:  # B-50, E2-16, E2-24
    world = waiting(placed=1)
    assert world.status.phase is Phase.WAITING_FOR_CAPACITY
    available = world.condition("CapacityAvailable")
    assert available is not None
    assert (available.status, available.reason) == ("False", "Unschedulable")
    assert "6 of 8 pods cannot be scheduled: 0/4 nodes are available" in available.message
    assert world.status.hosts[0].reason == "Unschedulable"
    assert (world.status.failures, world.status.preemptions, world.status.uncharged) == (0, 0, 0)


def test_each_look_in_vain_is_counted() -> None:  # E2-52
    world = waiting(placed=0)
    looks = [world.status.capacity_waits]
    for _ in range(3):
        world.step(seconds=60)
        looks.append(world.status.capacity_waits)
    assert looks == [1, 2, 3, 4]
    assert world.plan().wake_at == world.now + timedelta(seconds=60)


def test_a_gated_pod_is_queued() -> None:
    world = World().begin()
    world.pod(0, 0).has("PodScheduled", "SchedulingGated", status="False")
    world.step(seconds=6)
    assert world.status.phase is Phase.QUEUED


def test_the_wait_ends_the_job_when_it_has_taken_too_long() -> None:
    world = waiting(placed=1, timeouts={"scheduleSeconds": 600})
    world.step(seconds=600)
    assert world.status.phase is Phase.FAILED
    assert world.status.result is not None
    assert world.status.result.reason == "ScheduleTimeout"
    assert "0/4 nodes are available" in world.status.result.message
    assert (world.status.failures, world.status.uncharged) == (0, 1)


def test_a_full_quota_is_asked_again_only_after_a_while() -> None:
    world = World()
    world.rejection = Rejection("exceeded quota: pods", world.now, QUOTA_EXCEEDED)
    assert not actions_of(world.step(), CreatePods)
    world.step(seconds=6)
    assert world.status.phase is Phase.WAITING_FOR_CAPACITY
    assert actions_of(world.step(seconds=60), CreatePods)


def test_what_an_earlier_job_of_this_name_has_left_is_waited_for_and_looked_at_again_soon() -> None:
    world = World()
    world.rejection = Rejection("Service train of an earlier job must go first", world.now, WAITING_FOR_OLD)
    assert not actions_of(world.step(), CreatePods)
    running = world.condition("Running")
    assert running is not None
    assert (world.status.phase, running.reason) == ("Starting", "WaitingForOldPods")
    assert [type(action) for action in world.step(seconds=1).actions] == [CreateServices, CreatePods]


def test_a_name_that_somebody_else_has_is_said_and_tried_again_later() -> None:
    world = World()
    world.rejection = Rejection("Service train is somebody else's", world.now, NAME_TAKEN)
    world.step(seconds=6)
    running = world.condition("Running")
    assert running is not None
    assert (world.status.phase, running.reason) == ("Starting", "NameTaken")
    assert running.message == "Service train is somebody else's"
    assert actions_of(world.step(seconds=60), CreatePods)


def test_the_most_slices_are_asked_for_first() -> None:  # E2-19
    world = World(slices=1, hosts=1, acceptableSlices=[2, 8, 4])
    [created] = actions_of(world.step(), CreatePods)
    assert len(created.slots) == 8
    assert world.status.slices is not None
    assert (world.status.slices.requested, world.status.slices.granted) == (8, 8)


@pytest.mark.parametrize(("placed", "granted"), [(0, 8), (1, 8), (2, 2), (3, 2), (4, 4), (7, 4)])
def test_the_most_that_fits_is_taken_after_a_look(placed: int, granted: int) -> None:  # E2-19, E2-20
    world = waiting(placed=placed, slices=1, acceptableSlices=[2, 8, 4])
    world.step(seconds=60)
    world.until_restarted()
    assert world.status.slices is not None
    assert (world.status.slices.requested, world.status.slices.granted) == (8, granted)
    assert world.status.uncharged == (1 if granted < 8 else 0)
    if granted < 8:
        assert len([key for key in world.pods if key[0] == 1]) == granted * 2
        env = {one["name"]: one.get("value") for one in _environment(world)}
        assert env["MEGASCALE_NUM_SLICES"] == str(granted)
        assert env["SLIPWAY_WORLD_SIZE"] == str(granted * 2)


def _environment(world: World) -> list[environment.Variable]:
    pod = PodFactory(world.job, Settings()).pod(1, (0, 0))
    env: list[environment.Variable] = pod["spec"]["containers"][0]["env"]
    return env


def test_the_attempt_after_a_shrunk_one_asks_for_the_most_again() -> None:
    world = waiting(placed=2, slices=1, acceptableSlices=[2, 4])
    world.step(seconds=60)
    world.until_restarted()
    world.run()
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.status.slices is not None
    assert world.status.slices.granted == 4


def test_after_a_pause_the_most_is_asked_for_again() -> None:
    world = waiting(placed=2, slices=1, acceptableSlices=[2, 4])
    world.step(seconds=60)
    assert world.status.attempts[0].reason == "FewerSlices"
    world.fields["suspend"] = True
    world.settle()
    world.obey()
    world.settle()
    world.fields["suspend"] = False
    world.settle()
    assert world.status.slices is not None
    assert (world.status.phase, world.status.slices.granted) == ("Starting", 4)


def test_a_younger_job_lets_go_of_what_an_older_one_needs() -> None:
    world = waiting(placed=1, slices=2)
    world.older_waits = True
    assert not actions_of(world.step(seconds=50), DeletePods)
    [deleted] = actions_of(world.step(seconds=10), DeletePods)
    assert deleted == DeletePods(0, (0, 1), 5)
    world.obey()
    world.settle()
    assert world.status.phase is Phase.WAITING_FOR_CAPACITY
    assert not [key for key in world.pods if key[0] == 1]
    assert world.status.uncharged == 1
    world.step(seconds=61)
    assert [key for key in world.pods if key[0] == 1]


def test_a_job_keeps_what_it_holds_while_no_older_one_waits() -> None:
    world = waiting(placed=1, slices=2)
    for _ in range(5):
        assert not actions_of(world.step(seconds=60), DeletePods)


def test_a_job_of_which_every_pod_waits_stays() -> None:
    world = waiting(placed=0, slices=2)
    world.older_waits = True
    for _ in range(5):
        assert not actions_of(world.step(seconds=60), DeletePods)


TPU = {"accelerator": {"type": "v5p-16"}, "slices": 2, "hosts": None}


def pinned(**fields: object) -> World:
    """Two slices that are pinned to node pools, of which the second has no room."""
    world = World(**(TPU | fields))
    world.free_pools = {0: "a", 1: "b"}
    world.begin()
    for handle in world.all_pods():
        handle.unschedulable("0/4 nodes are available: Insufficient google.com/tpu") if handle.key[1] else handle.runs()
    world.step(seconds=6)
    return world


def pools_of(decision: Plan) -> list[dict[int, str]]:
    return [dict(created.pools) for created in actions_of(decision, CreatePods)]


def test_where_slices_go_is_left_open_at_first_and_settled_by_their_pods() -> None:
    world = World(**TPU)
    world.free_pools = {0: "a"}
    assert pools_of(world.step()) == [{}]
    world.settle()
    del world.pods[(0, 0, 1)], world.pods[(0, 1, 1)]
    assert pools_of(world.step()) == [{0: "a", 1: ""}]


def test_a_pool_that_only_looked_free_is_given_up_for_the_schedulers_choice() -> None:
    world = pinned()
    assert not actions_of(world.step(), DeletePods)
    world.step(seconds=10)
    first = world.status.attempts[-1]
    assert (first.reason, first.cause) == ("NodePoolTaken", "uncharged")
    assert (first.message or "").startswith("no room in b, though it looked free")
    assert "Insufficient google.com/tpu" in (first.message or "")
    world.obey()
    assert pools_of(world.step()) == [{0: "", 1: ""}]
    assert (world.status.attempt, world.status.failures, world.status.preemptions) == (1, 0, 0)


def test_a_shortage_of_that_kind_is_no_reason_to_take_fewer_slices() -> None:
    world = pinned(slices=1, acceptableSlices=[1, 2], retries={"capacityRetrySeconds": 1})
    for _ in range(3):
        world.step(seconds=1)
    assert world.status.attempts[0].end_time is None
    world.step(seconds=1)
    assert world.status.attempts[0].reason == "NodePoolTaken"


def test_a_job_that_has_no_time_to_be_wrong_is_not_pinned() -> None:
    assert pools_of(World(**TPU, timeouts={"scheduleSeconds": 59}).step()) == [{0: "", 1: ""}]
    assert pools_of(World(**TPU, timeouts={"scheduleSeconds": 60}).step()) == [{}]


def test_who_begins_an_attempt_makes_its_pods_at_once() -> None:
    world = World(**TPU)
    world.listed_at, world.lists = None, False
    decision = world.step()
    assert (decision.status.attempt, actions_of(decision, ListPods)) == (0, [])
    assert len(actions_of(decision, CreatePods)) == 1


def test_who_takes_over_lists_the_pods_before_it_makes_those_that_are_missing() -> None:
    world = World(**TPU)
    world.free_pools = {0: "a", 1: "b"}
    world.begin()
    del world.pods[(0, 0, 1)]
    world.begun_here = world.listed_at = None
    world.lists = False
    assert [type(action) for action in world.step().actions] == [ListPods]
    world.listed_at = world.now
    assert pools_of(world.step()) == [{0: "a", 1: "b"}]


def test_slices_that_wait_settle_it_for_who_takes_over() -> None:
    world = World(**TPU | {"slices": 3})
    world.free_pools = {0: "a"}
    world.begin()
    del world.pods[(0, 2, 0)], world.pods[(0, 2, 1)]
    world.begun_here = None
    world.listed_at = world.now
    assert pools_of(world.step()) == [{0: "a", 1: "", 2: ""}]


def test_what_is_settled_stays_when_pinning_ends() -> None:
    world = World(**TPU)
    world.free_pools = {0: "a", 1: "b"}
    world.begin()
    del world.pods[(0, 0, 1)]
    world.fields["timeouts"] = {"scheduleSeconds": 30}
    assert pools_of(world.step()) == [{0: "a", 1: "b"}]


def test_an_attempt_after_that_may_be_pinned_again() -> None:
    world = pinned()
    world.step(seconds=10)
    world.obey()
    world.settle()
    world.run()
    world.pod(0, 0).exits(1)
    world.settle()
    world.obey()
    assert pools_of(world.step()) == [{}]


def test_a_slice_that_gave_way_is_not_pinned() -> None:
    world = World(**TPU).begin()
    for handle in world.all_pods():
        handle.unschedulable() if handle.key[1] else handle.runs()
    world.older_waits = True
    world.step(seconds=60)
    assert world.status.attempts[0].reason == "CapacityReleased"
    world.obey()
    world.settle()
    assert pools_of(world.step(seconds=61)) == [{0: "", 1: ""}]


def test_fewer_slices_stay_fewer_when_a_pool_is_taken() -> None:
    world = pinned(slices=1, acceptableSlices=[1, 2])
    world.step(seconds=10)
    assert world.status.attempts[0].reason == "NodePoolTaken"
    world.obey()
    world.settle()
    assert world.status.slices is not None
    assert world.status.slices.granted == 2

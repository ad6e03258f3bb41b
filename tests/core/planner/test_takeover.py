"""What a process that has just begun to lead may decide, whose watches may have stood still until then."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from slipway.api.places import worker
from slipway.core.planner.contract.actions import CreatePods, DeletePods, Refresh
from slipway.core.planner.contract.freshness import NODES, PODS, WORKLOAD, Horizon, Since, Step, is_recent
from slipway.core.planner.contract.snapshot import Rejection, Vanished
from slipway.core.vocabulary.reasons import QUOTA_EXCEEDED
from tests.core.build import START, World, a_node, actions_of
from tests.core.planner.test_admission import TPU, Queue


def taken_over(world: World) -> World:
    """Another process leads now; it has asked nothing yet."""
    world.leading_since = world.now
    world.pods_as_of, world.nodes_as_of, world.begun_by_this_process, world.served = None, {}, None, None
    world.answers = False
    return world


def test_a_pod_that_no_watch_has_shown_yet_ends_nothing_before_a_list_confirms_that_it_is_absent() -> None:
    world = World(slices=1, hosts=2).run()
    world.pods_as_of = world.now
    world.now += timedelta(seconds=5)
    del taken_over(world).pods[(0, 0, 1)]
    decision = world.step()
    assert actions_of(decision, Refresh) == [Refresh(pods=True)]
    assert (world.status.phase, actions_of(decision, DeletePods)) == ("Running", [])


def test_a_job_that_was_applied_again_begins_only_when_the_pods_of_the_earlier_one_are_listed() -> None:
    world = taken_over(World(slices=1, hosts=2))
    before = world.status
    decision = world.step()
    assert actions_of(decision, Refresh) == [Refresh(pods=True)]
    assert (decision.status, actions_of(decision, CreatePods)) == (before, [])
    earlier = World()
    earlier.add_pod(0, worker(0, 0), uid="earlier")
    world.foreign, world.pods_as_of = tuple(earlier.pods.values()), world.now
    assert actions_of(world.step(), CreatePods) == []
    assert world.status.attempt is None
    world.foreign = ()
    world.step()
    assert world.status.attempt == 0


def test_a_worker_that_waits_ends_nothing_before_a_list_confirms_that_it_does_not_run() -> None:
    """The version of its pod that a watch has shown may be from before its run."""
    world = World(slices=1, hosts=2).run()
    world.pods_as_of = world.now
    world.now += timedelta(seconds=5)
    taken_over(world).pod(0, 1).waits("ContainerCreating")
    decision = world.step()
    assert actions_of(decision, Refresh) == [Refresh(pods=True)]
    assert (world.status.phase, actions_of(decision, DeletePods)) == ("Running", [])
    world.pods_as_of = world.now
    world.step()
    assert (world.attempt.reason, world.attempt.message.endswith("its machine restarted")) == ("NodeLost", True)


def test_a_worker_that_waits_on_a_node_that_is_gone_ends_nothing_before_a_list_since_then() -> None:
    world = World(slices=1, hosts=2).run()
    world.now += timedelta(seconds=5)
    taken_over(world).pod(0, 1).waits("ContainerCreating")
    world.pods_as_of = world.now
    world.now += timedelta(seconds=5)
    world.lose_node("node-0-1")
    decision = world.step()
    assert actions_of(decision, Refresh) == [Refresh(pods=True)]
    assert (world.status.phase, actions_of(decision, DeletePods)) == ("Running", [])
    world.pods_as_of = world.now
    world.step()
    assert (world.attempt.reason, world.attempt.cause) == ("NodeLost", None)


def test_a_host_that_has_succeeded_is_written_at_once_by_a_process_that_has_just_begun_to_lead() -> None:
    world = World(slices=1, hosts=2).run()
    world.now += timedelta(seconds=5)
    taken_over(world).written = None
    world.pod(0, 0).exits(0)
    world.step(seconds=1)
    assert world.status.succeeded_hosts == ("0:0",)


def test_a_list_of_an_earlier_leadership_proves_no_absence() -> None:
    world = World(slices=1, hosts=2).run()
    listed = world.now
    world.now += timedelta(seconds=5)
    del taken_over(world).pods[(0, 0, 1)]
    world.pods_as_of = listed
    world.step()
    assert world.status.phase == "Running"
    world.pods_as_of = world.now
    world.step()
    assert world.attempt.reason == "PodDeleted"


def test_a_deletion_that_was_noticed_late_has_its_date_from_who_saw_it_in_time() -> None:
    """The peer crashes 3 s later; the deletion is near enough to the attempt's end to look like Slipway's own."""
    world = World(slices=1, hosts=3).run()
    undated = world.pod(0, 1).now
    seen = Vanished(world.pod(0, 1).is_deleted(grace=0).now, world.now, world.now)
    world.pods[(0, 0, 1)] = undated
    world.now += timedelta(seconds=3)
    world.pod(0, 0).exits(1)
    world.now += timedelta(seconds=1)
    world.pod(0, 1).vanishes()
    world.step()
    assert world.attempt.reason == "PodDeleted"
    world.vanished = [seen]
    taken_over(world).answers = True
    world.settle()
    world.obey()
    world.until_orphans_terminated()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("PodDeleted", 1)


def test_what_a_pod_says_of_itself_ends_the_attempt_at_once() -> None:
    world = taken_over(World(slices=1, hosts=2).run())
    world.pod(0, 0).exits(1)
    decision = world.step()
    assert (world.attempt.reason, actions_of(decision, Refresh)) == ("ExitCode", [])


def test_the_time_to_start_counts_anew_for_a_process_that_may_have_made_the_services_only_now() -> None:
    world = World(slices=1, hosts=2, timeouts={"startSeconds": 60}).begin()
    world.pod(0, 0).binds().waits("CreateContainerError")
    world.pod(0, 1).runs()
    world.now += timedelta(seconds=100)
    taken_over(world)
    world.answers = True
    world.step()
    assert world.status.phase == "Starting"
    world.step(seconds=59)
    assert world.attempt.end_time is None
    world.step(seconds=2)
    assert world.attempt.reason == "StartTimeout"


@pytest.mark.parametrize(
    ("since", "listed", "took", "enough"),
    [
        pytest.param(Since.LEADING, 0, 0, True, id="since it leads, whatever happened"),
        pytest.param(Since.LEADING, -1, 0, False, id="before it led"),
        pytest.param(Since.EVENT, 50, 0, True, id="since the event"),
        pytest.param(Since.EVENT, 49, 0, False, id="before the event"),
        pytest.param(Since.LATELY, 90, 0, True, id="since the event, and in the last 10 s"),
        pytest.param(Since.LATELY, 80, 0, False, id="since the event, and 20 s ago"),
        pytest.param(Since.LATELY, 80, 15, True, id="begun 20 s ago, and read 5 s ago: the list is long"),
    ],
)
def test_a_list_suffices(since: Since, listed: int, took: int, enough: bool) -> None:
    at = START + timedelta(seconds=listed)
    known = Horizon(leading_since=START, pods_as_of=at, pods_read_at=at + timedelta(seconds=took))
    event, now = START + timedelta(seconds=50), START + timedelta(seconds=100)
    assert is_recent(since, known, event, now) is enough


def test_who_takes_over_an_ended_attempt_lists_its_pods_before_it_is_charged_and_followed() -> None:
    """A watch that stood still may have shown none of them, and they may still run."""
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(1)
    world.step()
    unseen = dict(world.pods)
    taken_over(world).pods.clear()
    decision = world.step()
    assert actions_of(decision, Refresh) == [Refresh(pods=True)]
    assert (world.attempt.cause, world.status.attempt) == (None, 0)
    world.pods.update(unseen)
    world.pods_as_of = world.now
    assert not actions_of(world.step(seconds=1), CreatePods)
    assert world.status.attempt == 0


def test_an_attempt_with_an_unanswered_create_is_followed_once_a_list_has_shown_whether_the_pod_exists() -> None:
    world = World(slices=1, hosts=2).begin()
    world.pod(0, 0).runs().exits(1)
    late = world.pods.pop((0, 0, 1))
    world.answers, world.creates_end = False, world.now + timedelta(seconds=4)
    decision = world.step()
    assert (world.status.attempt, decision.wake_at) == (0, world.creates_end)
    decision = world.step(seconds=4)
    assert (world.status.attempt, actions_of(decision, Refresh)) == (0, [Refresh(pods=True)])
    world.pods[0, 0, 1] = late
    world.pods_as_of = world.now
    assert actions_of(world.step(), DeletePods)
    assert world.status.attempt == 0


def test_what_a_server_ahead_of_this_clock_has_dated_is_waited_for_and_not_asked_for_again_and_again() -> None:
    world = World(slices=1, hosts=1).run()
    world.answers = False
    later = world.now + timedelta(seconds=2)
    world.nodes["node-0-0"] = a_node("node-0-0", created=later)
    decision = world.step()
    assert (actions_of(decision, Refresh), decision.wake_at) == ([], later)


def test_every_step_needs_something() -> None:
    assert PODS.keys() | NODES.keys() | WORKLOAD == set(Step)


def in_its_queue() -> World:
    world = Queue(**TPU).running()
    world.evicts("Preempted")
    world.until_restarted()
    world.step(100)
    assert world.status.phase == "Queued"
    return world


def in_back_off() -> World:
    world = World(slices=1, hosts=2, retries={"backoff": {"initialSeconds": 600}}).run()
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert (running := world.condition("Running")) is not None
    assert running.reason == "Backoff"
    return world


def without_an_image() -> World:
    world = World(slices=1, hosts=2).begin()
    for handle in world.all_pods():
        handle.binds().waits("ImagePullBackOff", "Back-off pulling image")
    world.settle()
    world.step(61)
    world.until_restarted()
    assert world.status.phase == "Pending"
    return world


def without_quota() -> World:
    world = World(slices=1, hosts=2)
    world.settle()
    world.pods.clear()
    for _ in range(2):
        world.now += timedelta(seconds=30)
        world.rejection = Rejection("exceeded quota", world.now, QUOTA_EXCEEDED)
        world.settle()
    assert world.status.phase == "WaitingForCapacity"
    world.rejection = None
    return world


@pytest.mark.parametrize("waiting", [in_its_queue, in_back_off, without_an_image, without_quota])
def test_a_job_that_waits_is_not_written_anew_because_another_process_leads(waiting: Callable[[], World]) -> None:
    world = waiting()
    world.now += timedelta(seconds=5)
    before = world.status
    taken_over(world).written = None
    assert world.step().status == before

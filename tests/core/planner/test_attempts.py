"""The life of a job: attempts begin, run, end, are charged once, and the next one waits until it is clear to start."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from slipway.api.places import worker
from slipway.api.status import MAX_ATTEMPTS, Attempt, Cause, Phase
from slipway.core.model.container_states import ContainerState, ContainerStatus, Running, Terminated
from slipway.core.planner.contract.actions import (
    Check,
    CreatePods,
    CreateServices,
    DeletePods,
    ForceDeletePod,
    KeepHistory,
    Refresh,
)
from slipway.core.planner.contract.snapshot import LostNode, Rejection
from slipway.core.planner.plan import plan
from slipway.core.vocabulary.reasons import NAME_TAKEN
from tests.core.build import PodHandle, World, a_node, actions_of


def test_a_new_job_asks_the_api_server_before_anything_exists() -> None:
    world = World(slices=2, hosts=2)
    world.checked = False
    decision = world.plan()
    [check] = actions_of(decision, Check)
    assert [one["metadata"]["name"] for one in check.bodies] == ["train-0-0-0", "train"]
    assert decision.status == world.status


def test_what_the_api_server_said_of_an_equal_spec_is_not_asked_again() -> None:
    """The names of the Services are the job's own: somebody may have taken them."""
    world = World(slices=2, hosts=2)
    decision = plan(replace(world.snapshot, checked=False, equal_accepted=True), world.now)
    [check] = actions_of(decision, Check)
    assert [(one["kind"], one["metadata"]["name"]) for one in check.bodies] == [("Service", "train")]


def test_all_pods_of_an_attempt_are_made_at_once_after_the_status_says_so() -> None:  # E1-34, E2-14
    world = World(slices=2, hosts=2)
    decision = world.plan()
    assert decision.status.attempt == 0
    assert decision.status.phase is Phase.STARTING
    assert decision.actions == (CreatePods(0, (worker(0, 0), worker(0, 1), worker(1, 0), worker(1, 1))),)
    world.apply(decision)
    assert [type(action) for action in world.plan().actions] == [CreateServices]


def test_a_process_that_takes_over_sees_to_the_services_of_what_it_finds() -> None:
    """The old one may have died between the pods and their Service."""
    world = World(slices=1, hosts=2).run()
    world.served = None
    [finding] = actions_of(world.step(), CreateServices)
    assert finding.attempt == 0
    assert actions_of(world.step(), CreateServices) == []


@pytest.mark.parametrize(
    ("age", "pause"), [(0, 1), (1, 1), (8, 8), (3600, 60)], ids=["made just now", "1 s old", "8 s old", "an hour old"]
)
def test_a_refused_job_is_checked_again_the_sooner_the_younger_it_is(age: int, pause: int) -> None:
    world = World(slices=1, hosts=1)
    world.checked = False
    world.now += timedelta(seconds=age)
    world.rejection = Rejection("service account default not found", world.now)
    decision = world.step()
    assert decision.wake_at == world.now + timedelta(seconds=pause)
    assert world.status.phase is Phase.INVALID
    assert not actions_of(world.step(seconds=pause - 0.1), Check)
    assert actions_of(world.step(seconds=0.2), Check)


def test_an_invalid_job_has_failed_until_it_is_corrected() -> None:
    world = World(slices=1, hosts=1)
    world.checked = False
    world.rejection = Rejection("service account default not found", world.now)
    failed = []
    for _ in range(2):
        world.step()
        condition = world.condition("Failed")
        assert condition is not None
        failed.append((world.status.phase, condition.status))
        world.checked, world.rejection = True, None
    assert failed == [(Phase.INVALID, "True"), (Phase.STARTING, "False")]


def test_a_job_that_is_refused_for_another_reason_says_so() -> None:
    world = World(slices=1, hosts=1)
    world.checked = False
    for reason in ("service account default not found", "no PriorityClass with name high was found"):
        world.rejection = Rejection(reason, world.now)
        world.step()
        accepted = world.condition("Accepted")
        assert accepted is not None
        assert reason in accepted.message


def test_after_a_refusal_the_services_come_first_for_their_name_may_be_taken() -> None:
    world = World(slices=1, hosts=2)
    world.rejection = Rejection("Service train is somebody else's", world.now, NAME_TAKEN)
    world.step()
    assert world.pods == {}
    decision = world.step(seconds=61)
    assert [type(action) for action in decision.actions] == [CreateServices, CreatePods]


def test_an_attempt_takes_two_writes_until_it_runs() -> None:
    world = World(slices=2, hosts=2)
    writes = []
    world.apply(world.plan())
    for handle in world.all_pods():
        handle.runs()
        before = world.status
        world.step(seconds=0.2)
        writes.append(world.status != before)
    assert writes == [False, False, False, True]
    assert world.status.phase is Phase.RUNNING
    assert world.status.ready_slices == "2/2"


def test_a_restart_takes_three_writes() -> None:
    """Ended with its evidence; charged, with the next one begun; running. That all pods have nodes needs none."""
    world = World(slices=2, hosts=2).run()
    phases = [world.status.phase]

    def happens(*events: Callable[[], object]) -> None:
        for event in events:
            event()
        for _ in range(4):
            before = world.status
            world.step(seconds=0.2)
            phases.extend([world.status.phase] if world.status != before else [])

    happens(lambda: world.pod(0, 0).exits(1))
    happens(world.obey)
    for step in (PodHandle.binds, PodHandle.runs):
        happens(*(partial(step, world.pod(index, host)) for index in (0, 1) for host in (0, 1)))
    assert phases[1:] == [Phase.RESTARTING, Phase.STARTING, Phase.RUNNING]


def test_that_all_pods_have_nodes_is_written_when_they_do_not_run_soon() -> None:
    world = World(slices=2, hosts=2).begin()
    shown = []
    for handle in world.all_pods():
        handle.binds()
    for seconds in (0.5, 4.0, 0.5):
        world.step(seconds)
        found = world.condition("CapacityAvailable")
        shown.append(found.status if found is not None else "")
    assert shown == ["False", "False", "True"]


def is_suspended(world: World) -> None:
    world.fields["suspend"] = True


def fails(world: World) -> None:
    world.pod(0, 0).exits(1)


def succeeds(world: World) -> None:
    world.pod(0, 0).exits(0)


@pytest.mark.parametrize(
    ("retries", "end", "phase"),
    [
        ({}, is_suspended, Phase.SUSPENDED),
        ({"maxFailures": 1}, fails, Phase.FAILED),
        ({"backoff": {"initialSeconds": 60}}, fails, Phase.RESTARTING),
        ({}, succeeds, Phase.SUCCEEDED),
    ],
    ids=["suspended", "failed", "before the next attempt", "succeeded"],
)
def test_without_an_attempt_no_pod_of_it_has_a_node(
    retries: dict[str, Any], end: Callable[[World], None], phase: Phase
) -> None:
    world = World(retries=retries).run()
    assert (found := world.condition("CapacityAvailable")) is not None
    assert found.status == "True"
    end(world)
    world.until_restarted()
    assert (found := world.condition("CapacityAvailable")) is not None
    assert (world.status.phase, found.status, found.reason) == (phase, "False", "NoAttempt")


def test_a_job_that_is_suspended_before_its_last_failure_is_judged_keeps_when_it_started() -> None:
    world = World(retries={"maxFailures": 1}).run()
    started = world.status.start_time
    fails(world)
    world.step()
    is_suspended(world)
    world.until_restarted()
    assert (world.status.phase, world.status.start_time) == (Phase.FAILED, started)


@pytest.mark.parametrize("end", [is_suspended, fails])
def test_the_time_of_a_suspended_job_counts_anew(end: Callable[[World], None]) -> None:
    world = World().run()
    end(world)
    world.step()
    is_suspended(world)
    world.until_restarted()
    assert (world.status.phase, world.status.start_time) == (Phase.SUSPENDED, None)


def test_a_suspension_before_the_last_failure_is_judged_counts_to_no_deadline() -> None:
    world = World(slices=2, hosts=1, activeDeadlineSeconds=3600).run()
    fails(world)
    world.step()
    is_suspended(world)
    world.step()
    world.now += timedelta(days=1)
    del world.fields["suspend"]
    world.until_restarted()
    assert (world.status.phase, world.status.failures) in (("Restarting", 1), ("Starting", 1))


def test_success_is_every_host_of_one_attempt_exiting_0() -> None:  # E2-48
    world = World(slices=2, hosts=2).run()
    for handle in world.all_pods():
        assert world.status.phase is Phase.RUNNING
        handle.exits(0)
        world.settle()
    assert world.status.phase is Phase.SUCCEEDED
    assert (world.status.failures, world.status.preemptions) == (0, 0)
    assert world.status.result is not None
    assert world.status.result.exit_code == 0


@pytest.mark.row("B-46", "E2-25", "E2-44", "E2-55")
def test_a_failure_ends_the_attempt_deletes_the_peers_and_charges_once() -> None:
    world = World(slices=2, hosts=2).run()
    world.pod(1, 0).exits(3, message="boom\nValueError: bad data\n")
    decision = world.step()
    assert world.status.phase is Phase.RESTARTING
    assert world.attempt.cause is None
    assert actions_of(decision, DeletePods) == [DeletePods(0, (0, 1), 5)]
    assert world.status.failures == 0
    world.obey()
    decision = world.step()
    assert world.status.failures == 1
    assert world.status.attempt == 1
    assert world.status.phase is Phase.STARTING
    ended = world.status.attempts[1]
    assert ended.cause is Cause.FAILURE
    assert ended.root is not None
    assert (ended.root.slice, ended.root.host, ended.root.exit_code) == (1, 0, 3)
    assert ended.root.log is not None
    assert "ValueError: bad data" in (ended.message or "")
    assert actions_of(decision, CreatePods)[0].attempt == 1


def test_no_pod_of_the_next_attempt_exists_while_one_of_the_last_may_run() -> None:  # E2-57, E2-15
    world = World(slices=2, hosts=1).run()
    world.pod(0, 0).exits(1)
    world.step()
    for _ in range(5):
        decision = world.step(seconds=7)
        assert not actions_of(decision, CreatePods)
    world.obey()
    assert actions_of(world.step(), CreatePods)


def test_the_failed_pod_stays_for_its_logs_until_the_next_attempt_has_ended() -> None:
    world = World(slices=2, hosts=1).run()
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert (0, 0, 0) in world.pods
    world.run()
    assert (0, 0, 0) in world.pods
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert (0, 0, 0) not in world.pods
    assert (1, 0, 0) in world.pods


def test_a_pod_whose_kubelet_has_not_changed_its_phase_yet_is_kept_too() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(1).ends_as("Running")
    decision = world.step()
    assert actions_of(decision, DeletePods) == [DeletePods(0, (0,), 5, except_places=(worker(0, 0),))]
    world.obey()
    world.settle()
    assert world.status.attempt == 0
    world.pod(0, 0).ends_as("Failed")
    world.settle()
    assert world.status.attempt == 1
    assert (0, 0, 0) in world.pods


def test_a_pod_whose_kubelet_never_changes_its_phase_is_asked_to_go() -> None:
    """Its machine may come back with an empty disk, and then its kubelet would start the program anew."""
    world = World(slices=1, hosts=2).run()
    for handle in world.all_pods():
        handle.exits(1).ends_as("Running")
    assert actions_of(world.step(), DeletePods) == []
    assert actions_of(world.step(seconds=31), DeletePods) == [DeletePods(0, (0,), 5)]
    assert world.status.attempt == 0


@pytest.mark.row("B-48")
def test_a_deleted_node_is_a_preemption_and_its_pod_is_forced_away_at_once() -> None:
    world = World(slices=2, hosts=2).run()
    world.lose_node("node-1-1")
    decision = world.step()
    [forced] = actions_of(decision, ForceDeletePod)
    assert forced.name == "train-0-1-1"
    world.obey()
    world.settle()
    assert (world.status.preemptions, world.status.failures) == (1, 0)
    assert world.status.attempts[1].reason == "NodeLost"
    assert world.status.attempt == 1


def test_a_node_that_is_merely_unknown_is_asked_for_and_proves_nothing() -> None:
    world = World(slices=1, hosts=2).begin()
    world.pod(0, 0).runs()
    world.pod(0, 1).runs()
    del world.nodes["node-0-1"]
    decision = world.step()
    assert actions_of(decision, Refresh) == [Refresh(nodes=("node-0-1",))]
    assert world.status.phase is Phase.RUNNING


def test_nodes_of_pods_that_outlive_their_attempt_or_job_are_asked_for_too() -> None:
    world = World(slices=1, hosts=2, retries={"maxFailures": 0}).run()
    world.pod(0, 0).exits(1)
    world.step()
    del world.nodes["node-0-1"]
    assert actions_of(world.step(), Refresh) == [Refresh(nodes=("node-0-1",))]
    world.status = world.status.model_copy(update={"phase": Phase.FAILED})
    assert actions_of(world.plan(), Refresh) == [Refresh(nodes=("node-0-1",))]


def test_machines_that_go_one_after_another_do_not_put_off_the_end_of_the_attempt() -> None:
    world = World(slices=1, hosts=3).run()
    world.answers = False
    world.lose_node("node-0-2")
    assert actions_of(world.step(), Refresh)
    world.pods_as_of = world.now
    world.now += timedelta(seconds=1)
    world.lose_node("node-0-0")
    world.step()
    assert world.attempt.reason == "NodeLost"


def test_a_container_found_dead_after_a_reboot_says_so_where_nodes_cannot_be_seen() -> None:
    world = World(slices=1, hosts=2).run()
    world.nodes_watched = False
    world.nodes.clear()
    world.pod(0, 1).exits(255, reason="Unknown")
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("NodeLost", 1)


def test_where_nodes_cannot_be_seen_nobody_asks_for_them() -> None:
    world = World(slices=1, hosts=2, timeouts={"startSeconds": 60}).begin()
    world.nodes_watched = False
    world.pod(0, 0).binds().waits("ImagePullBackOff")
    world.pod(0, 1).runs()
    world.nodes.clear()
    world.step(seconds=61)
    assert world.attempt.reason == "StartTimeout"
    world.pod(0, 1).exits(137, reason="ContainerStatusUnknown")
    world.until_restarted()
    assert world.status.failures == 1


def test_where_nodes_cannot_be_seen_a_condition_says_so_until_they_can() -> None:
    world = World(slices=1, hosts=2).run()
    assert world.condition("NodesVisible") is None
    world.nodes_watched = False
    world.step()
    hidden = world.condition("NodesVisible")
    assert hidden is not None
    assert (hidden.status, hidden.reason) == ("False", "NodesForbidden")
    assert "readNodes true" in hidden.message
    world.nodes_watched = True
    world.step()
    visible = world.condition("NodesVisible")
    assert visible is not None
    assert (visible.status, visible.message) == ("True", "")


@pytest.mark.parametrize("went", ["its node is gone", "another node has its name"])
def test_a_host_whose_machine_is_gone_may_have_succeeded_before_though_no_watch_has_shown_it(went: str) -> None:
    world = World(slices=1, hosts=1).run()
    world.answers = False
    if went == "its node is gone":
        world.lose_node("node-0-0")
    else:
        world.nodes["node-0-0"] = a_node("node-0-0", created=world.now)
    decision = world.step()
    assert actions_of(decision, Refresh) == [Refresh(pods=True)]
    assert world.attempt.end_time is None
    world.pod(0, 0).exits(0)
    world.pods_as_of = world.now
    world.step()
    assert world.status.phase is Phase.SUCCEEDED


@pytest.mark.parametrize(
    ("denied", "seen_before", "asked"),
    [
        pytest.param(0.6, False, Refresh(nodes=("node-0-0",)), id="in the same second"),
        pytest.param(4.9, False, Refresh(nodes=("node-0-0",)), id="soon after, or before by a clock that is ahead"),
        pytest.param(5.0, False, Refresh(pods=True), id="later, by any clock"),
        pytest.param(0.6, True, Refresh(pods=True), id="in the same second, and seen there before the request"),
    ],
)
def test_a_pod_bound_shortly_before_its_node_was_denied_may_be_on_the_next_one_of_that_name(
    denied: float, seen_before: bool, asked: Refresh
) -> None:
    world = World(slices=1, hosts=1).begin()
    world.pod(0, 0).runs()
    del world.nodes["node-0-0"]
    world.now += timedelta(seconds=denied)
    pods = {world.pods[0, 0, 0].metadata.uid} if seen_before else set()
    world.lost["node-0-0"] = LostNode(world.now, pods=frozenset(pods))
    world.answers = False
    assert actions_of(world.step(), Refresh) == [asked]
    assert world.attempt.end_time is None


@pytest.mark.parametrize(
    ("later", "lost"),
    [
        pytest.param(None, False, id="the only Node of that name that was seen"),
        pytest.param(1.0, True, id="the second one: the first took the pod along"),
    ],
)
def test_a_node_that_is_gone_may_have_replaced_the_one_of_the_pod(later: float | None, lost: bool) -> None:
    world = World(slices=1, hosts=1).begin()
    world.pod(0, 0).runs()
    del world.nodes["node-0-0"]
    created = world.now + timedelta(seconds=later) if later is not None else None
    world.now += timedelta(seconds=4)
    world.lost["node-0-0"] = LostNode(world.now, created=created)
    assert world.snapshot.machine_gone(world.pods[0, 0, 0]) is lost


def test_a_node_that_was_lost_and_came_back_under_its_name_is_not_lost_again() -> None:
    world = World(slices=1, hosts=1).begin()
    world.lost["node-0-0"] = LostNode(world.now - timedelta(seconds=30))
    world.pod(0, 0).runs()
    del world.nodes["node-0-0"]
    world.step()
    assert world.status.phase is Phase.RUNNING


@pytest.mark.row("B-62", "E2-22")
def test_pods_on_a_silent_node_keep_the_job_from_being_clear_to_start_and_a_condition_says_so() -> None:
    world = World(slices=2, hosts=1).run()
    world.pod(0, 0).exits(1)
    world.step()
    world.not_ready("node-1-0")
    decision = world.step(seconds=36)
    pending = world.condition("CleanupPending")
    assert pending is not None
    assert pending.status == "True"
    assert "train-0-1-0 on node node-1-0" in pending.message
    assert "kubectl taint nodes NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in pending.message
    assert not actions_of(decision, CreatePods)
    assert not actions_of(decision, ForceDeletePod)


def test_a_job_may_ask_at_its_own_risk_not_to_wait_for_a_silent_node() -> None:
    world = World(slices=2, hosts=1, timeouts={"unsafeSilentNodeSeconds": 120}).run()
    world.pod(0, 0).exits(1)
    world.step()
    world.not_ready("node-1-0")
    assert not actions_of(world.step(seconds=119), ForceDeletePod)
    [forced] = actions_of(world.step(seconds=1), ForceDeletePod)
    assert (forced.name, forced.silence_will_do) == ("train-0-1-0", True)
    world.settle()
    assert world.status.attempt == 1


@pytest.mark.parametrize(("limit", "attempts"), [(0, 1), (1, 1), (2, 2), (10, 10)])
@pytest.mark.parametrize("kind", ["failure", "preemption"])
def test_a_limit_is_the_number_of_charged_attempts(kind: str, limit: int, attempts: int) -> None:  # E2-42, E2-43
    name = {"failure": "maxFailures", "preemption": "maxPreemptions"}[kind]
    world = World(slices=1, hosts=2, retries={name: limit})
    for _ in range(attempts):
        assert world.status.phase not in (Phase.FAILED, Phase.PREEMPTED)
        world.run()
        if kind == "failure":
            world.pod(0, 0).exits(1)
        else:
            world.pod(0, 0).has("DisruptionTarget", "EvictionByEvictionAPI").is_deleted()
        world.until_restarted()
    assert world.status.phase is (Phase.FAILED if kind == "failure" else Phase.PREEMPTED)
    assert world.status.result is not None
    assert f"{name} {max(1, limit)} used up" in world.status.result.message
    assert str(attempts - 1) in world.status.result.message
    assert world.status.attempt == attempts - 1


def test_without_retries_the_first_end_is_final() -> None:  # E2-13, E2-01
    world = World(retries={"enabled": False}).run()
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.status.phase is Phase.FAILED


def test_a_final_phase_never_changes() -> None:
    world = World().run()
    world.pod(0, 0).exits(0)
    world.settle()
    before = world.status
    world.pod(0, 0).vanishes()
    world.lose_node("node-0-0")
    world.step(seconds=600)
    assert world.status == before


@pytest.mark.row("B-51")
def test_capacity_lost_before_everything_ran_is_a_preemption() -> None:
    world = World(slices=2, hosts=1).begin()
    world.pod(0, 0).runs()
    world.pod(1, 0).binds().has("DisruptionTarget", "PreemptionByScheduler").is_deleted()
    world.step()
    assert world.status.phase is Phase.RESTARTING
    world.until_restarted()
    assert (world.status.preemptions, world.status.failures) == (1, 0)
    assert {key[0] for key in world.pods} == {1}


@pytest.mark.row("B-55", "E2-17")
def test_the_loss_of_the_coordinator_gives_the_next_attempt_another_address() -> None:
    world = World(slices=2, hosts=2).run()
    assert world.status.coordinator is not None
    assert world.status.coordinator.address == "0-0-0.train.ml.svc"
    world.lose_node("node-0-0")
    world.until_restarted()
    assert world.status.coordinator.address == "1-0-0.train.ml.svc"


def test_a_pod_missing_before_everything_ran_is_made_again() -> None:
    world = World(slices=1, hosts=2).begin()
    del world.pods[(0, 0, 1)]
    decision = world.step()
    assert actions_of(decision, CreatePods) == [CreatePods(0, (worker(0, 1),))]
    assert world.status.attempt == 0


def test_a_pod_missing_beside_one_that_is_done_has_vanished_as_far_as_a_new_process_knows() -> None:
    """The old one may have died before it could write that everything ran."""
    world = World(slices=1, hosts=2).begin()
    world.pod(0, 0).exits(0)
    del world.pods[(0, 0, 1)]
    assert actions_of(world.step(), CreatePods) == [CreatePods(0, (worker(0, 1),))]
    world.begun_by_this_process = None
    del world.pods[(0, 0, 1)]
    world.until_restarted()
    assert (world.status.attempt, world.status.uncharged, world.status.preemptions) == (1, 1, 0)
    assert world.status.attempts[1].reason == "Unwitnessed"
    assert "train-0-0-1" in (world.status.attempts[1].message or "")


def test_a_pod_that_vanished_beside_one_that_is_done_is_not_made_again() -> None:
    """The watch may have missed that it was bound and ran: its peer would not run again with another one."""
    world = World(slices=1, hosts=2).begin()
    world.pod(0, 0).exits(0)
    world.pod(0, 1).vanishes()
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("PodDeleted", 1)


def test_peers_that_crash_beside_a_pod_that_vanished_before_its_node_was_heard_of_are_not_the_cause() -> None:
    world = World(slices=1, hosts=2).begin()
    world.pod(0, 1).vanishes()
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert (world.status.preemptions, world.status.failures) == (1, 0)
    assert world.status.attempts[1].reason == "PodDeleted"


def test_a_pod_that_had_a_node_is_the_cause_although_a_late_create_made_it_again() -> None:
    """The create was sent twice, because its first answer was lost, and was carried out for the second time."""
    world = World(slices=1, hosts=2).begin()
    world.pod(0, 1).binds().vanishes()
    world.add_pod(0, worker(0, 1))
    world.pod(0, 0).exits(1)
    world.until_restarted()
    world.until_orphans_terminated()
    assert (world.status.attempts[1].reason, world.status.preemptions, world.status.failures) == ("PodDeleted", 1, 0)


def test_a_pod_that_went_from_a_running_attempt_has_vanished_although_its_node_was_never_heard_of() -> None:
    world = World(slices=1, hosts=2).run()
    pods = dict(world.pods)
    world.add_pod(0, worker(0, 1))
    world.pod(0, 1).vanishes()
    assert pods.keys() - world.pods.keys() == {(0, 0, 1)}
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("PodDeleted", 1)


@pytest.mark.row("B-54")
def test_a_pod_missing_after_everything_ran_has_vanished() -> None:
    world = World(slices=1, hosts=2).run()
    del world.pods[(0, 0, 1)]
    world.until_restarted()
    assert world.status.preemptions == 1
    assert world.status.attempts[1].reason == "PodDeleted"


def test_a_host_that_succeeded_is_done_whatever_happens_to_its_pod() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).exits(0)
    world.step(seconds=6)
    assert world.status.succeeded_hosts == ("0:1",)
    world.pod(0, 1).vanishes()
    world.vanished.clear()
    world.settle()
    assert world.status.phase is Phase.RUNNING
    world.pod(0, 0).exits(0)
    world.settle()
    assert world.status.phase is Phase.SUCCEEDED


def beside_a_sidecar(pod: PodHandle, worker: ContainerState, sidecar: ContainerState) -> PodHandle:
    """The pod has a second container, which goes on when the worker is done."""
    statuses = ContainerStatus("worker", worker), ContainerStatus("shipper", sidecar)
    return pod._status(phase="Running", container_statuses=statuses)


AFTER_DONE: dict[str, Callable[[PodHandle], PodHandle]] = {
    "its node shuts down": lambda pod: pod.has("DisruptionTarget", "TerminationByKubelet").ends_as(
        "Failed", "Terminated", "Pod was terminated in response to imminent node shutdown."
    ),
    "its sidecar uses too much disk": lambda pod: pod.ends_as("Failed", "Evicted", "Pod ephemeral local storage"),
    "somebody deletes it": lambda pod: pod.is_deleted(),
}


@pytest.mark.parametrize("happens", AFTER_DONE.values(), ids=AFTER_DONE)
def test_a_host_that_is_done_is_not_judged_again_when_its_node_goes(happens: Callable[[PodHandle], PodHandle]) -> None:
    world = World(slices=1, hosts=2).run()
    done = ContainerState(terminated=Terminated(0, "Completed", "", world.now))
    sidecar = ContainerState(running=Running(world.now))
    pod = beside_a_sidecar(world.pod(0, 0), done, sidecar)
    world.step(seconds=10)
    assert world.status.succeeded_hosts == ("0:0",)
    beside_a_sidecar(pod, done, ContainerState(terminated=Terminated(143, "Error", "", world.now)))
    happens(pod)
    world.step(seconds=10)
    world.lose_node("node-0-0")
    world.settle()
    assert world.status.phase is Phase.RUNNING
    world.pod(0, 1).exits(0)
    world.settle()
    assert world.status.phase is Phase.SUCCEEDED


def test_a_host_that_is_done_and_whose_worker_runs_again_has_lost_its_machine() -> None:
    world = World(slices=1, hosts=2).run()
    done = ContainerState(terminated=Terminated(0, "Completed", "", world.now))
    pod = beside_a_sidecar(world.pod(0, 0), done, ContainerState(running=Running(world.now)))
    world.step(seconds=10)
    again = ContainerState(terminated=Terminated(137, "OOMKilled", "", world.now, world.now))
    beside_a_sidecar(pod, again, ContainerState(running=Running(world.now)))
    world.pods[pod.key] = msgspec.structs.replace(pod.now, restarted=True)
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("NodeLost", 1)


@pytest.mark.parametrize("ahead", [4.0, 6.5, 90.0])
def test_a_kubelet_whose_clock_is_ahead_has_not_restarted_its_machine(ahead: float) -> None:
    world = World(slices=1, hosts=2).begin()
    world.now += timedelta(seconds=2)
    by_its_clock = world.now + timedelta(seconds=ahead)
    world.pod(0, 0).runs()
    world.pod(0, 1).runs(since=by_its_clock)
    world.settle()
    for _ in range(12):
        assert world.status.ledger is not None
        assert world.status.ledger.until <= world.now
        world.step(seconds=10)
    assert (world.status.phase, world.status.attempt) == (Phase.RUNNING, 0)
    assert world.attempt.running_time == by_its_clock
    world.pod(0, 1).runs(since=by_its_clock + timedelta(seconds=100))
    world.until_restarted()
    assert world.status.attempts[1].reason == "NodeLost"


@pytest.mark.parametrize("ahead", [0, 600, 3600])
def test_a_pod_that_vanishes_is_missed_at_once_by_whatever_clock_its_peers_run(ahead: float) -> None:
    world = World(slices=1, hosts=2).begin()
    world.now += timedelta(seconds=2)
    world.pod(0, 0).runs()
    world.pod(0, 1).runs(since=world.now + timedelta(seconds=ahead))
    world.settle()
    world.step(seconds=30)
    del world.pods[world.pod(0, 1).key]
    world.step(seconds=10)
    world.settle()
    assert world.status.attempts[-1].reason == "PodDeleted"


def test_pods_of_an_earlier_job_of_the_same_name_are_waited_for() -> None:
    world = World()
    other = World()
    other.add_pod(0, worker(0, 0), uid="another")
    world.foreign = tuple(other.pods.values())
    decision = world.step()
    assert not actions_of(decision, CreatePods)
    assert world.status.phase is Phase.PENDING
    running = world.condition("Running")
    assert running is not None
    assert running.reason == "WaitingForOldPods"
    world.foreign = ()
    assert actions_of(world.step(), CreatePods)


def test_a_stale_leaders_pod_of_another_attempt_is_deleted_uncharged() -> None:
    world = World().run()
    world.add_pod(7, worker(0, 0))
    decision = world.step()
    assert actions_of(decision, DeletePods) == [DeletePods(7, (0,), 5)]
    assert world.status.phase is Phase.RUNNING


def test_a_suspended_job_gives_everything_back_and_goes_on_with_a_new_attempt() -> None:
    world = World(slices=1, hosts=2).run()
    world.fields["suspend"] = True
    decision = world.step()
    assert actions_of(decision, DeletePods) == [DeletePods(0, (0,), None)]
    assert world.status.phase is Phase.SUSPENDED
    world.obey()
    world.settle()
    suspended = world.condition("Suspended")
    assert suspended is not None
    assert suspended.status == "True"
    assert world.status.uncharged == 1
    world.fields["suspend"] = False
    world.run()
    assert world.status.attempt == 1
    assert (world.status.failures, world.status.preemptions) == (0, 0)


def test_a_deadline_counts_anew_after_a_suspension() -> None:  # E1-31
    world = World(activeDeadlineSeconds=3600, retries={"backoff": {"initialSeconds": 30}}).run()
    world.pod(0, 0).exits(1)
    world.step()
    world.fields["suspend"] = True
    world.step()
    world.now += timedelta(hours=2)
    world.fields["suspend"] = False
    world.run()
    assert world.status.phase is Phase.RUNNING
    world.step(seconds=3600)
    assert world.status.phase is Phase.FAILED


def test_cancel_is_final_keeps_the_record_and_charges_nothing() -> None:
    world = World(slices=1, hosts=2).run()
    world.fields["cancel"] = True
    decision = world.step()
    assert world.status.phase is Phase.CANCELLED
    assert actions_of(decision, DeletePods) == [DeletePods(0, (0,), None)]
    assert world.status.uncharged == 1
    world.obey()
    before = world.status.attempts
    world.step(seconds=60)
    assert world.status.attempts == before


@pytest.mark.row("B-42")
def test_a_job_that_is_cancelled_at_once_gives_its_pods_the_grace_period_it_names() -> None:  # F-76, K-09
    world = World(slices=1, hosts=2, cancelGracePeriodSeconds=1).run()
    world.fields["cancel"] = True
    assert actions_of(world.step(), DeletePods) == [DeletePods(0, (0,), 1)]


def test_a_change_of_phase_is_told_once() -> None:
    world = World().run()
    world.pod(0, 0).exits(1)
    world.until_restarted()
    world.run()
    world.pod(0, 0).exits(0)
    world.settle()
    assert world.told == ["Starting", "Running", "AttemptFailed", "Starting", "Running", "Succeeded"]


RAN = ["ExitCode"]
WAITED = ["CapacityReleased"]


@pytest.mark.parametrize(
    ("ends", "leaving"),
    [
        pytest.param(19 * RAN, [], id="there is room"),
        pytest.param(20 * RAN, [0], id="all have run"),
        pytest.param(WAITED + 19 * RAN, [0], id="the newest only waited, and says why the next is placed as it is"),
        pytest.param(10 * RAN + WAITED + 9 * RAN, [], id="one that only waited makes room"),
        pytest.param(19 * RAN + WAITED, [], id="the oldest only waited"),
    ],
)
def test_the_oldest_attempt_that_ran_is_kept_by_the_decision_that_drops_it(ends: list[str], leaving: list[int]) -> None:
    world = World(slices=1, hosts=1, retries={"maxFailures": 100}).begin()
    world.pods.clear()
    times = {"start_time": world.now, "end_time": world.now}
    numbered = [
        Attempt(number=len(ends) - 1 - index, reason=reason, cause=Cause.UNCHARGED, **times)
        for index, reason in enumerate(ends)
    ]
    world.status = world.status.model_copy(update={"attempt": len(ends) - 1, "attempts": tuple(numbered)})
    decision = world.step(seconds=3600)
    kept = tuple(one for one in numbered if one.number in leaving)
    assert decision.status.attempt == len(ends)
    assert decision.before == ((KeepHistory(kept),) if kept else ())
    ran = {one.number for one in numbered if one.reason in RAN}
    assert ran - {one.number for one in decision.status.attempts} == set(leaving)
    assert len(decision.status.attempts) <= MAX_ATTEMPTS


def test_a_kubelet_that_reports_no_start_times_keeps_no_attempt_from_running() -> None:
    world = World(slices=1, hosts=1).begin()
    world.pod(0, 0).binds()._worker(ContainerState(running=Running(None)), "Running")
    world.settle()
    assert world.status.phase == "Running"


@pytest.mark.parametrize("code", [0, 1, 137])
def test_an_attempt_that_a_newer_version_ended_for_a_reason_of_its_own_is_not_charged(code: int) -> None:
    """What its pods did when they were asked to terminate tells nothing of that reason."""
    world = World(slices=1, hosts=2, retries={"maxFailures": 1}).run()
    ended = world.attempt.model_copy(update={"end_time": world.now, "reason": "SliceDefragmented", "message": "moved"})
    world.status = world.status.model_copy(update={"attempts": (ended,)})
    for handle in world.all_pods():
        handle.is_deleted(5)
    world.settle()
    world.now += timedelta(seconds=2)
    for handle in world.all_pods():
        handle.exits(code)
    world.settle()
    world.obey()
    world.settle()
    charged = world.status.attempts[1]
    assert (charged.cause, charged.reason, charged.message) == (Cause.UNCHARGED, "SliceDefragmented", "moved")
    assert (world.status.failures, world.status.preemptions, world.status.attempt) == (0, 0, 1)

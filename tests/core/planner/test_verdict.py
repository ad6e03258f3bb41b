"""Why an attempt ended: the first cause among its pods, for every pair that can meet."""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

import msgspec
import pytest

from slipway.api import names
from slipway.api.places import worker
from slipway.api.status import Cause, Phase
from slipway.core.model.pods import Pod
from slipway.core.planner.contract.actions import Refresh
from slipway.core.planner.contract.snapshot import SKEW, LostNode, OwnDeletions
from tests.core.build import START, PodHandle, World, a_node, actions_of

EndOf = dict[str, tuple[Cause, bool]]

KINDS: EndOf = {
    # name: (cause, whether its time is certain)
    "oom": (Cause.FAILURE, True),
    "exit 1": (Cause.FAILURE, True),
    "evicted": (Cause.PREEMPTION, True),
    "preempted by its queue": (Cause.PREEMPTION, True),
    "refused by its node": (Cause.INFRASTRUCTURE, True),
    "exit 1 on a broken chip": (Cause.INFRASTRUCTURE, False),
    "node shutdown": (Cause.PREEMPTION, True),
    "node gone": (Cause.PREEMPTION, False),
    "vanished": (Cause.PREEMPTION, False),
}


TIMELESS = ("node gone", "vanished")
"""Ends without a time of their own: they count from when they are seen."""


def happen(kind: str, world: World, host: int) -> None:
    """One end, complete with its evidence, at this moment."""
    pod: PodHandle = world.pod(0, host)
    match kind:
        case "oom":
            pod.exits(137, reason="OOMKilled")
        case "exit 1":
            pod.exits(1)
        case "exit 1 on a broken chip":
            pod.exits(1).breaks("chip-2")
        case "evicted":
            pod.has("DisruptionTarget", "EvictionByEvictionAPI").is_deleted().exits(143)
        case "preempted by its queue":
            pod.has("TerminationTarget", "WorkloadEvictedDueToPreempted").is_deleted().exits(137)
        case "refused by its node":
            pod.fails("UnexpectedAdmissionError", "no healthy devices present")
        case "node shutdown":
            pod.ends_as("Failed", "Terminated").exits(143).ends_as("Failed", "Terminated")
        case "node gone":
            world.lose_node(f"node-0-{host}")
        case "vanished":
            pod.vanishes()


def expected(first: str, second: str) -> Cause:
    """The rule in words: the first one is the cause, but what has no certain time explains exit codes before it."""
    if first in ("exit 1",) and not KINDS[second][1]:
        return KINDS[second][0]
    return KINDS[first][0]


# A pod that no node has yet goes at once when the attempt ends, so it cannot be refused after that.
MEETING = [(a, b) for a, b in product(KINDS, KINDS) if not (a in TIMELESS and b == "refused by its node")]


@pytest.mark.parametrize(("first", "second"), MEETING)
def test_the_first_cause_wins(first: str, second: str) -> None:
    if "refused by its node" in (first, second):
        # Nodes refuse pods when these are bound, so this world is still starting.
        world = World(slices=1, hosts=3).begin()
        for host, kind in enumerate((first, second)):
            if kind != "refused by its node":
                world.pod(0, host).runs()
    else:
        world = World(slices=1, hosts=3).run()
    happen(first, world, 0)
    if first in TIMELESS:
        world.step()
    # So long after the pods were bound the absence of a Node is certain.
    world.now += SKEW
    happen(second, world, 1)
    world.until_restarted()
    ended = next(attempt for attempt in world.status.attempts if attempt.number == 0)
    assert ended.cause is expected(first, second), ended.message


TIMED = [kind for kind in KINDS if kind not in (*TIMELESS, "refused by its node")]


@pytest.mark.parametrize(("first", "second"), list(product(TIMED, TIMED)))
def test_the_first_cause_wins_although_it_is_seen_last(first: str, second: str) -> None:
    """The second event reaches the operator first; the times on the objects, not the order of arrival, decide."""
    world = World(slices=1, hosts=3).run()
    happen(first, world, 0)
    hidden = world.pods.pop((0, 0, 0))
    world.add_pod(0, worker(0, 0))
    world.pod(0, 0).runs(since=START)
    world.now += timedelta(seconds=2)
    happen(second, world, 1)
    world.step()
    world.pods[(0, 0, 0)] = hidden
    world.until_restarted()
    ended = next(attempt for attempt in world.status.attempts if attempt.number == 0)
    assert ended.cause is expected(first, second), ended.message


def test_a_node_that_turns_not_ready_after_its_peers_crashed_is_the_cause() -> None:
    world = World(slices=1, hosts=3).run()
    world.pod(0, 0).exits(1)
    world.pod(0, 1).exits(134)
    world.step()
    world.now += timedelta(seconds=50)
    world.not_ready("node-0-2")
    world.step()
    world.lose_node("node-0-2")
    world.until_restarted()
    assert (world.status.failures, world.status.preemptions) == (0, 1)
    assert world.status.attempts[1].root is not None
    assert world.status.attempts[1].root.host == 2


@pytest.mark.parametrize("healthy", [True, False])
def test_a_broken_chip_of_a_host_that_still_runs_explains_its_peers_crash(healthy: bool) -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).breaks("chip-2", health="Healthy" if healthy else "Unhealthy")
    world.settle()
    world.pod(0, 0).exits(1)
    world.settle()
    assert world.status.attempts[0].reason == "ExitCode"
    world.until_restarted()
    ended = world.status.attempts[-1]
    found = (ended.reason, ended.cause, ended.root.host if ended.root else None)
    assert found == (("ExitCode", Cause.FAILURE, 0) if healthy else ("DeviceUnhealthy", Cause.INFRASTRUCTURE, 1))


def test_a_broken_chip_is_the_cause_although_the_operator_crashed_and_every_pod_is_lost() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).exits(1).breaks("chip-2")
    world.step()
    world.pods.clear()
    world.vanished.clear()
    world.written = None
    world.settle()
    assert (world.status.attempts[-1].reason, world.status.infrastructure_failures) == ("DeviceUnhealthy", 1)


def test_a_machine_that_restarted_explains_its_peers_crash() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(1)
    world.step()
    world.now += timedelta(seconds=90)
    world.pod(0, 1).exits(255, reason="Unknown")
    world.until_restarted()
    assert (world.status.failures, world.status.preemptions) == (0, 1)


def test_a_node_that_fell_silent_long_before_the_job_was_clear_to_start_is_the_cause() -> None:
    world = World(slices=1, hosts=2, timeouts={"unsafeSilentNodeSeconds": 300}).run()
    world.pod(0, 0).exits(1)
    world.step()
    world.not_ready("node-0-1")
    world.step(seconds=50)
    world.step(seconds=300)
    world.settle()
    assert (world.status.failures, world.status.preemptions) == (0, 1)


def test_a_node_that_was_silent_and_whose_kubelet_confirms_the_end_is_no_cause() -> None:
    """An API server that was away makes every node look silent."""
    world = World(slices=1, hosts=2).run()
    world.not_ready("node-0-1")
    world.pod(0, 0).exits(5)
    world.step(seconds=1)
    world.step(seconds=20)
    world.nodes["node-0-1"] = a_node("node-0-1")
    world.until_restarted()
    assert (world.status.failures, world.status.preemptions) == (1, 0)


def test_a_clock_ahead_of_the_api_servers_does_not_turn_our_deletions_into_others() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(1)
    world.now += timedelta(seconds=3)
    world.step()
    world.now -= timedelta(seconds=3)
    world.pod(0, 1).is_deleted(5)
    world.now += timedelta(seconds=4)
    world.pod(0, 1).exits(143).vanishes()
    world.settle()
    assert (world.status.failures, world.status.preemptions) == (1, 0)


def test_an_oom_is_never_explained_away_by_a_lost_host() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(137, reason="OOMKilled")
    world.step()
    world.now += timedelta(seconds=20)
    world.lose_node("node-0-1")
    world.until_restarted()
    assert (world.status.failures, world.status.preemptions) == (1, 0)


def test_an_oom_in_the_same_second_as_a_spot_notice_is_a_failure() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(137, reason="OOMKilled")
    world.pod(0, 1).has("DisruptionTarget", "TerminationByKubelet").exits(143)
    world.until_restarted()
    assert world.status.failures == 1


def test_peers_killed_on_our_word_are_no_evidence() -> None:
    world = World(slices=1, hosts=4).run()
    world.pod(0, 0).has("DisruptionTarget", "EvictionByEvictionAPI").is_deleted()
    world.step()
    for host in (1, 2, 3):
        world.pod(0, host).exits(137)
    world.until_restarted()
    assert (world.status.failures, world.status.preemptions) == (0, 1)


def test_a_pod_that_vanished_has_its_node_asked_for_too_when_no_watch_shows_that() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(1)
    world.step()
    world.pod(0, 1).vanishes()
    del world.nodes["node-0-1"]
    decision = world.plan()
    assert actions_of(decision, Refresh) == [Refresh(nodes=("node-0-1",))]
    assert decision.status.failures == 0
    world.lost["node-0-1"] = LostNode(world.now)
    world.until_orphans_terminated()
    assert world.status.attempts[1].cause is Cause.PREEMPTION


@pytest.mark.parametrize("stop", [{"cancel": True}, {"activeDeadlineSeconds": 30}], ids=["cancelled", "out of time"])
def test_a_job_that_is_stopped_is_charged_by_what_is_known_then(stop: dict[str, Any]) -> None:
    world = World(slices=1, hosts=2, retries={"maxFailures": 1}).run()
    world.pod(0, 0).exits(1)
    world.step()
    world.pod(0, 1).exits(137, reason="ContainerStatusUnknown")
    world.fields |= stop
    world.step()
    assert (world.status.phase, world.attempt.cause) == (Phase.FAILED, Cause.FAILURE)


@pytest.mark.parametrize(
    ("found", "cause"),
    [("the same node", Cause.FAILURE), ("a younger one", Cause.PREEMPTION), ("none", Cause.PREEMPTION)],
)
def test_before_a_failure_is_charged_the_nodes_are_asked_about_ends_that_no_kubelet_saw(
    found: str, cause: Cause
) -> None:
    """The watch of the nodes may lag behind a machine that died, and its place may have been taken."""
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(1)
    world.step()
    world.pod(0, 1).exits(137, reason="ContainerStatusUnknown")
    decision = world.plan()
    assert actions_of(decision, Refresh) == [Refresh(nodes=("node-0-1",))]
    assert decision.status.failures == decision.status.preemptions == 0
    if found == "a younger one":
        world.nodes["node-0-1"] = a_node("node-0-1", created=world.now)
    elif found == "none":
        world.lose_node("node-0-1")
    world.until_restarted()
    assert world.status.attempts[1].cause is cause


def test_nobody_is_asked_about_unseen_ends_that_could_not_change_the_verdict() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(137, reason="OOMKilled")
    world.step()
    world.pod(0, 1).exits(137, reason="ContainerStatusUnknown")
    assert not actions_of(world.plan(), Refresh)


def test_the_verdict_survives_a_crash_of_the_operator_and_the_loss_of_every_pod() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).has("DisruptionTarget", "DeletionByTaintManager").is_deleted()
    world.step()
    world.pods.clear()
    world.vanished.clear()
    world.written = None
    world.settle()
    assert (world.status.failures, world.status.preemptions) == (0, 1)
    assert world.status.attempts[1].reason == "Disrupted"


def test_a_node_recreated_under_its_name_is_another_machine() -> None:
    world = World(slices=1, hosts=2).run()
    world.nodes["node-0-0"] = a_node("node-0-0", created=world.now)
    world.until_restarted()
    assert world.status.preemptions == 1
    assert world.status.attempts[1].reason == "NodeLost"


def test_a_deletion_came_when_it_was_asked_for_however_long_the_program_took_to_obey() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).is_deleted(grace=10)
    world.now += timedelta(seconds=3)
    world.pod(0, 1).exits(137).ends_as("Failed", "Evicted", "Pod ephemeral local storage usage exceeds the total limit")
    world.pod(0, 0).exits(143)
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("PodDeleted", 1)


def test_a_deletion_whose_first_date_is_lost_came_before_the_end_it_brought() -> None:
    """The API server dates a deletion anew when the kubelet deletes the pod once more."""
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(143)
    world.now += timedelta(seconds=1)
    world.pod(0, 1).exits(1)
    world.now += timedelta(seconds=1)
    world.pod(0, 0).is_deleted(grace=0)
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("PodDeleted", 1)


@pytest.mark.parametrize("forced", [False, True], ids=["its kubelet reports the end", "removed at once by force"])
def test_a_deletion_in_the_second_of_the_attempts_end_does_not_explain_an_earlier_failure(forced: bool) -> None:
    """From that second on deletions look like Slipway's own, and only the attempt's record knows of this one."""
    world = World(slices=1, hosts=2).run()
    deleted = world.pod(0, 1).is_deleted(grace=0 if forced else 30)
    if forced:
        deleted.vanishes(seen=True)
    world.now += timedelta(milliseconds=500)
    world.step()
    assert world.attempt.reason == "PodDeleted"
    world.pod(0, 0).exits(2, at=world.now - timedelta(seconds=1))
    if forced:
        world.until_orphans_terminated()
    else:
        world.pod(0, 1).exits(143)
        world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.failures) == ("ExitCode", 1)


def test_an_eviction_by_a_node_under_pressure_just_after_a_deletion_is_no_failure_of_the_program() -> None:
    """Both have the date of one second, in which a failure would have outranked the deletion."""
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).is_deleted()
    world.step()
    world.now += timedelta(milliseconds=100)
    evicted = world.pod(0, 0).has("DisruptionTarget", "TerminationByKubelet")
    evicted.exits(137).ends_as("Failed", "Evicted", "The node was low on resource: memory.")
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("PodDeleted", 1)


def test_a_pod_deleted_after_a_peer_had_failed_does_not_explain_that_failure() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(1)
    world.now += timedelta(seconds=9)
    world.pod(0, 1).is_deleted()
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.failures) == ("ExitCode", 1)


@pytest.mark.parametrize(
    ("kind", "reason", "cause"),
    [
        ("DisruptionTarget", "EvictionByEvictionAPI", Cause.FAILURE),
        ("DisruptionTarget", "PreemptionByScheduler", Cause.FAILURE),
        ("DisruptionTarget", "TerminationByKubelet", Cause.FAILURE),
        ("DisruptionTarget", "DeletionByTaintManager", Cause.PREEMPTION),
        ("DisruptionTarget", "DeletionByPodGC", Cause.PREEMPTION),
        ("TerminationTarget", "WorkloadEvictedDueToPreempted", Cause.FAILURE),
        ("TerminationTarget", "WorkloadEvictedDueToNodeFailures", Cause.PREEMPTION),
    ],
)
def test_a_disruption_explains_an_earlier_failure_only_when_it_tells_of_a_machine_that_died_before(
    kind: str, reason: str, cause: Cause
) -> None:
    world = World(slices=2, hosts=1).run()
    world.pod(1, 0).exits(1)
    world.now += timedelta(seconds=1)
    # Nobody saw how its container ended.
    world.pod(0, 0).has(kind, reason).is_deleted().vanishes()
    world.until_restarted()
    world.until_orphans_terminated()
    assert world.status.attempts[1].cause is cause


def test_a_disruption_on_a_machine_in_trouble_says_nothing_about_when_that_began() -> None:
    world = World(slices=2, hosts=1).run()
    world.pod(1, 0).exits(1)
    world.now += timedelta(seconds=1)
    world.pod(0, 0).has("DisruptionTarget", "EvictionByEvictionAPI").is_deleted().vanishes()
    world.lose_node("node-0-0")
    world.until_restarted()
    assert world.status.attempts[1].cause is Cause.PREEMPTION


def test_a_machine_that_started_a_pod_anew_is_the_cause_although_its_node_looks_as_ever() -> None:
    """The watch of the nodes may lag; the container's second start shows that its machine lost the first."""
    world = World(slices=2, hosts=1).run()
    world.pod(1, 0).runs(since=world.now)
    world.now += timedelta(seconds=8)
    world.pod(1, 0).exits(139)
    world.pods[(0, 1, 0)] = with_start(world.pods[(0, 1, 0)], world.now - timedelta(seconds=8))
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("NodeLost", 1)


def with_start(pod: Pod, started: datetime) -> Pod:
    [container] = pod.status.container_statuses
    assert container.state.terminated is not None
    ended = msgspec.structs.replace(container.state.terminated, started_at=started)
    state = msgspec.structs.replace(container.state, terminated=ended)
    status = msgspec.structs.replace(pod.status, container_statuses=(msgspec.structs.replace(container, state=state),))
    return msgspec.structs.replace(pod, status=status)


def test_a_pod_that_waits_although_it_ran_has_lost_its_machine() -> None:
    """After a reboot with an empty disk the kubelet pulls the image anew."""
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).waits("ImagePullBackOff").ends_as("Running")
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("NodeLost", 1)


@pytest.mark.parametrize(
    ("seconds", "reason"),
    [(30, "PodDeleted"), (40, "ExitCode"), (120, "ExitCode")],
    ids=["as a kubelet does", "as soon as its Node's absence lets it", "long after its end"],
)
def test_a_pod_that_a_signal_terminated_and_that_is_removed(seconds: int, reason: str) -> None:
    """Terminated pods whose Node is gone are collected, and that does not explain how they had terminated."""
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).exits(137)
    pod = world.pods[(0, 0, 1)]
    world.now += timedelta(seconds=seconds)
    world.pod(0, 1).is_deleted(grace=0).vanishes()
    assert pod.ended
    world.step()
    assert world.attempt.reason == reason


def test_a_host_that_succeeds_on_a_machine_that_came_in_place_of_its_own_explains_its_peers_crash() -> None:
    world = World(slices=1, hosts=2).begin()
    world.pod(0, 0).binds()
    world.pod(0, 1).runs()
    world.now += timedelta(seconds=30)
    world.nodes["node-0-0"] = a_node("node-0-0", created=world.now)
    world.pod(0, 1).exits(1)
    world.now += timedelta(seconds=30)
    world.pod(0, 0).exits(0)
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("NodeLost", 1)


@pytest.mark.parametrize(
    ("ours", "seconds", "cause"),
    [
        (OwnDeletions(frozenset({"uid-train-0-0-1"}), complete=True), 30, Cause.FAILURE),
        (OwnDeletions(frozenset({"uid-train-0-0-1"})), 30, Cause.FAILURE),
        (OwnDeletions(complete=True), 3, Cause.PREEMPTION),
        (OwnDeletions(), 3, Cause.FAILURE),
        (OwnDeletions(), 30, Cause.PREEMPTION),
    ],
    ids=["Slipway deleted it", "Slipway did, and others perhaps", "somebody else did", "dates are near", "not near"],
)
def test_who_deleted_a_pod_is_known_and_not_guessed_from_dates(ours: OwnDeletions, seconds: int, cause: Cause) -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).is_deleted(grace=2)
    hidden = world.pods.pop((0, 0, 1))
    world.add_pod(0, worker(0, 1))
    world.pod(0, 1).runs(since=START)
    world.now += timedelta(seconds=seconds)
    world.pod(0, 0).exits(1)
    world.step()
    world.pods[(0, 0, 1)] = hidden
    world.deleted_here = ours
    world.pod(0, 1).exits(1).vanishes()
    world.until_restarted()
    assert world.status.attempts[1].cause is cause


def test_a_pod_that_was_evicted_from_an_ended_attempt_is_not_why_it_ended_though_the_watch_missed_its_deletion() -> (
    None
):
    world = World(slices=1, hosts=2).run()
    unseen = dict(world.pods)
    world.pod(0, 1).exits(3)
    world.step()
    world.pods[(0, 0, 0)] = unseen[(0, 0, 0)]
    world.deleted_here = OwnDeletions(complete=True)
    world.now += timedelta(seconds=3)
    world.pod(0, 0).has("DisruptionTarget", "EvictionByEvictionAPI").vanishes()
    world.until_restarted()
    world.until_orphans_terminated()
    assert (world.status.attempts[1].reason, world.status.failures) == ("ExitCode", 1)


def test_a_machine_that_goes_after_its_kubelet_had_removed_the_pod_did_not_take_it() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(2)
    world.step()
    world.now += timedelta(seconds=1)
    removed = world.now
    world.pod(0, 1).exits(137, reason="ContainerStatusUnknown").vanishes()
    world.vanished[-1] = replace(world.vanished[-1], at=removed + timedelta(seconds=50), removed_at=removed)
    world.now += timedelta(seconds=50)
    world.lose_node("node-0-1")
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.failures) == ("ExitCode", 1)


@pytest.mark.parametrize(
    ("after", "reason"),
    [(timedelta(0), "NodeLost"), (SKEW - timedelta(seconds=1), "NodeLost"), (SKEW, "ExitCode")],
    ids=["as the program failed", "later by less than clocks may differ", "later"],
)
def test_a_machine_whose_end_was_announced_after_the_attempt_had_ended_did_not_end_it(
    after: timedelta, reason: str
) -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(2)
    world.step()
    world.now += after
    world.taint("node-0-1", names.TAINT_IMPENDING_TERMINATION)
    world.pod(0, 1).exits(137, reason="ContainerStatusUnknown")
    world.until_restarted()
    assert world.status.attempts[1].reason == reason


@pytest.mark.parametrize(
    ("after", "reason"),
    [(SKEW - timedelta(seconds=1), "NodeLost"), (SKEW, "ExitCode")],
    ids=["by no more than clocks may differ", "by more"],
)
def test_a_node_that_is_not_ready_after_its_kubelet_had_removed_the_pod_did_not_end_the_attempt(
    after: timedelta, reason: str
) -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(2)
    world.step()
    removed = world.now
    world.pod(0, 1).exits(137, reason="ContainerStatusUnknown").vanishes()
    world.vanished[-1] = replace(world.vanished[-1], at=removed, removed_at=removed)
    world.now += after
    world.not_ready("node-0-1")
    world.until_restarted()
    assert world.status.attempts[1].reason == reason


def test_trouble_of_a_node_from_before_the_pod_was_bound_is_that_of_another_machine_of_its_name() -> None:
    """The watch of the nodes lags behind a machine that was replaced."""
    world = World(slices=1, hosts=2).begin()
    world.pod(0, 1).binds()
    world.not_ready("node-0-1")
    del world.pods[(0, 0, 1)]
    world.add_pod(0, worker(0, 1))
    world.now += timedelta(seconds=17)
    world.pod(0, 1).binds()
    world.pod(0, 0).exits(1)
    world.step()
    world.pod(0, 1).exits(137, reason="ContainerStatusUnknown")
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.failures) == ("ExitCode", 1)


def test_of_two_failures_in_one_second_the_pod_that_is_kept_is_blamed() -> None:
    """The other one was deleted before its end was known, and its log went with it."""
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).exits(1, message="ValueError: seen first")
    world.step()
    world.pod(0, 0).exits(1, at=world.now)
    world.obey()
    world.settle()
    root = world.status.attempts[1].root
    assert root is not None
    assert (root.pod, (0, 0, 1) in world.pods) == ("train-0-0-1", True)


def _lost(world: World, host: int) -> None:
    world.lose_node(f"node-0-{host}")


def _off_duty(world: World, host: int) -> None:
    world.taint(f"node-0-{host}", names.TAINT_OUT_OF_SERVICE)


def _rebooted(world: World, host: int) -> None:
    world.pod(0, host).exits(255, reason="Unknown")


def _collected(world: World, host: int) -> None:
    _lost(world, host)
    world.pod(0, host).has("DisruptionTarget", "DeletionByPodGC").ends_as("Failed")


def _made_anew(world: World, host: int) -> None:
    name = f"node-0-{host}"
    world.nodes[name], world.troubled[name] = a_node(name, created=world.now), world.now


LOSSES = {
    "its Node is deleted": _lost,
    "a person taints it out-of-service, as CleanupPending says": _off_duty,
    "it restarts": _rebooted,
    "the pod garbage collector ends its pod": _collected,
    "another machine has its name": _made_anew,
}


@pytest.mark.parametrize("lose", LOSSES.values(), ids=LOSSES)
@pytest.mark.parametrize(("seconds", "cause"), [(60, Cause.PREEMPTION), (300, Cause.FAILURE), (86_400, Cause.FAILURE)])
def test_a_machine_that_is_lost_long_after_the_end_of_the_attempt_is_no_cause(
    seconds: int, cause: Cause, lose: Callable[[World, int], None]
) -> None:
    """Its pod does not terminate, and so the attempt is judged only when its machine has gone."""
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).exits(1, message="ValueError")
    world.settle()
    world.now += timedelta(seconds=seconds)
    lose(world, 0)
    world.settle()
    world.obey()
    world.settle()
    ended = world.status.attempts[-1]
    assert (ended.number, ended.cause) == (0, cause), ended.message


def test_a_machine_that_fell_silent_when_the_attempt_ended_is_the_cause_whenever_its_node_goes() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).exits(1)
    world.settle()
    world.now += timedelta(seconds=50)
    world.not_ready("node-0-0")
    world.settle()
    world.now += timedelta(hours=1)
    world.lose_node("node-0-0")
    world.settle()
    assert world.status.attempts[-1].cause is Cause.PREEMPTION


def test_machines_that_are_lost_late_do_not_keep_a_job_that_fails_from_its_end() -> None:
    world = World(slices=1, hosts=2, retries={"maxFailures": 2}).run()
    for turn in range(2):
        world.pod(0, 1).exits(1)
        world.settle()
        world.now += timedelta(minutes=5)
        world.lose_node(world.pod(0, 0).now.spec.node_name)
        world.settle()
        world.now += timedelta(minutes=10)
        world.settle()
        for host in () if world.status.phase is Phase.FAILED else (0, 1):
            world.pod(0, host).binds(f"other-{turn}-{host}").runs()
        world.settle()
    assert (world.status.phase, world.status.failures, world.status.preemptions) == (Phase.FAILED, 2, 0)

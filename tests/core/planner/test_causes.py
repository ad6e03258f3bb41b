"""Why one pod ended: every row of the evidence table, on the shapes that clusters really show."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from msgspec import convert

from slipway.api.names import EXIT_LINK, EXIT_UNUSABLE, WORKSPACE_CONTAINER
from slipway.api.status import Cause
from slipway.core.model.container_states import ContainerState, ContainerStatus, Device, Devices, Running, Terminated
from slipway.core.planner.contract.actions import DeletePods, Refresh
from slipway.core.planner.contract.snapshot import OwnDeletions
from slipway.core.planner.diagnosis.causes import RULES
from tests.core.build import PodHandle, Scenario, World, a_node, actions_of

OOM_MESSAGE = "Allocate failed due to no healthy devices present; cannot allocate unhealthy devices google.com/tpu"
SHUTDOWN = "Pod was terminated in response to imminent node shutdown."


def case(name: str, fixture: Scenario, reason: str, cause: Cause, **fields: Any) -> Any:
    return pytest.param(fixture, fields, reason, cause, id=name)


def victim(world: World) -> PodHandle:
    return world.pod(0, 0)


def disrupted(reason: str, code: int = 137) -> Scenario:
    def fixture(world: World) -> None:
        victim(world).has("DisruptionTarget", reason).is_deleted()
        world.now += timedelta(seconds=2)
        victim(world).exits(code)

    return fixture


def refused_directory(world: World, code: int, words: str) -> None:
    end = ContainerState(terminated=Terminated(code, "Error", f"{words}\n", world.now))
    victim(world).binds().waits("PodInitializing").ends_as("Failed")
    victim(world)._status(init_container_statuses=(ContainerStatus(WORKSPACE_CONTAINER, end),))


def node_gone(world: World) -> None:
    world.lose_node("node-0-0")
    victim(world).ends_as("Failed").has("DisruptionTarget", "DeletionByPodGC", message="PodGC: node no longer exists")


def exits_0_as_its_machine_goes(world: World) -> None:
    """A notice of seconds: the kubelet reports the container, and dies before it has set the phase."""
    victim(world).exits(0).ends_as("Running")
    world.now += timedelta(seconds=62)
    node_gone(world)


def vanishes_after_exit_0(world: World) -> None:
    """As above, but the watch missed what the pod garbage collector did, and a list showed that the pod is gone."""
    victim(world).exits(0).ends_as("Running")
    world.now += timedelta(seconds=62)
    world.lose_node("node-0-0")
    victim(world).vanishes()


def deleted_after_exit_0_on_a_silent_node(world: World) -> None:
    """As above, but the taint manager is faster than the pod garbage collector."""
    victim(world).exits(0).ends_as("Running")
    world.now += timedelta(seconds=45)
    world.not_ready("node-0-0")
    world.now += timedelta(seconds=30)
    victim(world).has("DisruptionTarget", "DeletionByTaintManager").is_deleted()


def deleted_after_exit_0_on_an_unseen_node(world: World) -> None:
    deleted_after_exit_0_on_a_silent_node(world)
    world.nodes_watched = False
    world.nodes.clear()


def exits_0_as_its_machine_goes_and_its_peer_crashes(world: World) -> None:
    """Nobody removes the pod that Slipway deletes then: its kubelet is dead."""
    victim(world).exits(0).ends_as("Running")
    world.now += timedelta(seconds=5)
    world.pod(0, 1).exits(1)
    world.step()
    world.now += timedelta(seconds=31)
    victim(world).is_deleted()
    world.lose_node("node-0-0")


def gone_silently(world: World) -> None:
    victim(world).vanishes()


def deleted_by_hand(world: World) -> None:
    victim(world).is_deleted()


def exit_0_on_sigterm(world: World) -> None:
    victim(world).is_deleted()
    world.now += timedelta(seconds=3)
    victim(world).exits(0)


def deleted_and_stopped(world: World) -> None:
    victim(world).exits(143)
    world.now += timedelta(seconds=1)
    victim(world).is_deleted(grace=0)


def recreated_node(world: World) -> None:
    name = "node-0-0"
    from tests.core.build import a_node

    world.nodes[name] = a_node(name, created=world.now)


def killed_on(taint: str | None, code: int) -> Scenario:
    def fixture(world: World) -> None:
        world.not_ready("node-0-0") if taint is None else world.taint("node-0-0", taint)
        victim(world).exits(code)

    return fixture


def lost_track(world: World) -> None:
    world.not_ready("node-0-0")
    victim(world).exits(137, reason="ContainerStatusUnknown")


IMPENDING = "cloud.google.com/impending-node-termination"
OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
NO_COMMAND = 'OCI runtime create failed: exec: "trian.py": executable file not found in $PATH: unknown'
VFIO = "RuntimeError: open(/dev/vfio/0): Device or resource busy"
TPU = {"accelerator": {"type": "v5litepod-1"}, "hosts": None}

CASES = [
    case("2 own container OOMKilled", lambda w: victim(w).exits(137, reason="OOMKilled"), "OOMKilled", Cause.FAILURE),
    case(
        "2 OOMKilled on the way out after a disruption",
        lambda w: victim(w).has("DisruptionTarget", "TerminationByKubelet").exits(137, reason="OOMKilled"),
        "OOMKilled",
        Cause.FAILURE,
    ),
    *[
        case(f"3 {reason}", disrupted(reason), "Disrupted", Cause.PREEMPTION)
        for reason in (
            "PreemptionByScheduler",
            "DeletionByTaintManager",
            "EvictionByEvictionAPI",
            "DeletionByPodGC",
            "TerminationByKubelet",
            "DeletionByDeviceTaintManager",
            "DeletionByGCPControllerManager",
        )
    ],
    case("3 disrupted and exits 0 on SIGTERM", disrupted("TerminationByKubelet", 0), "Disrupted", Cause.PREEMPTION),
    case("3 node object gone, marked by pod GC", node_gone, "Disrupted", Cause.PREEMPTION),
    case("3 exits 0 as its machine goes, marked by pod GC", exits_0_as_its_machine_goes, "Disrupted", Cause.PREEMPTION),
    case("3 exits 0 as its machine goes, and vanishes", vanishes_after_exit_0, "NodeLost", Cause.PREEMPTION),
    case(
        "3 exits 0 as its machine goes, and is deleted",
        deleted_after_exit_0_on_a_silent_node,
        "Disrupted",
        Cause.PREEMPTION,
    ),
    case(
        "3 exits 0 as its machine goes, and nobody may read Nodes",
        deleted_after_exit_0_on_an_unseen_node,
        "Disrupted",
        Cause.PREEMPTION,
    ),
    case(
        "3 exits 0 as its machine goes, before a peer crashes",
        exits_0_as_its_machine_goes_and_its_peer_crashes,
        "NodeLost",
        Cause.PREEMPTION,
        hosts=2,
    ),
    case(
        "4 Kueue preempts",
        lambda w: victim(w).has("TerminationTarget", "WorkloadEvictedDueToPreempted").exits(137),
        "PreemptedByQueue",
        Cause.PREEMPTION,
    ),
    case(
        "4 Kueue sees a node fail",
        lambda w: victim(w).has("TerminationTarget", "WorkloadEvictedDueToNodeFailures").exits(137),
        "PreemptedByQueue",
        Cause.PREEMPTION,
    ),
    case(
        "4 Kueue stops its queue",
        lambda w: victim(w).has("TerminationTarget", "WorkloadEvictedDueToClusterQueueStopped").exits(143),
        "StoppedByQueue",
        Cause.UNCHARGED,
    ),
    *[
        case(f"5 {reason}", lambda w, r=reason: victim(w).fails(r, SHUTDOWN), "EndedByNode", Cause.PREEMPTION)
        for reason in ("Shutdown", "Terminated", "NodeShutdown", "NodeLost", "Preempting")
    ],
    case(
        "5 node pressure",
        lambda w: (
            victim(w)
            .fails("Evicted", "The node was low on resource: memory")
            .has("DisruptionTarget", "TerminationByKubelet")
        ),
        "Disrupted",
        Cause.PREEMPTION,
    ),
    case(
        "5 own storage limit",
        lambda w: victim(w).fails("Evicted", "Pod ephemeral local storage usage exceeds the total limit"),
        "EvictedForOwnUsage",
        Cause.FAILURE,
    ),
    *[
        case(f"6 {reason}", lambda w, r=reason: victim(w).fails(r, OOM_MESSAGE), "RefusedByNode", Cause.INFRASTRUCTURE)
        for reason in (
            "UnexpectedAdmissionError",
            "OutOfcpu",
            "OutOfmemory",
            "OutOfgoogle.com/tpu",
            "OutOfpods",
            "NodeAffinity",
            "TopologyAffinityError",
        )
    ],
    case("7 vanished without a trace", gone_silently, "PodDeleted", Cause.PREEMPTION),
    case("7 deleted by hand", deleted_by_hand, "PodDeleted", Cause.PREEMPTION),
    case("7 deleted by hand, seen only when the kubelet was done", deleted_and_stopped, "PodDeleted", Cause.PREEMPTION),
    case("7 deleted by hand, exits 0 on SIGTERM", exit_0_on_sigterm, "PodDeleted", Cause.PREEMPTION),
    case(
        "8 node gone while the pod still says Running", lambda w: w.lose_node("node-0-0"), "NodeLost", Cause.PREEMPTION
    ),
    case("8 node created again under its name", recreated_node, "NodeLost", Cause.PREEMPTION),
    case("8 137 on a node that turns NotReady", killed_on(None, 137), "NodeLost", Cause.PREEMPTION),
    case("8 143 under an impending termination", killed_on(IMPENDING, 143), "NodeLost", Cause.PREEMPTION),
    case("8 137 on an out-of-service node", killed_on(OUT_OF_SERVICE, 137), "NodeLost", Cause.PREEMPTION),
    case(
        "8 found dead when its machine came up",
        lambda w: victim(w).exits(255, reason="Unknown"),
        "NodeLost",
        Cause.PREEMPTION,
    ),
    case("8 its kubelet lost track of it on a troubled node", lost_track, "NodeLost", Cause.PREEMPTION),
    case("8 exit 1 on a troubled node is the program's own", killed_on(IMPENDING, 1), "ExitCode", Cause.FAILURE),
    case("10 a broken chip", lambda w: victim(w).exits(1).breaks("chip-2"), "DeviceUnhealthy", Cause.INFRASTRUCTURE),
    case(
        "10 a broken chip and an exit code that ends the job",
        lambda w: victim(w).exits(42).breaks("chip-2"),
        "DeviceUnhealthy",
        Cause.INFRASTRUCTURE,
        retries={"onExitCodes": {"fail": [42]}},
    ),
    case(
        "10 a chip of unknown health",
        lambda w: victim(w).exits(1).breaks("chip-2", health="Unknown"),
        "ExitCode",
        Cause.FAILURE,
    ),
    case(
        "2 own container OOMKilled beside a broken chip",
        lambda w: victim(w).exits(137, reason="OOMKilled").breaks("chip-2"),
        "OOMKilled",
        Cause.FAILURE,
    ),
    case(
        "3 disrupted beside a broken chip",
        lambda w: (disrupted("DeletionByTaintManager")(w), victim(w).breaks("chip-2")),
        "Disrupted",
        Cause.PREEMPTION,
    ),
    case(
        "a command that is not in the image, beside a broken chip",
        lambda w: victim(w).exits(128, reason="StartError", message=NO_COMMAND).breaks("chip-2"),
        "CannotStart",
        Cause.FAILURE,
    ),
    case("10 vfio busy", lambda w: victim(w).exits(1, message=VFIO), "TPUUnavailable", Cause.INFRASTRUCTURE, **TPU),
    case("10 vfio text of a CPU job", lambda w: victim(w).exits(1, message=VFIO), "ExitCode", Cause.FAILURE),
    *[
        case(
            f"11 listed as {listed}",
            lambda w: victim(w).exits(42),
            reason,
            cause,
            retries={"onExitCodes": {listed: [42]}},
        )
        for listed, reason, cause in (
            ("fail", "FinalExitCode", Cause.FAILURE),
            ("preemption", "PreemptionExitCode", Cause.PREEMPTION),
            ("ignore", "IgnoredExitCode", Cause.UNCHARGED),
        )
    ],
    case(
        "a command that is not in the image",
        lambda w: victim(w).exits(128, reason="StartError", message=NO_COMMAND),
        "CannotStart",
        Cause.FAILURE,
    ),
    case("13 program exits 1", lambda w: victim(w).exits(1), "ExitCode", Cause.FAILURE),
    case("13 program is killed by a signal", lambda w: victim(w).exits(139), "ExitCode", Cause.FAILURE),
    case(
        "13 program says it was preempted",  # B-49
        lambda w: victim(w).exits(1, message="RuntimeError: worker was preempted"),
        "ExitCode",
        Cause.FAILURE,
    ),
    case("13 E2-50 failed without a word", lambda w: victim(w).fails("", ""), "UnexpectedOutcome", Cause.FAILURE),
]


@pytest.mark.parametrize(("fixture", "fields", "reason", "cause"), CASES)
@pytest.mark.row("B-49")
def test_evidence_of_one_pod(fixture: Scenario, fields: dict[str, Any], reason: str, cause: Cause) -> None:
    world = World(**({"slices": 1, "hosts": 1} | fields)).run()
    fixture(world)
    world.until_restarted()
    ended = next(attempt for attempt in world.status.attempts if attempt.number == 0)
    assert (ended.reason, ended.cause) == (reason, cause)
    assert "host 0 of slice 0" in (ended.message or "")


# N-38
LIMIT = {"resources": {"limits": {"memory": "2Gi"}}}


def in_template(name: str, **fields: Any) -> dict[str, Any]:
    return {"podTemplate": {"spec": {"containers": [{"name": name, **fields}]}}}


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        (LIMIT, " (limit 2Gi)"),
        ({}, ""),
        (LIMIT | in_template("worker", resources={"limits": {"memory": "64Gi"}}), " (limit 64Gi)"),
        (LIMIT | in_template("worker", resources={"requests": {"memory": "1Gi"}}), " (limit 2Gi)"),
        (LIMIT | in_template("log", resources={"limits": {"memory": "64Mi"}}), " (limit 2Gi)"),
    ],
    ids=["limit", "no limit", "limit of the template", "a template without limit", "limit of a sidecar"],
)
def test_the_message_tells_the_limit_of_the_memory_that_ran_out(fields: dict[str, Any], words: str) -> None:
    world = World(slices=1, hosts=2, **fields).run()
    victim(world).exits(137, reason="OOMKilled")
    world.until_restarted()
    assert f"ran out of memory{words}" in (world.status.attempts[-1].message or "")
    assert ("limit" in (world.status.attempts[-1].message or "")) == bool(words)


@pytest.mark.row("F-62")
@pytest.mark.parametrize(("seconds", "ended"), [(59.9, False), (60.0, True)])
def test_the_time_to_start_is_over_when_all_of_it_has_passed(seconds: float, ended: bool) -> None:
    world = World(slices=1, hosts=2, timeouts={"startSeconds": 60}).begin()
    world.pod(0, 0).binds().waits("ImagePullBackOff")
    world.pod(0, 1).binds().waits("ImagePullBackOff")
    world.step(seconds=seconds)
    assert (world.attempt.reason == "StartTimeout") == ended


def test_the_message_names_the_broken_chips_and_the_last_line() -> None:
    world = World().run()
    victim(world).exits(1, message="INTERNAL: chip is not responding").breaks("chip-3", "chip-2")
    world.until_restarted()
    assert (world.status.attempts[-1].message or "").endswith(
        "exited with code 1 and had unhealthy devices (chip-2 of google.com/tpu, chip-3 of google.com/tpu): "
        "INTERNAL: chip is not responding"
    )


def test_a_program_that_succeeds_on_a_broken_chip_has_succeeded() -> None:
    world = World().run()
    victim(world).breaks("chip-2")
    world.settle()
    assert world.status.phase == "Running"
    victim(world).exits(0).breaks("chip-2")
    world.settle()
    assert world.status.phase == "Succeeded"


def test_of_the_devices_of_a_container_the_unhealthy_ones_are_kept() -> None:
    chips = [{"resourceID": f"chip-{n}", "health": "Healthy" if n else "Unhealthy"} for n in range(4)]
    told = [{"name": "google.com/tpu", "resources": chips}, {"name": "example.com/nic", "resources": [chips[1]]}]
    status = convert({"name": "worker", "allocatedResourcesStatus": told}, ContainerStatus)
    assert status.allocated_resources_status == (Devices("google.com/tpu", (Device("chip-0", "Unhealthy"),)),)


@pytest.mark.row("B-32")
def test_a_link_ends_the_job_at_once_and_says_which() -> None:
    world = World().begin()
    refused_directory(world, EXIT_LINK, "directory train in the volume of spec.workspace is a symbolic link to /etc")
    world.settle()
    assert (world.status.phase, world.status.attempt) == ("Failed", 0)
    assert world.status.result is not None
    assert world.status.result.reason == "WorkspaceSymlink"
    assert "could not start: directory train in the volume of spec.workspace is a symbolic link to /etc" in (
        world.status.result.message
    )


def test_a_directory_that_cannot_be_made_is_tried_again_until_the_start_failures_are_used_up() -> None:
    world = World(retries={"maxStartFailures": 2}).begin()
    for _ in range(2):
        refused_directory(world, EXIT_UNUSABLE, "directory train cannot be made")
        world.settle()
        world.obey()
        world.settle()
    assert world.status.result is not None
    assert (world.status.phase, world.status.result.reason) == ("Failed", "StartFailureLimitExceeded")
    assert {(one.reason, one.cause) for one in world.status.attempts} == {("WorkspaceUnusable", Cause.FAILURE)}


def test_the_init_container_that_failed_is_named_and_not_a_sidecar_that_was_stopped_for_it() -> None:
    world = World(retries={"maxFailures": 1}).begin()
    ends = {
        "proxy": Terminated(137, "Error", "", world.now + timedelta(seconds=2)),
        "fetch": Terminated(3, "Error", "looking\nnothing to fetch\n", world.now),
    }
    victim(world).binds().waits("PodInitializing").ends_as("Failed")
    victim(world)._status(
        init_container_statuses=tuple(
            ContainerStatus(name, ContainerState(terminated=end)) for name, end in ends.items()
        )
    )
    world.settle()
    [attempt] = world.status.attempts
    assert attempt.message is not None
    assert attempt.message.endswith("failed: init container fetch exited with code 3: nothing to fetch")
    assert attempt.root is not None
    assert (attempt.root.log, attempt.root.exit_code) == ("looking\nnothing to fetch", None)


def test_a_sidecar_that_was_stopped_after_the_program_has_ended_kept_nothing_from_starting() -> None:
    world = World().begin().run()
    stopped = ContainerState(terminated=Terminated(143, "Error", "", world.now))
    victim(world).exits(1)._status(init_container_statuses=(ContainerStatus("proxy", stopped),))
    assert [pod.failed_init for pod in world.snapshot.pods if pod.ended] == [None]


@pytest.mark.parametrize(
    ("code", "signal"), [(1, None), (128, None), (137, 9), (143, 15), (192, 64), (200, None), (255, None)]
)
def test_an_exit_code_tells_of_a_signal_where_there_is_one_of_that_number(code: int, signal: int | None) -> None:
    world = World(hosts=2).run()
    world.pod(0, 0).exits(code)
    world.step()
    assert world.attempt.root is not None
    assert (world.attempt.root.exit_code, world.attempt.root.signal) == (code, signal)
    assert world.attempt.message is not None
    assert ("signal" in world.attempt.message) == (signal is not None)


def test_every_row_of_the_table_has_a_case() -> None:
    rays = {"RayNodeLost"}  # its cases are in test_ray.py
    directories = {"WorkspaceSymlink", "WorkspaceUnusable"}  # no worker has run: the tests above
    assert {rule.ending.reason for rule in RULES} - {entry.values[2] for entry in CASES} == rays | directories


@pytest.mark.parametrize(
    ("seconds", "seen_first"), [(2, True), (6, False)], ids=["which was seen", "by more than clocks may be apart"]
)
def test_a_success_stays_one_when_a_disruption_comes_later(seconds: int, seen_first: bool) -> None:
    world = World(slices=1, hosts=2).run()
    victim(world).exits(0)
    world.now += timedelta(seconds=seconds)
    victim(world).has("DisruptionTarget", "DeletionByTaintManager").is_deleted()
    world.pods[victim(world).key] = msgspec.structs.replace(victim(world).now, ended_first=seen_first)
    world.settle()
    world.pod(0, 1).exits(0)
    world.settle()
    assert world.status.phase == "Succeeded"


@pytest.mark.parametrize("behind", [0, 1, 4])
@pytest.mark.parametrize("code", [0, 137, 143])
@pytest.mark.parametrize("disrupted", [True, False])
def test_what_a_signal_ended_did_not_end_before_by_the_clock_of_a_kubelet_that_is_behind(
    disrupted: bool, code: int, behind: int
) -> None:
    """A process that takes over sees the deletion and the end at once; the end may be dated before the deletion."""
    world = World(slices=1, hosts=2).run()
    if disrupted:
        victim(world).has("DisruptionTarget", "DeletionByTaintManager")
    victim(world).is_deleted().exits(code, at=world.now - timedelta(seconds=behind))
    world.now += timedelta(seconds=10)
    world.until_restarted()
    reason = "Disrupted" if disrupted else "PodDeleted"
    assert (world.status.attempts[1].reason, world.status.preemptions, world.status.failures) == (reason, 1, 0)


@pytest.mark.parametrize("behind", [0, 1, 4])
@pytest.mark.parametrize("code", [137, 143])
@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        pytest.param(lambda pod: pod.has("DisruptionTarget", "PreemptionByScheduler"), "Disrupted", id="disrupted"),
        pytest.param(lambda pod: pod.exits(75), "PreemptionExitCode", id="exit code of a preemption"),
        pytest.param(lambda pod: pod.exits(42), "FinalExitCode", id="exit code that ends the job"),
        pytest.param(lambda pod: pod.exits(1), "ExitCode", id="any other exit code"),
    ],
)
def test_what_slipway_stopped_is_no_cause_by_the_clock_of_a_kubelet_that_is_behind(
    ends: Callable[[PodHandle], PodHandle], expected: str, code: int, behind: int
) -> None:
    world = World(slices=1, hosts=2, retries={"onExitCodes": {"preemption": [75], "fail": [42]}}).run()
    root, peer = ends(victim(world)), world.pod(0, 1)
    name = root.now.metadata.name
    world.step()
    assert peer.now.terminating
    world.deleted_here = OwnDeletions(frozenset({peer.now.metadata.uid}), complete=True)
    peer.exits(code, at=world.now - timedelta(seconds=behind))
    if not root.now.ended:
        root.exits(143)
    world.settle()
    ended = next(one for one in world.status.attempts if one.number == 0)
    assert (ended.reason, ended.root and ended.root.pod) == (expected, name)


@pytest.mark.parametrize("ahead", [0, 2])
@pytest.mark.parametrize("later", [0, 1, 2])
@pytest.mark.parametrize("hosts", [1, 2])
def test_a_kubelet_that_evicts_a_pod_says_so_once_it_has_terminated(hosts: int, later: int, ahead: int) -> None:
    """It reports the container first, and with the final phase that it was a disruption, dated then."""
    world = World(slices=1, hosts=hosts).run()
    victim(world).exits(137, at=world.now + timedelta(seconds=ahead))._status(phase="Running")
    world.step()
    world.pods[victim(world).key] = msgspec.structs.replace(victim(world).now, ended_first=True)
    world.now += timedelta(seconds=later)
    victim(world).has("DisruptionTarget", "TerminationByKubelet").ends_as("Failed", "Evicted", "low on memory")
    world.until_restarted()
    ended = next(one for one in world.status.attempts if one.number == 0)
    assert (ended.reason, ended.cause) == ("Disrupted", Cause.PREEMPTION)


@pytest.mark.parametrize("asked", [True, False], ids=["its pod is deleted", "its pod is not deleted yet"])
def test_a_kubelet_that_evicts_a_pod_of_an_attempt_that_has_ended_is_no_cause(asked: bool) -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).exits(1)
    world.step()
    world.now += timedelta(seconds=3)
    victim(world).exits(137).has("DisruptionTarget", "TerminationByKubelet").ends_as("Failed", "Evicted", "low")
    if not asked:
        metadata = msgspec.structs.replace(victim(world).now.metadata, deletion_timestamp=None)
        world.pods[victim(world).key] = msgspec.structs.replace(victim(world).now, metadata=metadata, ended_first=True)
    world.until_restarted()
    ended = next(one for one in world.status.attempts if one.number == 0)
    assert (ended.reason, ended.cause) == ("ExitCode", Cause.FAILURE)


UNOBSERVED = ContainerState(terminated=Terminated(137, "ContainerStatusUnknown", "", None))


@pytest.mark.parametrize(
    ("goes", "reason"),
    [
        pytest.param(lambda pod: pod.is_deleted(30), "PodDeleted", id="deleted"),
        pytest.param(
            lambda pod: pod.has("DisruptionTarget", "EvictionByEvictionAPI").is_deleted(30), "Disrupted", id="evicted"
        ),
        pytest.param(lambda pod: pod.vanishes(seen=True), "PodDeleted", id="gone"),
    ],
)
def test_what_no_kubelet_saw_the_end_of_did_not_end_by_itself(goes: Callable[[PodHandle], object], reason: str) -> None:
    world = World(slices=1, hosts=2).run()
    pod = victim(world)._worker(UNOBSERVED, "Failed")
    world.pods[pod.key] = msgspec.structs.replace(pod.now, ended_first=True)
    goes(pod)
    world.until_restarted()
    ended = next(one for one in world.status.attempts if one.number == 0)
    assert (ended.reason, ended.cause) == (reason, Cause.PREEMPTION)


def test_a_success_that_was_seen_stays_one_by_the_clock_of_a_kubelet_that_is_ahead() -> None:
    world = World(slices=1, hosts=2).run()
    world.settle()
    world.written = world.now
    victim(world).exits(0, at=world.now + timedelta(seconds=3))
    world.step(seconds=1)
    assert not world.status.succeeded_hosts, "the status does not show it yet"
    victim(world).is_deleted()
    world.pods[victim(world).key] = msgspec.structs.replace(victim(world).now, ended_first=True)
    world.step()
    assert world.attempt.end_time is None
    world.pod(0, 1).exits(0)
    world.settle()
    assert world.status.phase == "Succeeded"


@pytest.mark.parametrize("ahead", [0, 3])
def test_an_init_container_that_slipway_stopped_is_no_cause(ahead: int) -> None:
    """By the clock of a kubelet that is ahead, what ended the attempt comes after that."""
    world = World(slices=1, hosts=2, retries={"onExitCodes": {"preemption": [75]}}).begin()
    victim(world).runs()
    peer = world.pod(0, 1).binds()
    init = ContainerStatus("fetch", ContainerState(running=Running(world.now)))
    peer._status(phase="Pending", init_container_statuses=(init,))
    world.step(seconds=20)
    victim(world).exits(75, at=world.now + timedelta(seconds=ahead))
    world.step()
    world.deleted_here = OwnDeletions(frozenset({peer.now.metadata.uid}), complete=True)
    end = Terminated(143, "Error", "", world.now)
    peer._status(phase="Failed", init_container_statuses=(ContainerStatus("fetch", ContainerState(terminated=end)),))
    world.settle()
    ended = next(one for one in world.status.attempts if one.number == 0)
    assert (ended.reason, ended.cause) == ("PreemptionExitCode", Cause.PREEMPTION)


def test_the_host_that_ended_the_attempt_is_the_first_by_the_clock_of_a_kubelet_that_is_ahead() -> None:
    world = World(slices=1, hosts=2, retries={"onExitCodes": {"preemption": [75]}}).run()
    root, peer = victim(world), world.pod(0, 1)
    root.exits(75, at=world.now + timedelta(seconds=3))
    world.step()
    peer.exits(1, at=world.now + timedelta(seconds=2))
    world.pods[peer.key] = msgspec.structs.replace(peer.now, ended_first=True)
    world.settle()
    ended = next(one for one in world.status.attempts if one.number == 0)
    assert (ended.reason, ended.cause) == ("PreemptionExitCode", Cause.PREEMPTION)


def test_a_program_that_failed_by_itself_just_before_its_pod_was_deleted_is_a_failure() -> None:
    world = World(slices=1, hosts=2).run()
    victim(world).is_deleted().exits(1, at=world.now - timedelta(seconds=2))
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.failures) == ("ExitCode", 1)


def test_time_alone_ends_no_attempt_before_the_pods_have_been_asked_for() -> None:
    world = World(slices=1, hosts=2, timeouts={"startSeconds": 60}, activeDeadlineSeconds=100).begin()
    world.pod(0, 0).binds()
    world.pod(0, 1).binds()
    world.answers = False
    decision = world.step(seconds=600)
    assert world.status.phase == "Starting"
    [asked] = actions_of(decision, Refresh)
    assert asked.pods
    world.answers = True
    for handle in world.all_pods():
        handle.exits(0)
    world.settle()
    assert world.status.phase == "Succeeded"


@pytest.mark.row("B-52", "B-04")
def test_a_start_timeout_is_a_failure_with_the_kubelets_words() -> None:
    world = World(slices=1, hosts=2, timeouts={"startSeconds": 60}).begin()
    world.pod(0, 0).binds().waits("ImagePullBackOff", "Back-off pulling image busybox:1")
    world.pod(0, 1).runs()
    world.step(seconds=59)
    assert world.status.phase == "Starting"
    world.step(seconds=2)
    world.until_restarted()
    ended = world.status.attempts[1]
    assert (ended.reason, ended.cause) == ("StartTimeout", Cause.FAILURE)
    assert "ImagePullBackOff Back-off pulling image busybox:1" in (ended.message or "")


def test_the_time_to_start_counts_from_when_the_last_pod_was_scheduled() -> None:
    world = World(slices=1, hosts=2, timeouts={"startSeconds": 60}).begin()
    world.pod(0, 0).binds().waits("WaitingForItsPeer")
    world.now += timedelta(seconds=100)
    world.pod(0, 1).runs()
    world.step(seconds=59)
    assert world.status.phase == "Starting"
    world.step(seconds=2)
    assert world.attempt.reason == "StartTimeout"


def test_the_time_to_start_counts_from_when_the_services_exist() -> None:
    """Pods do not find each other before, and a Ray head is not ready without its workers."""
    world = World(slices=1, hosts=2, timeouts={"startSeconds": 60}).begin()
    world.pod(0, 0).binds().waits("WaitingForItsPeer")
    world.pod(0, 1).runs()
    world.served = None
    world.step(seconds=100)
    assert (world.served, world.attempt.end_time) == (0, None)
    world.step(seconds=59)
    assert world.status.phase == "Starting"
    world.step(seconds=2)
    assert world.attempt.reason == "StartTimeout"


@pytest.mark.parametrize("seconds", [0, 1], ids=["in the same second", "a second later"])
def test_what_hits_a_host_after_its_start_timeout_is_not_the_cause(seconds: int) -> None:
    world = World(slices=1, hosts=2, timeouts={"startSeconds": 60}).begin()
    for handle in world.all_pods():
        handle.binds().waits("ImagePullBackOff", "Back-off pulling image busybox:1")
    world.step(seconds=61)
    ended = world.status.attempts[0]
    assert (ended.reason, ended.root and (ended.root.slice, ended.root.host)) == ("StartTimeout", (0, 0))
    world.now += timedelta(seconds=seconds)
    world.taint("node-0-0", "cloud.google.com/impending-node-termination")
    world.pod(0, 0).is_deleted(1).exits(137, reason="ContainerStatusUnknown")
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.attempts[1].cause) == ("StartTimeout", Cause.FAILURE)


def test_a_start_timeout_waits_until_it_is_known_whether_the_machine_is_there() -> None:
    world = World(slices=1, hosts=1, timeouts={"startSeconds": 60}).begin()
    world.pod(0, 0).binds().waits("ImagePullBackOff")
    node = world.nodes.pop("node-0-0")
    assert actions_of(world.step(seconds=61), Refresh) == [Refresh(nodes=("node-0-0",))]
    assert world.attempt.end_time is None
    world.nodes["node-0-0"] = node
    world.step()
    assert world.attempt.reason == "StartTimeout"


def test_a_machine_in_trouble_is_not_blamed_on_the_image_it_does_not_start() -> None:
    world = World(slices=1, hosts=2, timeouts={"startSeconds": 60}).begin()
    world.pod(0, 0).binds()
    world.pod(0, 1).runs()
    world.now += timedelta(seconds=50)
    world.not_ready("node-0-0")
    world.step(seconds=100)
    assert world.status.phase == "Starting"
    world.pod(0, 0).is_deleted().has("DisruptionTarget", "DeletionByTaintManager")
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.preemptions) == ("Disrupted", 1)


def test_a_machine_that_breaks_after_a_pod_has_gone_did_not_take_it() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(1)
    world.settle()
    world.pod(0, 1).exits(137, reason="ContainerStatusUnknown").vanishes()
    world.now += timedelta(seconds=30)
    world.not_ready("node-0-1")
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.failures) == ("ExitCode", 1)


@pytest.mark.parametrize(
    ("peer", "reason"),
    [("OOMKilled", "OOMKilled"), ("Error", "NodeLost")],
    ids=["after the peer ran out of memory", "after the peer had crashed for want of the old machine"],
)
def test_a_new_machine_that_refuses_an_old_pod_tells_that_the_old_one_was_lost(peer: str, reason: str) -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(137, reason=peer)
    world.now += timedelta(seconds=30)
    world.nodes["node-0-1"] = a_node("node-0-1", created=world.now)
    world.pod(0, 1).fails("UnexpectedAdmissionError", "Allocate failed due to no healthy devices present")
    world.until_restarted()
    assert next(one for one in world.status.attempts if one.number == 0).reason == reason


def test_a_program_that_ran_out_of_memory_is_quoted_though_its_node_object_was_replaced() -> None:
    world = World(slices=1, hosts=1).run()
    world.now += timedelta(seconds=30)
    world.nodes["node-0-0"] = a_node("node-0-0", created=world.now)
    world.now += timedelta(seconds=15)
    world.pod(0, 0).exits(137, message="loading the checkpoint", reason="OOMKilled")
    world.until_restarted()
    first = next(one for one in world.status.attempts if one.number == 0)
    assert first.root is not None
    assert (first.reason, first.root.exit_code, first.root.log) == ("OOMKilled", 137, "loading the checkpoint")


@pytest.mark.parametrize(
    ("replaced", "reason"),
    [
        pytest.param(True, "NodeLost", id="by the machine that came in place of its own, where it ran anew"),
        pytest.param(False, "EvictedForOwnUsage", id="by its own machine"),
    ],
)
def test_an_eviction_for_own_usage_is_the_cause_unless_the_first_run_was_lost(replaced: bool, reason: str) -> None:
    world = World(slices=1, hosts=1).run()
    world.now += timedelta(seconds=30)
    if replaced:
        world.nodes["node-0-0"] = a_node("node-0-0", created=world.now)
    world.now += timedelta(seconds=15)
    world.pod(0, 0).exits(143).ends_as("Failed", "Evicted", "The node was low on resource: memory.")
    world.until_restarted()
    assert world.status.attempts[1].reason == reason


def test_a_new_machine_that_refuses_a_pod_that_had_succeeded_takes_nothing_back() -> None:
    """The old machine was lost between its report of the container's end and that of the phase."""
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(0)
    world.pod(0, 1).exits(0).ends_as("Running")
    world.step(seconds=1)
    world.nodes["node-0-1"] = a_node("node-0-1", created=world.now + timedelta(seconds=30))
    world.now += timedelta(seconds=60)
    world.pod(0, 1).ends_as("Failed", "UnexpectedAdmissionError", "Allocate failed due to no healthy devices present")
    world.settle()
    assert world.status.phase == "Succeeded"


@pytest.mark.parametrize("reason", ["DeadlineExceeded", "SomethingNew"])
def test_no_pod_that_has_failed_is_without_a_cause_though_its_program_exited_0(reason: str) -> None:
    world = World(slices=1, hosts=1).run()
    world.pod(0, 0).exits(0).ends_as("Failed", reason, "in words of its own")
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.failures) == ("UnexpectedOutcome", 1)


def test_an_exit_0_that_an_eviction_asked_for_is_no_success() -> None:
    """Kubelets report the end of the container first, and the phase with the reason a moment later."""
    world = World().run()
    world.pod(0, 0).exits(0).ends_as("Running")
    world.step(seconds=1)
    assert world.status.phase == "Running"
    world.pod(0, 0).ends_as("Failed", "Evicted", "Pod ephemeral local storage usage exceeds the total limit")
    world.until_restarted()
    assert (world.status.attempts[1].reason, world.status.failures) == ("EvictedForOwnUsage", 1)


def test_a_pod_that_a_new_machine_may_start_anew_is_asked_to_go() -> None:
    """A kubelet starts every pod of its node whose phase does not say that it has ended."""
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(1).ends_as("Running")
    world.pod(0, 1).exits(1)
    world.nodes["node-0-0"] = a_node("node-0-0", created=world.now)
    decision = world.step(seconds=1)
    assert actions_of(decision, DeletePods) == [DeletePods(0, (0,), 5)]
    assert world.status.attempt == 0

"""The next attempt starts only after every pod of the last one has terminated, or is proven unable to run."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from slipway.api.places import HEAD
from slipway.core.model.container_states import ContainerState, ContainerStatus, Running
from slipway.core.model.pod_parts import PodLabels, PodMetadata
from slipway.core.model.pods import Pod
from slipway.core.planner.contract.actions import CreatePods, DeletePods, ForceDeletePod, Refresh
from slipway.core.planner.contract.snapshot import KubeletLease, LostNode, OwnDeletions
from slipway.core.planner.plan import plan
from tests.core.build import PodHandle, World, actions_of


def without_its_node(*, silent: bool = False) -> World:
    """A running attempt of two slices of which the Node object of one was deleted a moment ago."""
    world = World(slices=2, hosts=1).run()
    world.pod(0, 0).is_deleted(grace=1)
    world.now += timedelta(seconds=5)
    del world.nodes["node-0-0"]
    world.lost["node-0-0"] = LostNode(world.now, silent=silent)
    world.pods_as_of = world.now
    return world


def lease(world: World, *, renewed: float | None, same_for: float = 0) -> None:
    """The Lease of the node's kubelet is read: renewed so many seconds ago, and unchanged for so many."""
    world.kubelets["node-0-0"] = KubeletLease(
        world.now,
        None if renewed is None else world.now - timedelta(seconds=renewed),
        world.now - timedelta(seconds=same_for),
    )


def forced(world: World) -> bool:
    world.answers = False
    return bool(actions_of(world.step(), ForceDeletePod))


def sidecar_runs(pod: PodHandle, *, native: bool = True) -> None:
    """The worker has terminated, and a sidecar runs; the kubelet stops one that is an init container."""
    sidecar = ContainerStatus("gcsfuse", ContainerState(running=Running(pod.world.now)))
    if native:
        pod._status(phase="Running", init_container_statuses=(sidecar,))
    else:
        pod._status(phase="Running", container_statuses=(*pod.now.status.container_statuses, sidecar))


@pytest.mark.parametrize("code", [0, 1])
def test_a_pod_whose_sidecar_the_kubelet_stops_is_kept_for_its_log(code: int) -> None:
    world = World(slices=1, hosts=1 if code == 0 else 2, terminationGracePeriodSeconds=20).run()
    world.pod(0, 0).exits(code)
    sidecar_runs(world.pod(0, 0))
    world.step()
    assert world.pod(0, 0).now.terminating is False
    if code:
        assert world.pod(0, 1).now.terminating
    patience = 20 if code == 0 else 5
    world.step(seconds=patience - 1)
    assert not world.pod(0, 0).now.terminating
    world.step(seconds=2)
    assert world.pod(0, 0).now.terminating, "a sidecar that does not stop holds up nothing for longer"


def test_a_pod_with_a_sidecar_that_nobody_stops_is_deleted() -> None:
    world = World(slices=1, hosts=1).run()
    world.pod(0, 0).exits(1)
    sidecar_runs(world.pod(0, 0), native=False)
    world.step()
    assert world.pod(0, 0).now.terminating


def test_a_node_that_had_stopped_posting_its_status_before_it_went_is_dead() -> None:
    assert forced(without_its_node(silent=True))


def test_a_deleted_node_object_proves_nothing_before_the_lease_of_its_kubelet_was_read() -> None:
    world = without_its_node()
    world.answers = False
    decision = world.step()
    assert actions_of(decision, Refresh) == [Refresh(kubelets=("node-0-0",))]
    assert not actions_of(decision, ForceDeletePod)


@pytest.mark.parametrize(
    ("renewed", "same_for", "after", "dead"),
    [
        pytest.param(3, 0, 0, False, id="renewed 3 s ago"),
        pytest.param(39, 0, 0, False, id="renewed 39 s ago: it may be late, or its clock"),
        pytest.param(40, 0, 0, True, id="not renewed for as long as a renewal holds"),
        pytest.param(3, 0, 11, False, id="not renewed since, but one may still come"),
        pytest.param(3, 12, 12, True, id="not renewed since, and one was due"),
        pytest.param(9, 0, 12, False, id="renewed meanwhile: the kubelet lives"),
        pytest.param(None, 12, 12, True, id="gone with the node, and never made again"),
        pytest.param(None, 0, 0, False, id="gone a moment ago"),
    ],
)
def test_a_kubelet_is_dead_when_it_does_not_renew_its_lease(
    renewed: float | None, same_for: float, after: float, dead: bool
) -> None:
    world = without_its_node()
    world.now += timedelta(seconds=after)
    lease(world, renewed=renewed, same_for=same_for)
    assert forced(world) is dead


def test_kubelets_that_renew_seldom_are_given_their_time() -> None:
    world = without_its_node()
    world.now += timedelta(seconds=20)
    lease(world, renewed=20, same_for=20)
    world.kubelets["node-0-0"] = replace(world.kubelets["node-0-0"], duration=timedelta(seconds=240))
    assert not forced(world)


def test_a_lease_that_may_not_be_read_proves_nothing_and_is_read_again_later() -> None:
    world = without_its_node()
    lease(world, renewed=None, same_for=100)
    world.kubelets["node-0-0"] = replace(world.kubelets["node-0-0"], forbidden=True)
    assert not forced(world)
    world.now += timedelta(seconds=61)
    assert actions_of(world.step(), Refresh) == [Refresh(kubelets=("node-0-0",))]


def test_a_pod_keeps_its_grace_where_no_lease_can_tell() -> None:
    """A kubelet whose Node object is gone renews no Lease, and still terminates its pods."""
    world = World(slices=2, hosts=1).run()
    world.pod(0, 0).is_deleted(grace=60)
    del world.nodes["node-0-0"]
    world.lost["node-0-0"] = LostNode(world.now)
    world.now += timedelta(seconds=30)
    lease(world, renewed=None, same_for=30)
    assert not forced(world)
    world.now += timedelta(seconds=33)
    lease(world, renewed=None, same_for=63)
    assert forced(world)


def test_a_kubelet_that_lives_terminates_its_pods_and_the_next_attempt_waits_for_that() -> None:
    world = World(slices=2, hosts=1).run()
    del world.nodes["node-0-0"]
    world.lost["node-0-0"] = LostNode(world.now)
    world.pods_as_of, world.answers = world.now, False
    assert actions_of(world.step(), DeletePods) == [DeletePods(0, (0, 1), 5)]
    assert not actions_of(world.step(seconds=4), CreatePods)
    world.obey()
    assert actions_of(world.step(), CreatePods)
    assert world.status.attempts[1].reason == "NodeLost"


def collected(pod: PodHandle) -> PodHandle:
    return pod.ends_as("Failed").has("DisruptionTarget", "DeletionByPodGC")


def forced_while_terminating(pod: PodHandle) -> PodHandle:
    """Its peer fails, Slipway deletes it with grace, and somebody forces it before its program has obeyed."""
    world = pod.world
    world.pod(1, 0).exits(1)
    world.settle()
    world.deleted_here = OwnDeletions(frozenset({pod.now.metadata.uid}), complete=True)
    assert pod.now.metadata.deletion_grace_period_seconds == 5
    return pod.vanishes(seen=True)


GONE: dict[str, tuple[Callable[[PodHandle], PodHandle], int]] = {
    "forced while it ran": (lambda pod: pod.vanishes(seen=True), 4),
    "forced while it was terminating": (forced_while_terminating, 4),
    "forced while it waited for its image, and was terminating": (
        lambda pod: forced_while_terminating(pod.waits("ImagePullBackOff")),
        4,
    ),
    "gone unseen while it ran": (PodHandle.vanishes, 22),
    "collected while it ran": (lambda pod: collected(pod).vanishes(seen=True), 4),
    "said to have failed by the collector, which has yet to remove it": (collected, 22),
    "collected after it was asked to terminate": (lambda pod: collected(pod.is_deleted()).vanishes(seen=True), 4),
    "terminated, and then removed by its kubelet": (lambda pod: pod.is_deleted().exits(143).vanishes(seen=True), 0),
    "terminated or forced, which the watch did not show": (lambda pod: pod.is_deleted().vanishes(), 4),
    "terminated before its container had started": (
        lambda pod: pod.waits("PodInitializing").is_deleted().ends_as("Failed").vanishes(seen=True),
        0,
    ),
    "exited, and then collected": (lambda pod: collected(pod.exits(1)).vanishes(seen=True), 0),
    "refused by its kubelet": (lambda pod: pod.fails("UnexpectedAdmissionError").vanishes(), 0),
}


GRACE: dict[str, dict[str, Any]] = {
    "grace of the spec": {"terminationGracePeriodSeconds": 20},
    "grace of the template": {
        "terminationGracePeriodSeconds": 5, "podTemplate": {"spec": {"terminationGracePeriodSeconds": 20}}
    },
}  # fmt: skip


@pytest.mark.parametrize("grace", GRACE.values(), ids=GRACE)
@pytest.mark.parametrize(("goes", "seconds"), GONE.values(), ids=GONE)
def test_a_kubelet_has_its_time_to_terminate_what_was_removed_before_it_reported_an_end(
    goes: Callable[[PodHandle], PodHandle], seconds: int, grace: dict[str, Any]
) -> None:
    world = World(slices=2, hosts=1, **grace, retries={"backoff": {"initialSeconds": 1}}).run()
    gone_at = world.now
    goes(world.pod(0, 0))
    world.until_restarted()
    while world.status.attempt == 0:
        waiting = world.condition("Reconciling")
        assert waiting is not None
        assert "reported an end" in waiting.message or world.now - gone_at >= timedelta(seconds=seconds)
        world.step(seconds=1)
    assert timedelta(seconds=seconds) <= world.now - gone_at <= timedelta(seconds=seconds + 10)


@pytest.mark.parametrize("grace", [1, 600])
@pytest.mark.parametrize(("seen", "seconds"), [(True, 4), (False, 22)], ids=["watched", "missed by the watch"])
def test_a_kubelet_has_its_time_to_terminate_what_was_removed_of_an_earlier_job_of_the_name(
    seen: bool, seconds: int, grace: int
) -> None:
    before = World(slices=1, hosts=1, terminationGracePeriodSeconds=20).run()
    before.pod(0, 0).vanishes(seen=seen)
    world = World(slices=1, hosts=1, terminationGracePeriodSeconds=grace)
    world.now, world.vanished_foreign = before.now, tuple(before.vanished)
    world.settle()
    assert (world.status.attempt, world.pods) == (None, {})
    waiting = world.condition("Reconciling")
    assert waiting is not None
    assert "1 pod(s) were removed before their kubelets reported an end" in waiting.message
    world.step(seconds=seconds - 1)
    assert world.status.attempt is None
    world.step(seconds=1)
    assert world.status.attempt == 0


def test_nobody_terminates_containers_on_a_machine_that_is_gone() -> None:
    world = World(slices=2, hosts=1).run()
    collected(world.pod(0, 0)).vanishes()
    world.lose_node("node-0-0")
    world.until_restarted()
    assert world.status.attempt == 1


def test_a_host_without_a_pod_may_still_run_when_another_process_saw_the_pod_last() -> None:
    """It was removed while no operator ran, so nothing says whether its kubelet terminated it."""
    world = World(slices=2, hosts=1).run()
    del world.pods[(0, 0, 0)]
    world.begun_by_this_process, world.deleted_here = None, OwnDeletions(complete=True)
    world.pod(1, 0).exits(1)
    world.until_restarted()
    assert world.status.attempt == 0
    world.until_orphans_terminated()
    assert world.status.attempt == 1


def copy_of(handle: PodHandle, **labels: str) -> None:
    """Somebody makes a pod with the same labels, as `kubectl debug --copy-to --keep-labels` does."""
    pod = handle.now
    own = msgspec.structs.replace(pod.metadata.labels, **labels)
    metadata = msgspec.structs.replace(pod.metadata, name="train-debug", uid="copy", labels=own)
    handle.world.foreign = (msgspec.structs.replace(pod, metadata=metadata),)


def test_a_copy_of_a_pod_is_not_the_host_whose_labels_it_has() -> None:
    world = World(slices=1, hosts=2).run()
    world.pod(0, 0).exits(1)
    failed = world.pods[(0, 0, 0)]
    world.pod(0, 0).runs(since=world.now - timedelta(seconds=60))
    copy_of(world.pod(0, 0))
    world.foreign = (msgspec.structs.replace(world.foreign[0], status=failed.status),)
    decision = world.step()
    assert (world.status.phase, actions_of(decision, DeletePods)) == ("Running", [])


def test_a_copy_that_runs_the_program_of_an_ended_attempt_keeps_the_next_one_waiting() -> None:
    world = World(slices=1, hosts=2).run()
    copy_of(world.pod(0, 1))
    world.pod(0, 0).exits(1)
    world.step()
    world.obey()
    assert not actions_of(world.step(seconds=10), CreatePods)
    world.foreign = ()
    assert actions_of(world.step(), CreatePods)


def test_a_head_whose_role_label_was_edited_is_not_found_by_its_selector() -> None:
    labels = PodLabels("train", "uid", "0", role="boss")
    assert Pod(PodMetadata("train-0-head", "ml", "uid", labels=labels)).is_mislabelled
    labels = PodLabels("train", "uid", "0", role="head")
    assert not Pod(PodMetadata("train-0-head", "ml", "uid", labels=labels)).is_mislabelled
    assert Pod(PodMetadata("train-debug", "ml", "uid", labels=labels)).place == HEAD


def test_a_pod_whose_labels_were_edited_still_is_what_its_name_says() -> None:
    world = World(slices=1, hosts=2).run()
    pod = world.pods[(0, 0, 1)]
    labels = msgspec.structs.replace(pod.metadata.labels, attempt="zero", host="7")
    metadata = msgspec.structs.replace(pod.metadata, labels=labels)
    world.pods[(0, 0, 1)] = msgspec.structs.replace(pod, metadata=metadata)
    world.step()
    assert world.status.phase == "Running"
    world.pod(0, 0).exits(1)
    world.step()
    assert not actions_of(world.step(seconds=10), CreatePods)


def test_a_job_deleted_with_its_dependents_orphaned_leaves_its_pods_alone() -> None:
    world = World(slices=1, hosts=2).run()
    job = replace(world.job, deleting=True, orphaning=True)
    assert plan(replace(world.snapshot, job=job), world.now).actions == ()
    assert plan(replace(world.snapshot, job=replace(job, orphaning=False)), world.now).actions == (
        DeletePods(0, (0,), None, ended_too=True),
    )

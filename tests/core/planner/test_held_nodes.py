"""Pods that have nodes and wait for an image or for missing objects: they hold no nodes, and nothing is charged."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from msgspec import structs

from slipway.core.model.container_states import ContainerState, ContainerStatus, Waiting
from slipway.core.model.events import PodEvent
from slipway.core.model.nodes import NodeStatus
from slipway.core.model.pod_parts import PodCondition
from slipway.core.planner.contract.actions import Refresh
from slipway.core.planner.contract.snapshot import Rejection
from slipway.core.vocabulary.endings import ending_of
from slipway.core.vocabulary.reasons import (
    MISSING_OBJECTS,
    NAME_TAKEN,
    POD_REJECTED,
    QUOTA_EXCEEDED,
    WAITING_FOR_OLD,
    WEBHOOK_UNAVAILABLE,
)
from tests.core.build import START, World, a_node, actions_of
from tests.core.manifests.test_ray import Head

TYPO = ("ErrImagePull", 'failed to resolve image "busybox:1": not found')
NO_SECRET = ("CreateContainerConfigError", 'secret "token" not found')


def held(trouble: tuple[str, str], start_seconds: int = 1800) -> World:
    """Both hosts have nodes; one waits."""
    world = World(slices=1, hosts=2, timeouts={"startSeconds": start_seconds}).begin()
    world.pod(0, 0).binds().waits(*trouble)
    world.pod(0, 1).runs()
    world.step(seconds=1)
    return world


def again(world: World, trouble: tuple[str, str], *, seconds: int = 3600) -> int:
    """Go on with that trouble for so long; returns for how many seconds pods had nodes."""
    paid = 0
    for _ in range(seconds):
        world.step(seconds=1)
        for handle in world.all_pods():
            if handle.now.terminating:
                world.obey()
                break
        current = [handle for handle in world.all_pods() if handle.key[0] == world.status.attempt]
        for handle in current:
            if not handle.now.spec.node_name:
                handle.binds().waits(*trouble)
        paid += bool(current)
        if world.status.phase == "Failed":
            break
    return paid


@pytest.mark.parametrize("trouble", [TYPO, NO_SECRET], ids=["E1-22 B-04 an image", "B-24 a Secret"])
def test_nodes_are_released_after_a_minute_and_nothing_is_charged(trouble: tuple[str, str]) -> None:
    world = held(trouble)
    world.step(seconds=58)
    assert world.attempt.end_time is None
    world.step(seconds=2)
    assert world.attempt.end_time is not None
    world.obey()
    world.settle()
    assert (world.status.phase, world.status.attempts[0].cause, world.pods) == ("Pending", "uncharged", {})
    assert (world.status.failures, world.status.preemptions) == (0, 0)
    running = world.condition("Running")
    assert running is not None
    assert running.reason in ("ImageUnavailable", "MissingObjects")
    assert "held nodes for 60 s" in running.message
    assert "the next attempt begins at 2026-11-21T12:01:3" in running.message


def test_the_pauses_grow_so_that_nodes_are_held_for_a_small_part_of_the_time() -> None:
    world = held(NO_SECRET)
    assert again(world, NO_SECRET, seconds=3600) < 700
    assert world.status.phase == "Pending"
    assert (world.status.failures, len(world.status.attempts)) == (0, 2)


def test_an_image_is_charged_once_no_attempt_could_pull_it_for_start_seconds() -> None:  # B-04
    world = held(TYPO, 1800)
    begun = world.now
    while world.status.failures == 0:
        again(world, TYPO, seconds=10)
    charged = next(one for one in world.status.attempts if one.cause == "failure")
    assert charged.reason == "StartTimeout"
    assert charged.end_time is not None
    waited = charged.end_time - begun
    assert timedelta(seconds=1799) <= waited < timedelta(seconds=1800 + 660)
    assert "not found" in (charged.message or "")


@pytest.mark.parametrize(("well", "ends"), [(True, "StartTimeout"), (False, "ImageUnavailable")])
def test_nobody_is_charged_for_an_image_that_a_machine_may_have_stopped_to_pull(well: bool, ends: str) -> None:
    world = held(TYPO, 60)
    world.answers = False
    assert actions_of(world.step(seconds=61), Refresh) == [Refresh(pods=True)]
    assert world.attempt.end_time is None
    world.pods_as_of = world.now
    assert actions_of(world.step(), Refresh) == [Refresh(nodes=("node-0-0",))]
    assert world.attempt.end_time is None
    if not well:
        world.not_ready("node-0-0")
    world.answers = True
    world.step()
    assert world.attempt.reason == ends


def on_old_nodes(world: World) -> None:
    for handle in world.all_pods():
        if not handle.now.spec.node_name:
            handle.binds().waits(*TYPO)


def on_nodes_that_an_autoscaler_has_just_added(world: World) -> None:
    for handle in world.all_pods():
        if not handle.now.spec.node_name:
            name = f"added-for-{handle.now.metadata.name}"
            ready = PodCondition("Ready", "True", "KubeletReady", "", world.now)
            world.nodes[name] = structs.replace(a_node(name, created=world.now), status=NodeStatus((ready,)))
            handle.binds(name).waits(*TYPO)


def beside_a_host_without_a_node(world: World) -> None:
    for handle in world.all_pods():
        if handle.key[2] == 1:
            handle.unschedulable()
        elif not handle.now.spec.node_name:
            handle.binds().waits(*TYPO)


@pytest.mark.parametrize(
    "place", [on_old_nodes, on_nodes_that_an_autoscaler_has_just_added, beside_a_host_without_a_node]
)
def test_an_image_that_never_comes_ends_the_job_wherever_its_pods_are(place: Callable[[World], None]) -> None:  # B-04
    world = World(slices=1, hosts=2, timeouts={"startSeconds": 300}, retries={"maxFailures": 2}).begin()
    while not world.status.final and world.now < START + timedelta(hours=2):
        place(world)
        world.step(seconds=5)
        world.obey()
    assert (world.status.phase, world.status.failures) == ("Failed", 2)
    assert world.attempt.message is not None
    assert "no attempt could pull the image since 2026-" in world.attempt.message
    assert "for more than timeouts.startSeconds (300 s); host 0 of slice 0" in world.attempt.message
    assert world.now - START < timedelta(minutes=30)


def test_attempts_that_only_waited_for_nodes_do_not_make_the_image_s_time_begin_anew() -> None:
    world = World(slices=2, hosts=1)
    world.free_pools = {0: "a", 1: "b"}
    world.begin()
    world.pod(0, 0).binds().waits(*TYPO)
    world.pod(1, 0).unschedulable()
    world.step(seconds=1)
    waits = world.status.image_wait_since
    world.step(seconds=10)
    world.obey()
    world.settle()
    assert (world.status.attempt, world.status.attempts[1].reason) == (1, "NodePoolTaken")
    assert world.status.image_wait_since == waits == START


def test_an_image_that_came_is_not_charged_when_a_pull_fails_hours_later() -> None:
    world = World(slices=2, hosts=1, timeouts={"startSeconds": 300}).begin()
    world.pod(0, 0).binds().waits(*TYPO)
    world.pod(1, 0).unschedulable()
    world.step(seconds=5)
    assert world.status.image_wait_since == START
    # Somebody pushes it, and the other slice still finds no node.
    world.pod(0, 0).runs()
    world.step(seconds=7200)
    world.pod(1, 0).binds().waits("ErrImagePull", "registry is unavailable: 503")
    for _ in range(62):
        world.step(seconds=1)
    assert (world.status.attempts[0].reason, world.status.failures) == ("ImageUnavailable", 0)


def a_ray_head_waits_for_the_worker_without_a_node(world: World) -> None:
    Head(world).starts()
    world.pod(0, 0).runs()


def a_secret_is_missing_by_now(world: World) -> None:
    world.pod(0, 0).waits(*NO_SECRET)


def another_container_lacks_its_image(world: World) -> None:
    worker = world.pod(0, 0).waits(*NO_SECRET).now.status.container_statuses
    proxy = ContainerStatus("a-proxy", ContainerState(waiting=Waiting(*TYPO)))
    world.pod(0, 0)._status(container_statuses=(proxy, *worker))
    world.pod(0, 1).runs()


RAY = {"ray": {"entrypoint": "python train.py"}}


@pytest.mark.parametrize(
    ("fields", "happens", "waits"),
    [
        (RAY, a_ray_head_waits_for_the_worker_without_a_node, False),
        ({}, a_secret_is_missing_by_now, False),
        ({}, another_container_lacks_its_image, True),
    ],
    ids=["a Ray head waits for its workers", "a Secret is missing by now", "another container lacks its image"],
)
def test_an_image_has_come_though_not_every_pod_with_a_node_runs(
    fields: dict[str, Any], happens: Callable[[World], None], waits: bool
) -> None:
    world = World(hosts=2, **fields).begin()
    world.pod(0, 0).binds().waits(*TYPO)
    world.pod(0, 1).unschedulable()
    world.step(seconds=5)
    assert world.status.image_wait_since == START
    world.now += timedelta(seconds=5)
    happens(world)
    world.settle()
    assert world.status.image_wait_since == (START if waits else None)


def test_no_limit_means_no_charge() -> None:  # F-06
    world = held(TYPO, 0)
    again(world, TYPO, seconds=7200)
    assert (world.status.failures, world.status.image_wait_since) == (0, START)
    assert world.status.uncharged > 10


def test_pods_without_trouble_may_start_as_slowly_as_they_like_without_a_limit() -> None:  # F-06
    world = held(("ContainerCreating", ""), 0)
    world.step(seconds=100_000)
    assert (world.status.phase, world.status.attempt, world.attempt.end_time) == ("Starting", 0, None)


def test_a_job_starts_when_what_was_missing_is_there() -> None:  # B-24
    world = held(NO_SECRET)
    assert world.status.phase == "Pending"
    world.pod(0, 0).runs()
    world.step(seconds=1)
    assert (world.status.phase, world.status.attempt) == ("Running", 0)


def test_the_time_to_start_counts_from_when_what_was_missing_is_there() -> None:  # B-24
    world = held(NO_SECRET, 40)
    world.step(seconds=50)
    assert world.attempt.end_time is None
    world.pod(0, 0).waits("ContainerCreating")
    world.step(seconds=1)
    world.step(seconds=38)
    assert world.attempt.end_time is None
    world.step(seconds=3)
    assert world.attempt.reason == "StartTimeout"


def test_the_pauses_begin_anew_after_an_attempt_that_ran() -> None:
    world = held(NO_SECRET)
    again(world, NO_SECRET, seconds=1200)
    while world.status.phase != "Running":
        world.step(seconds=1)
        for handle in world.all_pods():
            handle.runs()
    assert world.status.image_wait_since is None
    world.pod(0, 0).exits(1)
    world.until_restarted()
    world.step(seconds=60)
    assert (world.attempt.end_time, world.status.failures) == (None, 1)


REFUSALS: dict[str, tuple[str, str | None]] = {
    "the API server refuses the others": (POD_REJECTED, "PodsRefused"),
    "a webhook denies the others": ("WebhookDenied", "PodsRefused"),
    "a webhook does not answer": (WEBHOOK_UNAVAILABLE, "PodsRefused"),
    "a ServiceAccount is missing": (MISSING_OBJECTS, "MissingObjects"),
    "somebody else's Service has the name": (NAME_TAKEN, "PodsRefused"),
    "the quota is used up, which others may release": (QUOTA_EXCEEDED, None),
    "pods of an earlier job are going": (WAITING_FOR_OLD, None),
}


@pytest.mark.parametrize(("refusal", "ending"), REFUSALS.values(), ids=REFUSALS)
def test_nodes_are_released_when_the_other_pods_cannot_be_created(refusal: str, ending: str | None) -> None:
    world = World(hosts=3).begin()
    world.pod(0, 0).runs()
    world.pod(0, 1).binds()
    del world.pods[0, 0, 2]
    for _ in range(62):
        world.rejection = Rejection("admission says no; ask for leave", world.now, refusal)
        world.step(seconds=1)
    assert world.status.attempts[0].reason == ending
    if ending is None:
        return
    world.obey()
    world.settle()
    assert (world.status.phase, world.status.uncharged, world.pods) == ("Pending", 1, {})
    running = world.condition("Running")
    assert running is not None
    assert running.reason == ending
    assert "2 of 3 pods held nodes for 60 s in vain: admission says no; ask for leave" in running.message
    assert "the next attempt begins at 2026-11-21T12:01:3" in running.message


def test_pods_without_nodes_wait_for_the_others() -> None:
    world = World(hosts=2).begin()
    del world.pods[0, 0, 1]
    for _ in range(200):
        world.rejection = Rejection("no", world.now, POD_REJECTED)
        world.step(seconds=1)
    assert world.attempt.end_time is None


EVENTS: dict[str, tuple[str, str, str, str]] = {
    "B-24 a Secret that is a volume": (
        "FailedMount",
        'MountVolume.SetUp failed for volume "token" : secret "token" not found',
        "MissingObjects",
        "Secret token is missing; create it",
    ),
    "a key of a Secret that is a volume": (
        "FailedMount",
        'MountVolume.SetUp failed for volume "token" : references non-existent secret key: user',
        "MissingObjects",
        "key user of a Secret in volumes is missing",
    ),
    "a volume that cannot be mounted": (
        "FailedMount",
        'MountVolume.SetUp failed for volume "data" : hostPath type check failed: /data is not a directory',
        "VolumeNotMounted",
        "a volume cannot be mounted: MountVolume.SetUp failed",
    ),
    "a sandbox that cannot be made": (
        "FailedCreatePodSandBox",
        "Failed to create pod sandbox: plugin type=bridge failed",
        "SandboxFailed",
        "plugin type=bridge failed",
    ),
}


@pytest.mark.parametrize(("event", "message", "reason", "words"), EVENTS.values(), ids=EVENTS)
def test_what_only_events_tell_is_told(event: str, message: str, reason: str, words: str) -> None:
    world = held(("ContainerCreating", ""))
    world.events["uid-train-0-0-0"] = (PodEvent("Scheduled", "", world.now), PodEvent(event, message, world.now))
    world.step(seconds=6)
    world.step(seconds=6)
    running = world.condition("Running")
    assert running is not None
    assert running.reason == reason
    assert words in running.message


@pytest.mark.parametrize("waited", [5, 36_000], ids=["it has its node at once", "it had none for hours"])
def test_what_only_events_tell_is_read_soon_after_a_pod_has_its_node(waited: int) -> None:
    world = World(timeouts={"startSeconds": 300}).begin()
    world.pod(0, 0).unschedulable()
    world.step(seconds=waited)
    world.pod(0, 0).binds().waits("ContainerCreating")
    world.step(seconds=6)
    # The kubelet fails to mount the volume only after its Events have been read.
    told = PodEvent("FailedMount", 'MountVolume.SetUp failed for volume "token" : secret "token" not found', world.now)
    world.events[world.pod(0, 0).now.metadata.uid] = (told,)
    for _ in range(80):
        world.step(seconds=1)
    assert (world.status.attempts[0].reason, world.status.failures) == ("MissingObjects", 0)


def with_a_volume_that_cannot_be_mounted(seconds: int) -> World:
    """A kubelet repeats every two minutes, for so long, that it cannot mount a volume."""
    world = World().begin()
    world.pod(0, 0).binds().waits("ContainerCreating")
    for passed in range(seconds):
        if passed % 120 == 0:
            told = PodEvent("FailedMount", "MountVolume.SetUp failed: /data is not a directory", world.now)
            world.events["uid-train-0-0-0"] = (told,)
        world.step(seconds=1)
    return world


def test_what_only_events_tell_is_told_once_while_it_lasts() -> None:
    world = with_a_volume_that_cannot_be_mounted(1700)
    running = world.condition("Running")
    assert running is not None
    assert (running.reason, world.told) == ("VolumeNotMounted", ["Starting", "VolumeNotMounted"])


def test_the_record_of_a_late_start_has_what_only_events_tell() -> None:
    world = with_a_volume_that_cannot_be_mounted(1810)
    charged = world.status.attempts[-1]
    assert (charged.reason, charged.end_time is not None) == ("StartTimeout", True)
    assert charged.message is not None
    assert charged.message.endswith(
        "is waiting: VolumeNotMounted a volume cannot be mounted: MountVolume.SetUp failed: /data is not a directory"
    )


def test_an_event_that_is_not_repeated_is_over() -> None:
    world = held(("ContainerCreating", ""))
    world.events["uid-train-0-0-0"] = (PodEvent("FailedMount", 'secret "token" not found', world.now),)
    world.step(seconds=200)
    world.step(seconds=6)
    running = world.condition("Running")
    assert running is not None
    assert running.reason == "Starting"


def test_events_are_read_rarely() -> None:
    world = held(("ContainerCreating", ""))
    reads = set()
    for _ in range(1700):
        world.step(seconds=1)
        reads |= {one.read_at for one in world.pod_events.values()}
    assert len(reads) <= 16


def test_events_of_pods_that_no_kubelet_has_taken_up_are_not_read() -> None:
    world = World(slices=1, hosts=2).begin()
    for handle in world.all_pods():
        handle.binds()
    for _ in range(60):
        assert not actions_of(world.step(seconds=1), Refresh)


def test_the_time_to_start_begins_anew_after_a_suspension() -> None:
    world = held(TYPO)
    world.step(seconds=60)
    world.obey()
    world.fields["suspend"] = True
    world.settle()
    world.fields["suspend"] = False
    world.now += timedelta(days=1)
    world.settle()
    for host in (0, 1):
        world.pod(0, host).binds().waits("ErrImagePull", "429 too many requests")
    world.step(seconds=1)
    assert (world.status.attempt, world.attempt.end_time) == (1, None)


def test_what_the_kubelet_says_of_a_late_start_is_redacted_and_short() -> None:
    world = World(slices=1, hosts=1).begin()
    secret = "hf_abcdefghijklmnopqrstuvwxyzABCDEFGH"
    words = f'container create failed: args "--token={secret}" password=hunter2hunter2 {"x" * 2000}'
    world.pod(0, 0).binds().waits("CreateContainerError", words)
    world.step(seconds=1801)
    world.step(seconds=5)
    message = world.attempt.message or ""
    assert "container create failed" in message
    assert secret not in message
    assert "hunter2" not in message
    assert len(message) < 1000


@pytest.mark.parametrize(
    ("before", "after", "reason"),
    [
        (TYPO, ("RunContainerError", "OCI runtime create failed: initialization error"), "ContainerCannotStart"),
        (NO_SECRET, ("ImagePullBackOff", 'Back-off pulling image "busybox:1"'), "ImageUnavailable"),
        (NO_SECRET, ("CreateContainerConfigError", "failed to sync configmap cache"), "ContainerConfigError"),
        (TYPO, ("ImagePullBackOff", 'Back-off pulling image "busybox:1"'), "ImageUnavailable"),
    ],
    ids=["the image was pushed", "the Secret was made", "the Secret was made, more is missing", "the same goes on"],
)
def test_the_status_names_what_is_wrong_now(before: tuple[str, str], after: tuple[str, str], reason: str) -> None:
    world = held(before)
    world.step(seconds=6)
    world.pod(0, 0).waits(*after)
    world.step(seconds=6)
    world.step(seconds=6)
    running = world.condition("Running")
    assert running.reason == reason
    assert ("does not exist" in running.message) == (before == TYPO and after[0] == "ImagePullBackOff")


def test_after_the_pause_the_status_names_what_keeps_the_next_attempt() -> None:
    world = held(TYPO)
    world.step(seconds=61)
    world.step(seconds=1)
    assert world.status.phase == "Pending"
    assert "the next attempt begins at" in world.condition("Running").message
    world.step(seconds=3600)
    assert world.condition("Running").reason == "WaitingForOldPods"
    world.obey()
    world.fields["env"] = [{"name": "A", "value": "1"}]
    world.step(seconds=1)
    assert world.condition("Running").reason == "SpecChanged"


def _one_pod_is_denied(world: World) -> None:
    number = world.status.attempt
    assert number is not None
    world.pods.pop((number, 0, 1), None)
    world.rejection = Rejection("admission webhook denied", world.now, "WebhookDenied")
    if (number, 0, 0) in world.pods and not world.pods[number, 0, 0].spec.node_name:
        world.pod(0, 0).binds().runs()


def _a_secret_is_missing(world: World) -> None:
    for handle in world.all_pods():
        if handle.key[0] == world.status.attempt and not handle.now.terminating:
            handle.binds(handle.now.spec.node_name or None).waits(*NO_SECRET)


@pytest.mark.parametrize(
    ("holds", "words"),
    [(_one_pod_is_denied, "admission webhook denied"), (_a_secret_is_missing, "Secret token is missing")],
    ids=["PodsRefused", "MissingObjects"],
)
def test_a_job_that_cannot_start_ends_after_schedule_seconds(holds: Callable[[World], None], words: str) -> None:
    """Each attempt holds nodes for a minute, so that without an end it would do so for ever."""
    world = World(slices=1, hosts=2, timeouts={"scheduleSeconds": 3600}).begin()
    while not world.status.final and world.now < START + timedelta(days=1):
        world.now += timedelta(seconds=20)
        holds(world)
        world.obey()
        world.step()
    assert world.status.result is not None
    assert (world.status.phase, world.status.result.reason) == ("Failed", "ScheduleTimeout")
    assert words in world.status.result.message
    # The last pause may be ten minutes.
    assert timedelta(hours=1) <= world.now - START < timedelta(hours=1, minutes=15)
    assert (world.status.failures, world.status.preemptions) == (0, 0)


def test_a_sandbox_that_its_node_cannot_set_up_is_charged_to_the_infrastructure_and_its_node_pool_doubted() -> None:
    world = World(slices=1, hosts=2, timeouts={"startSeconds": 60}).begin()
    for handle in world.all_pods():
        handle.binds().waits("ContainerCreating")
    pod = world.pod(0, 0).now
    for _ in range(8):
        world.events[pod.metadata.uid] = (PodEvent("FailedCreatePodSandBox", "network is not ready", world.now),)
        world.step(seconds=10)
    world.obey()
    world.settle()
    ended = world.status.attempts[-1]
    assert (ended.reason, ended.cause) == ("SandboxFailed", "infrastructure")
    assert ending_of(ended).doubts_pools
    assert "cannot set up the pod's network or sandbox" in (ended.message or "")
    assert (world.status.failures, world.status.infrastructure_failures) == (0, 1)

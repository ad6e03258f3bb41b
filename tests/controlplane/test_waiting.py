"""Jobs that the real scheduler finds no nodes for: what is said of them, and that what is said to help does."""

import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from slipway.devcluster.native.provider import NativeCluster
from tests.clusters import create_namespace, having_gpus, kubectl_for, served
from tests.kubectl import Kubectl
from tests.mistakes import note, seconds_between, shown
from tests.running import Jobs, Operator
from tests.stages import thorough_but

SPOT = {"type": "v5p-16", "spot": True}
"""Of these there are four node pools of two hosts."""
OWN = {"slipway.dev/test": "waiting"}
POOL = "cloud.google.com/gke-nodepool"


@pytest.fixture(scope="module")
def kubectl(control_plane: NativeCluster) -> Iterator[Kubectl]:
    """In a namespace whose name the messages show."""
    found = kubectl_for(control_plane, "waiting")
    create_namespace(control_plane, found.namespace)
    yield found
    found("delete", "priorityclasses", "-l", "slipway.dev/test=waiting")
    found("delete", "namespace", found.namespace, "--wait=false")


def spot_nodes(jobs: Jobs) -> list[str]:
    items = jobs.kubectl.get("nodes", selector="cloud.google.com/gke-spot=true")["items"]
    return sorted(item["metadata"]["name"] for item in items)


@contextmanager
def nothing(jobs: Jobs) -> Iterator[None]:
    yield


@contextmanager
def other_job(jobs: Jobs) -> Iterator[None]:
    jobs.apply("eval", slices=4, accelerator=SPOT, priorityClassName="system-node-critical")
    jobs.until("Running", "eval")
    yield


@contextmanager
def other_pods(jobs: Jobs, **rank: str) -> Iterator[None]:
    """On one host of each node pool a pod of somebody else's has the chips."""
    for number, node in enumerate(spot_nodes(jobs)):
        container = {"name": "main", "image": "slipway.local/busybox:1"}
        container |= {"resources": {"limits": {"google.com/tpu": "4"}}}  # type: ignore[dict-item]
        spec = {"nodeName": node, "containers": [container], "tolerations": [{"operator": "Exists"}], **rank}
        body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": f"notebook-{number}"}, "spec": spec}
        jobs.kubectl.apply(body)
    yield
    names = [f"notebook-{number}" for number in range(8)]
    jobs.kubectl("delete", "pods", *names, "--force", "--grace-period=0", "--ignore-not-found")


def priority_class(jobs: Jobs, value: int) -> str:
    """A PriorityClass of that value."""
    name = f"{jobs.kubectl.namespace}-{value}"
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    jobs.kubectl.apply(kind | {"metadata": {"name": name, "labels": OWN}, "value": value})
    return name


@contextmanager
def other_pods_of_a_high_priority(jobs: Jobs) -> Iterator[None]:
    with other_pods(jobs, priorityClassName=priority_class(jobs, 1000)):
        yield


@contextmanager
def cordoned(jobs: Jobs) -> Iterator[None]:
    nodes = spot_nodes(jobs)
    jobs.kubectl("cordon", *nodes)
    try:
        yield
    finally:
        jobs.kubectl("uncordon", *nodes)


@contextmanager
def tainted(jobs: Jobs) -> Iterator[None]:
    nodes = spot_nodes(jobs)
    jobs.kubectl("taint", "nodes", *nodes, "repair=yes:NoSchedule")
    try:
        yield
    finally:
        jobs.kubectl("taint", "nodes", *nodes, "repair-")


Scene = Callable[[Jobs], AbstractContextManager[None]]
WAITS: dict[str, tuple[Scene, dict[str, Any], str, str, str]] = {
    "no TPUs of that type": (nothing, {"accelerator": {"type": "v6e-16"}}, "NoSuchNodes", "this cluster has", ""),
    "no nodes but spot nodes": (
        nothing,
        {"accelerator": {"type": "v5p-16"}},
        "NodesTainted",
        "v5p-16-0, v5p-16-1, v5p-16-2 and 1 more have spot nodes, and accelerator.spot is not true",
        "recreate the job with accelerator.spot: true",
    ),
    "a selector that nothing has": (
        nothing,
        {"accelerator": SPOT, "nodeSelector": {"team": "research"}},
        "SelectorMatchesNothing",
        "none of the 4 node pools of v5p-16 (tpu-v5p-slice, 2x2x2) has team=research",
        "remove team from the nodeSelector",
    ),
    "more slices than there are": (
        nothing,
        {"accelerator": SPOT, "slices": 5},
        "TooFewNodes",
        "4 of 5 slices have room: there are 4 node pools of v5p-16",
        "recreate the job with acceptableSlices: [4]",
    ),
    "held by another job": (
        other_job,
        {"accelerator": SPOT},
        "NodesHeld",
        "/eval (priority 2000001000, class system-node-critical, since 20",
        "wait for, or free, ",
    ),
    "held by somebody's pods": (
        other_pods,
        {"accelerator": SPOT},
        "NodesHeld",
        "is held by pod ",
        "wait for, or free, ",
    ),
    "held by pods of a higher priority": (
        other_pods_of_a_high_priority,
        {"accelerator": SPOT},
        "PriorityTooLow",
        "this job's priority is 0, and the scheduler preempts only pods of a lower one",
        "recreate the job with a priorityClassName whose value is above 1000: the scheduler may then preempt pod ",
    ),
    "cordoned nodes": (cordoned, {"accelerator": SPOT}, "NodesCordoned", "which is cordoned", "uncordon "),
    "tainted nodes": (
        tainted,
        {"accelerator": SPOT},
        "NodesTainted",
        "have the taint repair=yes:NoSchedule, which nothing tolerates",
        "tolerate the taint repair",
    ),
    "more memory than a host has": (
        nothing,
        {"accelerator": SPOT, "resources": {"requests": {"memory": "2Ti"}}},
        "NodesTooSmall",
        "have 448Gi memory on each host, less than a pod requests",
        "",
    ),
    "CPU nodes with a label that none has": (
        nothing,
        {"hosts": 1, "nodeSelector": {"disk": "fast"}},
        "SelectorMatchesNothing",
        "no node has disk=fast",
        "",
    ),
    "CPU nodes that are too small": (
        nothing,
        {"hosts": 1, "resources": {"requests": {"cpu": "400"}}},
        "NodesTooSmall",
        "have 32 cpu on each host, less than a pod requests",
        "",
    ),
}


ALONE = {mistake for mistake, (scene, *_) in WAITS.items() if scene is not nothing} | {"more slices than there are"}
"""What takes nodes from others."""


TOGETHER = {mistake: f"waits-{number}" for number, mistake in enumerate(WAITS) if mistake not in ALONE}
"""The names of the jobs that take none."""


@pytest.fixture(scope="class")
def together(kubectl: Kubectl, operator: Operator) -> Iterator[Jobs]:
    """These jobs, applied at once: the scheduler tries for a while before anything is said."""
    for jobs in served(Jobs(kubectl, operator.running()), wait=True):
        for mistake, name in TOGETHER.items():
            jobs.apply(name, **WAITS[mistake][1])
        yield jobs


class TestJobsThatTakeNoNodes:
    @pytest.mark.parametrize("mistake", TOGETHER)
    def test_a_job_without_nodes_says_why_and_what_would_help(self, mistake: str, together: Jobs) -> None:
        waits_and_says_why(mistake, together, TOGETHER[mistake])


@pytest.mark.parametrize("mistake", thorough_but({"more slices than there are", "held by another job"}, sorted(ALONE)))
def test_a_job_whose_nodes_are_taken_says_why_and_what_would_help(mistake: str, jobs: Jobs) -> None:
    scene, fields, *_ = WAITS[mistake]
    with scene(jobs):
        jobs.apply(**fields)
        waits_and_says_why(mistake, jobs, "train")


def waits_and_says_why(mistake: str, jobs: Jobs, name: str) -> None:
    _, _, reason, words, step = WAITS[mistake]
    jobs.until_said("WaitingForCapacity", reason, words, step, name=name)
    jobs.until_true("a column", lambda: reason in jobs.kubectl("get", "sj", name).stdout)
    jobs.until_true("an Event", lambda: {"WaitingForCapacity", reason} & set(jobs.events(name)))
    holds = any(pod["spec"].get("nodeName") for pod in jobs.pods(name))
    assert holds == (reason == "TooFewNodes"), "slices that have nodes keep them while the others wait"
    seconds = seconds_until_told(jobs, name, {"WaitingForCapacity", reason})
    note(shown(mistake, jobs, name, seconds=seconds, held=seconds if holds else 0))


def seconds_until_told(jobs: Jobs, name: str, reasons: set[str]) -> float:
    """From the creation of a job to the last Event of these reasons."""
    items = jobs.kubectl.get("events.events.k8s.io")["items"]
    ours = [one for one in items if one["regarding"]["name"] == name and one["reason"] in reasons]
    told = max(one["metadata"]["creationTimestamp"] for one in ours)
    return seconds_between(jobs.kubectl.get("sj", name)["metadata"]["creationTimestamp"], told)


HELPS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "without the selector": (
        {"accelerator": SPOT, "nodeSelector": {"team": "research"}},
        {"accelerator": SPOT},
    ),
    "fewer slices": ({"accelerator": SPOT, "slices": 5}, {"accelerator": SPOT, "acceptableSlices": [4]}),
    "spot": ({"accelerator": {"type": "v5p-16"}}, {"accelerator": SPOT}),
}


@pytest.mark.parametrize("remedy", thorough_but({"fewer slices"}, HELPS))
def test_what_is_said_to_help_does(remedy: str, jobs: Jobs) -> None:
    before, after = HELPS[remedy]
    jobs.apply(**before)
    jobs.until("WaitingForCapacity")
    jobs.kubectl("delete", "sj", "train")
    jobs.apply(**after)
    jobs.until("Running")


@pytest.mark.thorough
def test_a_priority_that_is_said_to_be_high_enough_is(jobs: Jobs) -> None:
    with other_pods_of_a_high_priority(jobs):
        jobs.apply(accelerator=SPOT)
        words = r"a priorityClassName whose value is above (\d+)"
        said = jobs.until_true("a remedy", lambda: re.search(words, jobs.condition("Running").get("message", "")))
        jobs.kubectl("delete", "sj", "train")
        jobs.apply(accelerator=SPOT, priorityClassName=priority_class(jobs, int(said[1]) + 1))
        jobs.until("Running")
        # The scheduler posts it some time after it has preempted the pod.
        jobs.until_true(
            "an Event", lambda: any("notebook" in name and reason == "Preempted" for name, reason in all_events(jobs))
        )


@pytest.fixture
def with_gpus(control_plane: NativeCluster) -> Iterator[None]:
    """Two of the CPU nodes have four GPUs each."""
    with having_gpus(control_plane, "cpu-0", "cpu-1"):
        yield


def of_gpus(count: int) -> dict[str, Any]:
    return {"accelerator": {"gpu": {"vendor": "nvidia", "count": count}}, "command": ["sleep", "1000"]}


@pytest.mark.thorough
def test_who_has_the_gpus_is_said_and_waiting_for_them_helps(jobs: Jobs, with_gpus: None) -> None:
    jobs.apply("eval", hosts=2, oneHostPerNode=True, **of_gpus(3))
    jobs.until("Running", "eval")
    jobs.apply(**of_gpus(2))
    jobs.until_said(
        "WaitingForCapacity",
        "NodesHeld",
        "cpu-0 has 1 of 4 nvidia.com/gpu left (waiting/eval has 3); cpu-1 has 1 of 4",
        "a pod requests 2 nvidia.com/gpu",
        "wait for, or free, waiting/eval on cpu-0 and cpu-1",
    )
    jobs.kubectl("delete", "sj", "eval")
    jobs.until("Running")


@pytest.mark.thorough
def test_who_has_the_cpus_is_said_and_the_priority_that_is_said_to_help_does(jobs: Jobs) -> None:
    size: dict[str, Any] = {"resources": {"requests": {"cpu": "20"}}, "command": ["sleep", "1000"]}
    jobs.apply("eval", hosts=8, **size, priorityClassName=priority_class(jobs, 100))
    jobs.until("Running", "eval")
    jobs.apply(hosts=2, **size)
    words = r"a priorityClassName whose value is above (\d+): the scheduler may then preempt waiting/eval"
    said = jobs.until_true("a remedy", lambda: re.search(words, jobs.condition("Running").get("message", "")))
    jobs.until_said(
        "WaitingForCapacity",
        "PriorityTooLow",
        "2 of 2 pods cannot be scheduled: cpu-0 has 12 of 32 cpu left (waiting/eval (priority 100",
    )
    jobs.kubectl("delete", "sj", "train")
    jobs.apply(hosts=2, **size, priorityClassName=priority_class(jobs, int(said[1]) + 1))
    jobs.until("Running")


SCHEDULED = "PodScheduled"


def all_events(jobs: Jobs) -> list[tuple[str, str]]:
    items = jobs.kubectl.get("events.events.k8s.io")["items"]
    return [(one["regarding"]["name"], one["reason"]) for one in items]


@pytest.mark.thorough
def test_a_priority_that_preempts_nobody_is_explained(jobs: Jobs) -> None:
    """The scheduler preempts pods of one node at a time, and a slice needs its node pool for itself."""
    jobs.apply("eval", slices=4, accelerator=SPOT, priorityClassName=priority_class(jobs, 10))
    jobs.until("Running", "eval")
    jobs.apply(accelerator=SPOT, priorityClassName=priority_class(jobs, 1000))
    words = "this job's priority is 1000, but the scheduler preempts pods of one node at a time"
    jobs.until_said("WaitingForCapacity", "NodesHeld", words)
    rules = "node(s) didn't match pod anti-affinity rules"

    def told(pod: Any) -> bool:
        found = (one for one in pod["status"].get("conditions", ()) if one["type"] == SCHEDULED)
        return any(rules in one.get("message", "").partition("preemption:")[2] for one in found)

    def all_told() -> bool:
        pods = jobs.pods()
        return len(pods) == 2 and all(map(told, pods))

    jobs.until_true("the scheduler's words of each pod", all_told)


def test_a_missing_volume_claim_is_not_taken_for_missing_nodes(jobs: Jobs) -> None:  # B-24
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data"}}
    jobs.apply(accelerator=SPOT, volumes=[volume], volumeMounts=[{"name": "data", "mountPath": "/data"}])
    jobs.until_true("a reason", lambda: jobs.condition("Running").get("reason") == "MissingObjects")
    status = jobs.status()
    assert "PersistentVolumeClaim data is missing; create it" in jobs.condition("Running")["message"]
    assert (status["phase"], status["uncharged"], status["attempt"]) == ("Pending", 0, 0)
    claim = {"accessModes": ["ReadWriteMany"], "storageClassName": "", "volumeName": jobs.kubectl.namespace}
    size = {"storage": "1Gi"}
    source = {"capacity": size, "accessModes": ["ReadWriteMany"], "hostPath": {"path": "/tmp"}}
    kind = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": jobs.kubectl.namespace}}
    jobs.kubectl.apply(kind | {"spec": source})
    body = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"}}
    jobs.kubectl.apply(body | {"spec": claim | {"resources": {"requests": size}}})
    status = jobs.until("Running")
    assert (status["attempt"], status["failures"]) == (0, 0)
    jobs.kubectl("delete", "pv", jobs.kubectl.namespace, "--wait=false")


def test_a_missing_service_account_is_waited_for(jobs: Jobs) -> None:  # B-24
    jobs.apply(hosts=1, serviceAccountName="trainer")
    jobs.until_true("a reason", lambda: jobs.condition("Running").get("reason") == "MissingObjects")
    assert "ServiceAccount trainer is missing; create it" in jobs.condition("Running")["message"]
    assert jobs.status()["phase"] == "Pending"
    jobs.kubectl("create", "serviceaccount", "trainer")
    assert jobs.until("Running")["failures"] == 0


@pytest.mark.thorough
def test_an_autoscaler_that_brings_nodes_is_named(jobs: Jobs) -> None:
    """No autoscaler runs here, so its Event on the pod is made by hand."""
    jobs.apply(accelerator={"type": "v6e-16"})
    jobs.until_true("pods", lambda: len(jobs.pods()) == 4)
    [pod] = [one for one in jobs.pods() if one["metadata"]["name"] == "train-0-0-0"]
    metadata = {key: pod["metadata"][key] for key in ("name", "namespace", "uid")}
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    event = {"apiVersion": "v1", "kind": "Event", "metadata": {"name": "scale-up"}, "type": "Normal", "count": 1}
    event |= {"involvedObject": {"apiVersion": "v1", "kind": "Pod"} | metadata, "lastTimestamp": now}
    jobs.kubectl.apply(event | {"reason": "TriggeredScaleUp", "message": "pod triggered scale-up: [{np-1 0->4}]"})
    jobs.until_true("a reason", lambda: jobs.condition("Running").get("reason") == "NodesComing")
    assert "adds nodes: pod triggered scale-up: [{np-1 0->4}]" in jobs.condition("Running")["message"]

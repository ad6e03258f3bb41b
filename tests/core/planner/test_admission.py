"""Jobs in a queue of Kueue: the recipe in order, and what becomes of a job when its queue wants the nodes back."""

from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api.base import rfc3339
from slipway.api.places import worker
from slipway.api.profile import ProfileSpec
from slipway.api.progress import ProgressState
from slipway.api.status import ConditionType, Phase
from slipway.core.accounting.ledger import Sums, account_at, sums
from slipway.core.explain.kueue_messages import preemptor_of
from slipway.core.model.cluster_queue import Quota, ResourceFlavor
from slipway.core.model.job import Settings
from slipway.core.model.nodes import Node, NodeMetadata, NodeStatus
from slipway.core.model.parts import Named
from slipway.core.model.pod_parts import PodAnnotations, PodCondition, PodSpec
from slipway.core.model.pods import Pod
from slipway.core.model.site import NO_CHART, Choice, Profile
from slipway.core.model.workload import Kueue, Workload
from slipway.core.planner.contract.actions import (
    Check,
    CreatePods,
    CreateWorkload,
    DeleteWorkload,
    PatchWorkload,
    Plan,
    Refresh,
)
from slipway.core.planner.contract.pool_pinning import NodePools
from slipway.core.planner.contract.snapshot import Printed, Rejection, Snapshot
from slipway.core.planner.plan import plan
from slipway.core.planner.queue.kueue.admission import of_no_job
from slipway.core.planner.queue.kueue.topology import GATE
from slipway.core.validation.acceptance import pod_factory
from slipway.core.validation.site import site_of
from slipway.core.vocabulary.reasons import WEBHOOK_UNAVAILABLE, WORKLOAD_REJECTED
from tests.core.build import START, UID, UNLIMITED, PodHandle, World, actions_of, spec

V2, V1 = "kueue.x-k8s.io/v1beta2", "kueue.x-k8s.io/v1beta1"
FINALIZER = "kueue.x-k8s.io/resource-in-use"
TPU: dict[str, Any] = {"accelerator": {"type": "v5litepod-16", "spot": True}, "slices": 2, "hosts": None}
FLAVORS: dict[str, Any] = {
    "v5e": {
        "nodeLabels": {"cloud.google.com/gke-spot": "true"},
        "tolerations": [{"key": "pool", "operator": "Exists"}],
    },
    "v5p": {"nodeLabels": {"generation": "v5p"}},
}
ADMISSION: dict[str, Any] = {
    "clusterQueue": "cq",
    "podSetAssignments": [{"name": "slice", "flavors": {"google.com/tpu": "v5e"}, "count": 8}],
}


def merged(before: dict[str, str] | None, patch: dict[str, str | None]) -> dict[str, str]:
    """Labels or annotations after a merge patch."""
    return {key: value for key, value in ((before or {}) | patch).items() if value is not None}


class Queue(World):
    """A world whose job has the label of a queue, with a Kueue that stores and answers as the real one does."""

    def __init__(self, version: str = V2, **fields: Any) -> None:
        super().__init__(**fields)
        self.queue: str | None = "tpu"
        self.version, self.problem = version, ""
        self.stored: dict[str, Any] | None = None
        self.versions = 1
        self.flavors: dict[str, Any] = FLAVORS
        self.classes = {"high": 1000, "low": 1}
        self.priority = ""
        self.unseen = False
        self.topologies: frozenset[str] | None = frozenset()
        self.preemptor, self.preempted = "", tuple[str, ...]()
        self.unused: Quota = {}
        self.boosts = False
        self.pools = NodePools()
        self.requests: list[str] = []

    @property
    def job(self) -> Any:
        return replace(super().job, queue_priority=self.priority)

    @property
    def workload(self) -> Workload | None:
        return msgspec.convert(self.stored, Workload) if self.stored is not None else None

    @property
    def snapshot(self) -> Snapshot:
        flavors = {
            name: msgspec.convert({"metadata": {"name": name}, "spec": one}, ResourceFlavor).spec
            for name, one in self.flavors.items()
        }
        known = self.workload if self.version else None
        return replace(
            super().snapshot,
            pools=self.pools,
            kueue=Kueue(
                version=self.version,
                problem=self.problem,
                unseen=self.unseen,
                workload=known,
                flavors=flavors,
                priorities=self.classes,
                topologies=self.topologies,
                preemptor=self.preemptor,
                preempted=self.preempted,
                unused=self.unused,
                boosts=self.boosts,
            ),
        )

    def apply(self, decision: Plan) -> None:
        super().apply(decision)
        for action in decision.actions:
            match action:
                case CreateWorkload():
                    self.requests.append("create")
                    assert self.stored is None
                    self.stored = msgspec.json.decode(msgspec.json.encode(action.body))
                    about = {"uid": "w-1", "generation": 1, "creationTimestamp": rfc3339(self.now)}
                    self.stored["metadata"] |= about
                    self.stored["status"] = {}
                    self.versions += 1
                    self.stored["metadata"]["resourceVersion"] = str(self.versions)
                case PatchWorkload():
                    self.requests.append("patch")
                    self._patch(action)
                case DeleteWorkload():
                    self.requests.append("delete")
                    self.deleted()

    def _patch(self, action: PatchWorkload) -> None:
        assert self.stored is not None
        assert action.resource_version == self.stored["metadata"]["resourceVersion"]
        for part, patch in action.patch.items():
            assert (part == "status") == action.status
            for field, value in patch.items():
                before = self.stored[part].pop(field, None)
                if value is not None:
                    self.stored[part][field] = merged(before, value) if field in ("labels", "annotations") else value
        if "spec" in action.patch:
            self.stored["metadata"]["generation"] += 1
        self._touch()

    def _touch(self) -> None:
        assert self.stored is not None
        self.versions += 1
        self.stored["metadata"]["resourceVersion"] = str(self.versions)
        if self.stored["metadata"].get("deletionTimestamp") and not self.stored["metadata"].get("finalizers"):
            self.stored = None

    def settle(self, limit: int = 10) -> None:
        """Decide and carry out until nothing changes, in Kueue neither."""
        for _ in range(limit):
            before = self.versions, self.stored is None
            super().settle(limit)
            if before == (self.versions, self.stored is None):
                return
        raise AssertionError(f"no rest after {limit} decisions: {self.stored}")

    def deleted(self) -> None:
        """Somebody deletes the Workload."""
        assert self.stored is not None
        self.stored["metadata"]["deletionTimestamp"] = rfc3339(self.now)
        self._touch()

    def says(self, kind: str, holds: bool, reason: str = "", message: str = "") -> "Queue":
        """Kueue sets a condition."""
        assert self.stored is not None
        others = [one for one in self.stored["status"].get("conditions", ()) if one["type"] != kind]
        condition: dict[str, Any] = {"type": kind, "status": str(holds), "reason": reason, "message": message}
        condition["observedGeneration"] = self.stored["metadata"]["generation"]
        self.stored["status"]["conditions"] = [*others, condition | {"lastTransitionTime": rfc3339(self.now)}]
        self._touch()
        return self

    def admits(self, **admission: Any) -> "Queue":
        """Kueue admits the Workload."""
        assert self.stored is not None
        self.stored["status"]["admission"] = ADMISSION | admission
        if self.workload is not None and self.workload.condition("Evicted"):
            self.says("Evicted", False, "QuotaReserved", "Previously: Preempted to accommodate another")
        return self.says("QuotaReserved", True, "QuotaReserved").says("Admitted", True, "Admitted")

    def evicts(self, reason: str, message: str = "Preempted to accommodate another") -> "Queue":
        return self.says("Evicted", True, reason, message)

    def conditions(self) -> dict[str, str]:
        assert self.workload is not None
        return {one["type"]: one["status"] for one in self.workload.status.conditions}

    def story(self) -> tuple[str | None, str, str]:
        """Phase, reason and message of the job."""
        running = self.condition("Running")
        return self.status.phase, running.reason if running else "", running.message if running else ""

    def admitted(self) -> "Queue":
        """The job is in its queue and was admitted; its pods exist."""
        self.settle()
        self.admits()
        self.settle()
        return self

    def running(self) -> "Queue":
        self.admitted()
        self.run()
        return self


def live(world: Queue) -> int:
    return sum(not pod.terminating for pod in world.pods.values())


def test_1_a_workload_asks_for_the_quota_of_all_pods_at_once() -> None:
    world = Queue(**TPU, env=[{"name": "TOKEN", "value": "s3cr3t"}])
    world.settle()
    assert world.requests == ["create"]
    assert world.stored is not None
    metadata, asked = world.stored["metadata"], world.stored["spec"]
    assert (world.stored["apiVersion"], metadata["name"], metadata["finalizers"]) == (V2, "slicejob-train", [FINALIZER])
    [owner] = metadata["ownerReferences"]
    assert (owner["uid"], owner["controller"], owner["blockOwnerDeletion"]) == (UID, True, True)
    assert metadata["labels"]["kueue.x-k8s.io/job-uid"] == UID
    assert {key: asked[key] for key in ("queueName", "priority", "active")} == {
        "queueName": "tpu",
        "priority": 0,
        "active": True,
    }
    assert "priorityClassRef" not in asked
    [pods] = asked["podSets"]
    template = pods["template"]["spec"]
    assert (pods["name"], pods["count"], template["restartPolicy"]) == ("slice", 8, "Never")
    assert template["containers"][0]["resources"]["requests"] == {"google.com/tpu": "4"}
    assert template["nodeSelector"]["cloud.google.com/gke-tpu-topology"] == "4x4"
    assert "s3cr3t" not in str(world.stored)


def test_1_a_ray_job_has_a_pod_set_for_its_head() -> None:
    world = Queue(**TPU, ray={"entrypoint": "python a.py", "head": {"resources": {"limits": {"cpu": "2"}}}})
    world.settle()
    assert world.stored is not None
    head, workers = world.stored["spec"]["podSets"]
    assert (head["name"], head["count"], workers["name"], workers["count"]) == ("head", 1, "slice", 8)
    of_head = head["template"]["spec"]
    asked = [one["resources"].get("limits") for one in (*of_head["containers"], *of_head["initContainers"])]
    assert {"cpu": "2"} in asked
    world.admits(
        podSetAssignments=[
            {"name": "head", "flavors": {"cpu": "v5p"}},
            {"name": "slice", "flavors": {"google.com/tpu": "v5e"}},
        ]
    )
    [pods] = actions_of(world.plan(), CreatePods) or actions_of(world.step(), CreatePods)
    assert pods.head.node_selector == {"generation": "v5p"}
    assert pods.workers.node_selector == {"cloud.google.com/gke-spot": "true"}


@pytest.mark.parametrize(
    ("version", "fields"),
    [
        (V2, {"priorityClassRef": {"group": "kueue.x-k8s.io", "kind": "WorkloadPriorityClass", "name": "high"}}),
        (V1, {"priorityClassName": "high", "priorityClassSource": "kueue.x-k8s.io/workloadpriorityclass"}),
    ],
)
def test_1_a_priority_class_comes_with_its_value(version: str, fields: dict[str, Any]) -> None:
    world = Queue(version)
    world.priority = "high"
    world.settle()
    assert world.stored is not None
    assert world.stored["apiVersion"] == version
    assert fields.items() <= world.stored["spec"].items()
    assert world.stored["spec"]["priority"] == 1000


def test_2_no_pods_before_admission() -> None:
    world = Queue(**TPU)
    world.settle()
    assert not world.pods
    assert world.story()[:2] == ("Queued", "EnteringQueue")
    world.step(10)
    assert world.story()[:2] == ("Queued", "Queued")
    assert "Kueue has not considered it yet" in world.story()[2]
    assert (world.pods, world.status.attempt) == ({}, None)


NOT_ADMITTED = {
    "no room now": (
        "couldn't assign flavors to pod set slice: insufficient unused quota for google.com/tpu in flavor v5e, 16 more "
        "needed",
        "WaitingForQuota",
        "it begins when 16 more chips are free",
    ),
    "no room now for another resource": (
        "insufficient unused quota for memory in flavor any, 2Gi more needed",
        "WaitingForQuota",
        "it begins when 2Gi more of memory are free",
    ),
    "too large for one flavor, and no room in another": (
        "couldn't assign flavors to pod set slice: insufficient quota for google.com/tpu in flavor spot, previously "
        "considered podsets requests (0) + current podset request (48) > maximum capacity (32), insufficient unused "
        "quota for google.com/tpu in flavor v5e, 16 more needed",
        "WaitingForQuota",
        "it begins when 16 more chips are free",
    ),
    "too large for one flavor, and preempting in another": (
        "couldn't assign flavors to pod set slice: insufficient quota for google.com/tpu in flavor spot, previously "
        "considered podsets requests (0) + current podset request (48) > maximum capacity (32), insufficient unused "
        "quota for google.com/tpu in flavor v5e, 16 more needed. Pending the preemption of 1 workload(s)",
        "WaitingForPreemptedWorkloads",
        "when the jobs that it preempts have stopped",
    ),
    "the workers are too large, and no room for the head": (
        "couldn't assign flavors to pod set head: insufficient unused quota for cpu in flavor any, 1 more needed; "
        "couldn't assign flavors to pod set slice: insufficient quota for google.com/tpu in flavor v5e, previously "
        "considered podsets requests (0) + current podset request (48) > maximum capacity (32)",
        "ExceedsMaxQuota",
        "it never fits: asks 48 chips, queue has 32",
    ),
    "too large, of two resources of one flavor": (
        "couldn't assign flavors to pod set slice: insufficient quota for google.com/tpu in flavor v5e, previously "
        "considered podsets requests (0) + current podset request (48) > maximum capacity (32), insufficient unused "
        "quota for cpu in flavor v5e, 1 more needed",
        "ExceedsMaxQuota",
        "it never fits: asks 48 chips, queue has 32",
    ),
    "never fits": (
        "couldn't assign flavors to pod set slice: insufficient quota for google.com/tpu in flavor v5e, previously "
        "considered podsets requests (0) + current podset request (48) > maximum capacity (32)",
        "ExceedsMaxQuota",
        "it never fits: asks 48 chips, queue has 32",
    ),
    "wrong selector": (
        "couldn't assign flavors to pod set slice: flavor v5e doesn't match node affinity",
        "NoMatchingFlavor",
        "no flavor of the queue has nodes that the job selects",
    ),
    "resource not covered": (
        "couldn't assign flavors to pod set slice: resource cpu unavailable in ClusterQueue",
        "NoMatchingFlavor",
        "the ClusterQueue has no quota for cpu: remove the request from the job",
    ),
    "no such queue": ("LocalQueue tpu doesn't exist", "LocalQueueNotFound", "create it in the namespace of the job"),
    "queue stopped": ("LocalQueue tpu is inactive", "QueueStopped", "LocalQueue tpu is stopped"),
    "cluster queue stopped": ("ClusterQueue cq is inactive", "QueueStopped", "ClusterQueue cq is stopped"),
    "another namespace": (
        "workload namespace doesn't match ClusterQueue selector",
        "NamespaceNotAllowed",
        "have the namespaceSelector of the ClusterQueue changed",
    ),
    "no such cluster queue": ("ClusterQueue cq not found", "ClusterQueueNotFound", "have it created"),
    "topologies": (
        'Flavor "v5e" does not support TopologyAwareScheduling',
        "TopologyPlacementFailed",
        "this one has none: have one added",
    ),
    "levels": (
        'Flavor "v5e" does not contain the requested level',
        "TopologyPlacementFailed",
        "have the level added to the Topology",
    ),
    "gated": ("Admission is gated by: example.com/image", "AdmissionGated", "admission-gated-by of its Workload"),
    "preempting": (
        "insufficient unused quota for google.com/tpu in flavor v5e, 16 more needed. Pending the preemption of 1 "
        "workload(s)",
        "WaitingForPreemptedWorkloads",
        "when the jobs that it preempts have stopped",
    ),
    "words of another version": ("something new", "Queued", "something new"),
}


@pytest.mark.parametrize(("said", "reason", "helps"), NOT_ADMITTED.values(), ids=NOT_ADMITTED.keys())
def test_2_the_reason_is_kueues_and_comes_with_what_would_help(said: str, reason: str, helps: str) -> None:
    world = Queue(**TPU)
    world.settle()
    world.says("QuotaReserved", False, "Pending", said)
    world.step(10)
    assert world.story()[:2] == ("Queued", reason)
    assert said in world.story()[2]
    assert helps in world.story()[2]
    capacity = world.condition("CapacityAvailable")
    assert capacity is not None
    assert (capacity.status, capacity.reason) == ("False", reason)
    assert not world.pods


def test_2_an_admission_check_is_waited_for() -> None:
    world = Queue(**TPU)
    world.settle()
    assert world.stored is not None
    world.stored["status"]["admissionChecks"] = [{"name": "budget", "state": "Pending", "message": "asking"}]
    world.says("QuotaReserved", True, "QuotaReserved")
    world.step(10)
    assert world.story()[:2] == ("Queued", "UnsatisfiedAdmissionChecks")
    assert "budget: Pending, asking" in world.story()[2]
    assert not world.pods


def test_3_pods_get_what_flavors_and_checks_say() -> None:
    world = Queue(**TPU)
    world.settle()
    assert world.stored is not None
    update = {
        "name": "slice",
        "labels": {"team": "a"},
        "annotations": {"note": "b"},
        "nodeSelector": {"block": "7"},
        "tolerations": [{"key": "block", "operator": "Exists"}],
    }
    world.stored["status"]["admissionChecks"] = [{"name": "c", "state": "Ready", "podSetUpdates": [update]}]
    world.admits()
    [pods] = actions_of(world.step(), CreatePods)
    added = pods.workers
    assert (added.labels, added.annotations) == ({"team": "a"}, {"note": "b"})
    assert added.node_selector == {"cloud.google.com/gke-spot": "true", "block": "7"}
    assert [one["key"] for one in added.tolerations] == ["pool", "block"]
    body = {"metadata": {"name": "p", "labels": {"a": "b"}}, "spec": {"nodeSelector": {"x": "y"}, "containers": []}}
    made = added.to(body)
    assert made["metadata"] == {"name": "p", "labels": {"a": "b", "team": "a"}, "annotations": {"note": "b"}}
    assert made["spec"]["nodeSelector"] == {"x": "y", "cloud.google.com/gke-spot": "true", "block": "7"}
    assert body["spec"]["nodeSelector"] == {"x": "y"}


UNUSABLE: dict[str, tuple[dict[str, Any], str]] = {
    "a selector of the job's": (
        {"flavors": {"v5e": {"nodeLabels": {"cloud.google.com/gke-tpu-topology": "2x2"}}}},
        "nodeSelector cloud.google.com/gke-tpu-topology: the queue asks for '2x2', and it is '4x4'",
    ),
    "a flavor that is not known": ({"flavors": {}}, "ResourceFlavor v5e is not known"),
}


@pytest.mark.parametrize(("fields", "said"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_3_an_admission_that_contradicts_the_job_makes_no_pods(fields: dict[str, Any], said: str) -> None:
    world = Queue(**TPU)
    world.flavors = fields["flavors"]
    world.admitted()
    world.step(10)
    assert not world.pods
    assert world.story()[:2] == ("Queued", "AdmissionNotUsable")
    assert said in world.story()[2]


TOPOLOGY = [ADMISSION["podSetAssignments"][0] | {"topologyAssignment": {"levels": ["kubernetes.io/hostname"]}}]


def two_free_node_pools(world: Queue) -> None:
    """Give a world a node pool for each slice."""
    labels = {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
        "cloud.google.com/gke-tpu-topology": "4x4",
        "cloud.google.com/gke-accelerator-count": "4",
        "cloud.google.com/gke-spot": "true",
    }
    pools = {pool: [f"{pool}-{host}" for host in range(4)] for pool in ("a", "b")}
    for pool, nodes in pools.items():
        for name in nodes:
            metadata = NodeMetadata(name, labels=labels | {"cloud.google.com/gke-nodepool": pool})
            world.nodes[name] = Node(metadata, status=NodeStatus((PodCondition("Ready", "True"),)))
    world.pools = NodePools(pools, tuple(pools))


def test_3_slices_are_pinned_to_node_pools_where_kueue_does_not_choose_the_nodes() -> None:
    world = Queue(**TPU)
    two_free_node_pools(world)
    world.settle()
    world.admits()
    [pods] = actions_of(world.step(), CreatePods)
    assert pods.pools == {0: "a", 1: "b"}


def test_3_where_the_queue_has_a_topology_kueue_chooses_the_nodes() -> None:
    world = Queue(**TPU)
    two_free_node_pools(world)
    world.topologies = frozenset({"google.com/tpu", "nvidia.com/gpu"})
    world.settle()
    assert world.stored is not None
    assert world.stored["spec"]["podSets"][0]["topologyRequest"] == {
        "podIndexLabel": "slipway.dev/host",
        "subGroupIndexLabel": "slipway.dev/slice",
        "subGroupCount": 2,
        "podSetSliceRequiredTopology": "cloud.google.com/gke-nodepool",
        "podSetSliceSize": 4,
    }
    world.admits(podSetAssignments=TOPOLOGY)
    [pods] = actions_of(world.step(), CreatePods)
    assert pods.pools == {}
    pod = pods.workers.to(pod_factory(world.job, Settings()).pod(0, worker(1, 2)))
    assert pod["spec"]["schedulingGates"] == [{"name": "kueue.x-k8s.io/topology"}]
    assert not pod["spec"]["affinity"]
    assert pod["spec"]["nodeSelector"]["cloud.google.com/gke-spot"] == "true"
    assert {
        "kueue.x-k8s.io/workload": "slicejob-train",
        "kueue.x-k8s.io/podset-slice-required-topology": "cloud.google.com/gke-nodepool",
        "kueue.x-k8s.io/podset-slice-size": "4",
    }.items() <= pod["metadata"]["annotations"].items()
    assert msgspec.convert(pod, Pod).metadata.annotations.workload == "slicejob-train"
    assert {
        "kueue.x-k8s.io/podset": "slice",
        "slipway.dev/slice": "1",
        "slipway.dev/host": "2",
    }.items() <= pod["metadata"]["labels"].items()


@pytest.mark.parametrize(
    "fields", [{"hosts": 2}, {"hosts": 2, "accelerator": {"gpu": {"vendor": "nvidia", "count": 4}}}], ids=["CPU", "GPU"]
)
def test_3_other_pods_are_anywhere_in_the_topology(fields: dict[str, Any]) -> None:
    world = Queue(**fields)
    world.topologies = frozenset({"google.com/tpu", "nvidia.com/gpu"})
    world.settle()
    assert world.stored is not None
    assert world.stored["spec"]["podSets"][0]["topologyRequest"] == {"unconstrained": True}
    world.admits(podSetAssignments=TOPOLOGY)
    [pods] = actions_of(world.step(), CreatePods)
    assert pods.workers.annotations["kueue.x-k8s.io/podset-unconstrained-topology"] == "true"


def test_3_a_job_keeps_its_turn_when_its_queue_is_not_known_any_more() -> None:
    world = Queue(**TPU)
    world.topologies = frozenset({"google.com/tpu"})
    world.settle()
    told = list(world.requests)
    world.topologies = None
    world.says("QuotaReserved", False, "Pending", "LocalQueue tpu doesn't exist")
    world.step(10)
    assert (world.requests, world.story()[1]) == (told, "LocalQueueNotFound")


HEADS: dict[str, tuple[frozenset[str], list[str]]] = {
    "of the workers alone": (frozenset({"google.com/tpu"}), ["slice"]),
    "of the head alone": (frozenset({"cpu", "memory"}), ["head"]),
    "of all": (frozenset({"google.com/tpu", "cpu", "memory"}), ["head", "slice"]),
    "of none": (frozenset(), []),
}


@pytest.mark.parametrize(("topologies", "placed"), HEADS.values(), ids=HEADS.keys())
def test_3_kueue_chooses_nodes_for_the_pods_of_a_ray_job_whose_flavors_have_a_topology(
    topologies: frozenset[str], placed: list[str]
) -> None:
    world = Queue(**TPU, ray={"entrypoint": "python a.py", "head": {"resources": {"limits": {"cpu": "2"}}}})
    world.topologies = topologies
    world.settle()
    assert world.stored is not None
    found = world.stored["spec"]["podSets"]
    assert [one["name"] for one in found if "topologyRequest" in one] == placed
    given = [{"name": "head", "flavors": {"cpu": "v5p"}}, {"name": "slice", "flavors": {"google.com/tpu": "v5e"}}]
    topology = {"topologyAssignment": {"levels": ["kubernetes.io/hostname"]}}
    world.admits(podSetAssignments=[one | topology if one["name"] in placed else one for one in given])
    [pods] = actions_of(world.step(), CreatePods)
    gated = {"head": pods.head.gates, "slice": pods.workers.gates}
    assert [name for name, gates in gated.items() if gates] == placed
    assert world.requests == ["create"]


def test_3_a_topology_that_comes_later_is_asked_for_by_a_new_workload() -> None:
    world = Queue(**TPU)
    world.settle()
    world.topologies = frozenset({"google.com/tpu", "nvidia.com/gpu"})
    world.settle()
    assert world.requests == ["create", "delete", "patch", "create"]
    assert world.stored is not None
    assert "topologyRequest" in world.stored["spec"]["podSets"][0]


def test_3_a_topology_that_nobody_asked_for_is_not_used() -> None:
    world = Queue(**TPU)
    world.settle()
    world.admits(podSetAssignments=TOPOLOGY)
    world.step(10)
    assert not world.pods
    assert world.story()[:2] == ("Queued", "AdmissionNotUsable")
    assert "delete the Workload" in world.story()[2]


def test_4_kueue_is_told_once_that_the_pods_run() -> None:
    world = Queue(**TPU).running()
    assert world.status.phase == "Running"
    assert world.conditions()["PodsReady"] == "True"
    assert world.requests == ["create", "patch"]


def test_5_a_restart_tells_kueue_nothing_and_keeps_the_quota() -> None:
    world = Queue(**TPU, retries={"maxFailures": 100, "backoff": {"initialSeconds": 0}}).running()
    told = list(world.requests)
    for attempt in range(1, 11):
        world.pod(0, 0).exits(1)
        world.until_restarted()
        world.settle()
        world.run()
        assert (world.status.attempt, world.status.phase) == (attempt, "Running")
        assert world.conditions()["Admitted"] == "True"
        world.now += timedelta(seconds=5)
    assert world.requests == told


def test_5_kueue_is_told_of_pods_that_stay_away_longer() -> None:
    world = Queue(**TPU, retries={"maxFailures": 9, "backoff": {"initialSeconds": 300}}).running()
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.conditions()["PodsReady"] == "True"
    world.step(61)
    assert world.conditions()["PodsReady"] == "False"
    world.step(240)
    world.run()
    assert world.conditions()["PodsReady"] == "True"
    assert world.workload is not None
    assert world.workload.condition("PodsReady")["reason"] == "Recovered"


EVICTIONS = {
    "Preempted": ("PreemptedByQueue", 1, "True"),
    "NodeFailures": ("PreemptedByQueue", 1, "True"),
    "PodsReadyTimeout": ("StoppedByQueue", 0, "False"),
    "AdmissionCheck": ("StoppedByQueue", 0, "False"),
    "LocalQueueStopped": ("StoppedByQueue", 0, "False"),
    "ClusterQueueStopped": ("StoppedByQueue", 0, "False"),
    "Deactivated": ("StoppedByQueue", 0, "False"),
    "DeactivatedDueToMaximumExecutionTimeExceeded": ("StoppedByQueue", 0, "False"),
    "DeactivatedDueToRequeuingLimitExceeded": ("StoppedByQueue", 0, "False"),
    "SomethingNew": ("StoppedByQueue", 0, "False"),
}


@pytest.mark.parametrize(
    ("reason", "ending", "charged", "requeued"), [(key, *row) for key, row in EVICTIONS.items()], ids=EVICTIONS.keys()
)
def test_6_an_eviction_ends_the_attempt_by_its_reason(reason: str, ending: str, charged: int, requeued: str) -> None:
    world = Queue(**TPU).running()
    world.evicts(reason)
    world.settle()
    attempt = world.attempt
    assert (attempt.reason, world.status.preemptions, world.status.failures) == (ending, charged, 0)
    assert reason in (attempt.message or "")
    # The pods are on their way, and until they have gone Kueue counts their quota.
    assert live(world) == 0
    assert world.pods
    assert world.stored is not None
    assert "admission" in world.stored["status"]
    world.obey()
    world.settle()
    assert world.conditions()["Requeued"] == requeued
    if reason.startswith("Deactivated"):
        # Kueue queues a Workload again that is active again for this reason alone.
        assert world.workload is not None
        assert world.workload.condition("Requeued")["reason"] == "Deactivated"
    assert (world.status.phase, world.status.attempt) == ("Queued", 0)
    assert not world.pods


def test_6_who_preempted_the_job_is_named() -> None:
    world = Queue(**TPU).running()
    world.preemptor = "research/urgent"
    uids = "(UID: 0a1b, JobUID: 2c3d)"
    world.evicts("Preempted", f"Preempted to accommodate a workload {uids} due to prioritization in the ClusterQueue")
    world.settle()
    said = "Preempted to accommodate a workload of SliceJob research/urgent due to prioritization"
    assert said in (world.attempt.message or "")
    assert world.workload is not None
    assert preemptor_of(world.workload) == "2c3d"


@pytest.mark.parametrize(
    ("jobs", "said"),
    [
        pytest.param((), "it begins when the jobs that it preempts have stopped", id="none of Slipway's"),
        pytest.param(("ml/a", "ml/b"), "; it preempts SliceJob ml/a, ml/b", id="two"),
        pytest.param(("ml/a", "ml/b", "ml/c", "ml/d", "ml/e"), "ml/a, ml/b, ml/c and 2 more", id="many"),
    ],
)
def test_whom_the_job_preempts_is_named_while_they_stop(jobs: tuple[str, ...], said: str) -> None:
    world = Queue(**TPU)
    world.preempted = jobs
    world.settle()
    world.says("QuotaReserved", False, "Pending", "16 more needed. Pending the preemption of 1 workload(s)")
    world.step(10)
    _, reason, message = world.story()
    assert (reason, message.endswith(said)) == ("WaitingForPreemptedWorkloads", True)


def test_6_an_eviction_is_obeyed_although_another_kind_of_kueue_cannot_be_read() -> None:
    world = Queue(**TPU).running()
    world.problem = "clusterqueues is forbidden"
    world.settle()
    assert (world.status.phase, live(world)) == ("Running", 8)
    world.evicts("Preempted")
    world.settle()
    assert (world.attempt.reason, live(world)) == ("PreemptedByQueue", 0)
    world.obey()
    world.settle()
    assert world.conditions()["QuotaReserved"] == "False"
    assert "admission" not in (world.stored or {})["status"]
    assert world.story()[:2] == ("Queued", "KueueUnreadable")


def test_6_what_is_known_of_a_workload_that_cannot_be_read_ends_nothing() -> None:
    world = Queue(**TPU).running()
    world.problem, world.unseen = "workloads is forbidden", True
    told = list(world.requests)
    world.evicts("Preempted")
    world.settle()
    assert (world.status.phase, live(world), world.requests) == ("Running", 8, told)


def no_workload(world: Queue) -> None:
    world.stored = None


def before_admission(world: Queue) -> None:
    assert world.stored is not None
    world.stored["status"] = {}


@pytest.mark.parametrize("seen", [no_workload, before_admission])
def test_6_a_new_leader_whose_watch_is_behind_ends_no_attempt_before_it_has_read_the_workload(
    seen: Callable[[Queue], None],
) -> None:
    world = Queue(**TPU).running()
    true, told = deepcopy(world.stored), list(world.requests)
    world.leading_since, world.begun_by_this_process, world.answers = world.now, None, False
    seen(world)
    decision = world.step()
    assert Refresh(workload=True) in decision.actions
    assert (world.status.phase, live(world), world.requests) == ("Running", 8, told)
    world.stored, world.workload_as_of = true, world.now
    world.settle()
    assert (world.status.phase, live(world), world.requests) == ("Running", 8, told)


@pytest.mark.parametrize("begun", [False, True], ids=["begins no attempt", "creates no pod that is missing"])
def test_6_a_new_leader_whose_watch_still_shows_the_admission(begun: bool) -> None:
    """The leader before it has given the quota back meanwhile."""
    world = Queue(**TPU)
    world.settle()
    world.admits()
    admitted = deepcopy(world.stored)
    if begun:
        world.settle()
        world.pods.clear()
    world.now += timedelta(seconds=60)
    world.leading_since, world.begun_by_this_process, world.answers = world.now, None, False
    world.pods_as_of = world.now
    decision = world.step()
    assert Refresh(workload=True) in decision.actions
    assert not actions_of(decision, CreatePods)
    assert not live(world)
    world.stored, world.workload_as_of, world.pods_as_of = admitted, world.now, world.now
    world.settle()
    assert live(world) == 8


def test_6_a_job_that_came_after_the_leader_needs_no_read_of_its_workload() -> None:
    world = Queue(**TPU)
    world.leading_since -= timedelta(minutes=1)
    world.settle()
    world.admits()
    while not live(world):
        decision = world.step()
        assert Refresh(workload=True) not in decision.actions
    assert live(world) == 8


def test_6_a_new_leader_that_has_read_that_the_workload_was_evicted_ends_the_attempt() -> None:
    world = Queue(**TPU).running()
    world.leading_since, world.begun_by_this_process = world.now, None
    world.evicts("Preempted")
    world.settle()
    assert (world.attempt.reason, world.status.preemptions) == ("PreemptedByQueue", 1)


QUOTA_LOST: dict[str, Callable[[Queue], object]] = {
    "preempted": lambda world: world.evicts("Preempted"),
    "its queue was stopped": lambda world: world.evicts("ClusterQueueStopped"),
    "its Workload was deleted": Queue.deleted,
    "its Workload was finished": lambda world: world.says("Finished", True, "Succeeded"),
    "its Workload is gone": no_workload,
}


@pytest.mark.parametrize("ahead", [30, 300, 10**9], ids=["30 s", "5 min", "decades"])
def test_6_an_eviction_is_obeyed_at_once_by_whatever_clock_it_is_dated(ahead: int) -> None:
    world = Queue(**TPU).running()
    world.evicts("Preempted")
    assert world.stored is not None
    for one in world.stored["status"]["conditions"]:
        one["lastTransitionTime"] = rfc3339(world.now + timedelta(seconds=ahead))
    world.settle()
    assert (world.attempt.reason, world.status.preemptions) == ("PreemptedByQueue", 1)


@pytest.mark.parametrize(("code", "phase", "failures"), [(0, "Succeeded", 0), (1, "Queued", 1)])
@pytest.mark.parametrize("lost", QUOTA_LOST.values(), ids=QUOTA_LOST)
def test_6_an_attempt_whose_hosts_had_ended_is_not_taken_for_one_that_its_queue_ended(
    lost: Callable[[Queue], object], code: int, phase: str, failures: int
) -> None:
    """The watch of the pods lags behind that of the Workloads."""
    world = Queue(**TPU).running()
    world.pods_as_of, world.answers = world.now, False
    world.now += timedelta(seconds=11)
    lost(world)
    decision = world.step(seconds=1)
    assert actions_of(decision, Refresh) == [Refresh(pods=True)]
    assert world.status.phase == "Running"
    for pod in world.all_pods():
        pod.exits(code)
    world.pods_as_of, world.answers = world.now, True
    world.step()
    assert (world.status.phase, world.status.preemptions) == (phase, 0)
    world.obey()
    world.settle()
    assert world.status.failures == failures


def test_7_quota_goes_with_one_write_that_takes_the_admission_along() -> None:
    world = Queue(**TPU).running()
    world.evicts("Preempted").says("Preempted", True, "InClusterQueue")
    world.settle()
    world.obey()
    while not (sent := actions_of(decision := world.plan(), PatchWorkload)):
        world.apply(decision)
    [patch] = sent
    assert patch.status
    assert patch.patch["status"]["admission"] is None
    assert "admission" in patch.patch["status"]
    told = {one["type"]: (one["status"], one["reason"]) for one in patch.patch["status"]["conditions"]}
    assert told == {
        "QuotaReserved": ("False", "Pending"),
        "Admitted": ("False", "NoReservation"),
        "Requeued": ("True", "Preempted"),
        "Evicted": ("True", "Preempted"),
        "Preempted": ("True", "InClusterQueue"),
        "PodsReady": ("False", "WaitForStart"),
    }
    assert all(one["lastTransitionTime"] for one in patch.patch["status"]["conditions"])
    world.apply(decision)
    assert world.stored is not None
    assert "admission" not in world.stored["status"]


def test_7_quota_stays_while_a_pod_may_run_on_a_silent_node() -> None:
    world = Queue(**TPU).running()
    world.not_ready("node-0-0")
    world.evicts("Preempted")
    world.settle()
    for handle in world.all_pods():
        if handle.now.terminating and handle.now.spec.node_name != "node-0-0":
            handle.exits(143).vanishes()
    world.settle()
    world.step(3600)
    assert world.stored is not None
    assert "admission" in world.stored["status"]


def test_8_readmission_begins_the_next_attempt() -> None:
    world = Queue(**TPU).running()
    world.evicts("Preempted")
    world.settle()
    world.obey()
    world.settle()
    world.admits()
    assert world.workload is not None
    assert world.workload.condition("Evicted")
    world.step(30)
    world.run()
    assert (world.status.attempt, world.status.phase, world.status.preemptions) == (1, "Running", 1)
    assert len(world.pods) == 8
    # The time in which the first attempt ran stays that.
    first = world.status.attempts[1]
    assert first.admitted_time == first.start_time


HELD = {
    "backoff": ("PodsReadyTimeout", {"requeueState": {"requeueAt": "2026-11-21T13:00:00Z"}}, "at 2026-11-21T13:00:00"),
    "a stopped queue": ("LocalQueueStopped", {}, "when the LocalQueue is started"),
    "a check": ("AdmissionCheck", {}, "when Kueue says so"),
}


@pytest.mark.parametrize(("reason", "status", "said"), HELD.values(), ids=HELD.keys())
def test_7_a_job_that_is_held_says_until_when(reason: str, status: dict[str, Any], said: str) -> None:
    world = Queue(**TPU).running()
    world.evicts(reason, "words of Kueue")
    world.settle()
    world.obey()
    world.settle()
    assert world.stored is not None
    world.stored["status"] |= status
    world.step(60)
    assert world.story()[:2] == ("Queued", reason)
    assert "words of Kueue" in world.story()[2]
    assert said in world.story()[2]


def test_7_a_deactivated_job_says_how_it_goes_on() -> None:
    world = Queue(**TPU).running()
    assert world.stored is not None
    world.stored["spec"]["active"] = False
    world.evicts("Deactivated", "The workload is deactivated")
    world.settle()
    world.obey()
    world.settle()
    world.step(10)
    assert world.story()[:2] == ("Queued", "Deactivated")
    assert "spec.active of Workload slicejob-train" in world.story()[2]


def test_6_a_host_that_failed_before_the_eviction_is_the_cause() -> None:
    world = Queue(**TPU).running()
    world.pod(0, 0).exits(1)
    world.evicts("Preempted")
    world.settle()
    world.obey()
    world.settle()
    assert (world.attempt.reason, world.status.failures, world.status.preemptions) == ("ExitCode", 1, 0)
    assert world.conditions()["Admitted"] == "False"


def test_6_preemptions_by_the_queue_use_their_budget_up() -> None:
    world = Queue(**TPU, retries={"maxPreemptions": 1}).running()
    world.evicts("Preempted")
    world.settle()
    world.obey()
    world.settle()
    assert world.status.phase == "Preempted"
    assert world.conditions()["Finished"] == "True"
    assert world.workload is not None
    assert world.workload.metadata.finalizers == ()


@pytest.mark.parametrize(
    ("code", "phase", "reason"), [(0, "Succeeded", "Succeeded"), (1, "Failed", "Failed")], ids=["success", "failure"]
)
def test_9_a_job_that_has_ended_gives_its_quota_back(code: int, phase: str, reason: str) -> None:
    world = Queue(**TPU, retries={"enabled": False}).running()
    for handle in world.all_pods():
        handle.exits(code)
    world.settle()
    assert world.status.phase == phase
    assert world.workload is not None
    assert world.workload.condition("Finished")["reason"] == reason
    assert world.workload.metadata.finalizers == ()


def test_9_the_pods_of_a_cancelled_job_keep_the_quota_until_they_have_gone() -> None:
    world = Queue(**TPU).running()
    world.fields["cancel"] = True
    world.settle()
    assert (world.status.phase, "Finished" in world.conditions()) == ("Cancelled", False)
    world.obey()
    world.settle()
    assert world.conditions()["Finished"] == "True"


def test_9_a_job_that_is_cancelled_in_the_queue_is_never_admitted() -> None:
    world = Queue(**TPU)
    world.settle()
    world.fields["cancel"] = True
    world.settle()
    assert (world.status.phase, world.conditions()["Finished"]) == ("Cancelled", "True")


def test_10_suspension_leaves_the_queue_and_resumption_enters_it_again() -> None:
    world = Queue(**TPU).running()
    world.fields["suspend"] = True
    world.settle()
    assert world.stored is not None, "the pods still run"
    world.obey()
    world.settle()
    assert world.stored is None
    assert world.status.phase == "Suspended"
    world.fields["suspend"] = False
    world.settle()
    assert world.status.phase == "Queued"
    world.admits()
    world.run()
    assert (world.status.phase, world.status.attempt) == ("Running", 1)


def test_10_a_suspended_job_is_in_no_queue() -> None:
    world = Queue(**TPU, suspend=True)
    world.settle()
    assert (world.status.phase, world.requests) == ("Suspended", [])


def test_11_a_deleted_workload_stops_the_pods_and_is_asked_for_again() -> None:
    world = Queue(**TPU).running()
    world.deleted()
    world.settle()
    assert (world.attempt.reason, world.status.uncharged) == ("StoppedByQueue", 1)
    assert world.stored is not None, "it holds the quota while pods may run"
    world.obey()
    world.settle()
    assert world.requests[-1] == "create"
    assert world.status.phase == "Queued"
    assert world.stored is not None
    assert "deletionTimestamp" not in world.stored["metadata"]


def test_11_a_workload_that_waits_goes_at_once_when_it_is_deleted() -> None:
    world = Queue(**TPU)
    world.settle()
    world.deleted()
    [patch] = actions_of(world.plan(), PatchWorkload)
    assert patch.patch == {"metadata": {"finalizers": None}}


def test_11_a_deleted_job_takes_its_workload_along_after_its_pods() -> None:
    world = Queue(**TPU).running()
    world.deleting = True
    assert not actions_of(world.plan(), DeleteWorkload)
    world.pods.clear()
    world.step()
    assert world.stored is not None
    world.step()
    assert world.stored is None


def test_11_the_workload_of_a_job_that_is_gone_goes_after_its_pods() -> None:
    world = Queue(**TPU).running()
    world.deleted()
    assert world.workload is not None
    assert of_no_job(V2, world.workload, world.pods.values()) == ()
    [patch] = of_no_job(V2, world.workload, ())
    assert isinstance(patch, PatchWorkload)


def test_11_a_workload_of_an_earlier_job_goes_first() -> None:
    world = Queue(**TPU)
    world.settle()
    assert world.stored is not None
    world.stored["metadata"]["labels"]["slipway.dev/job-uid"] = "another"
    world.requests.clear()
    world.settle()
    assert world.requests == ["delete", "patch", "create"]


def test_the_label_of_another_queue_is_followed_while_no_quota_is_reserved() -> None:
    world = Queue(**TPU)
    world.settle()
    world.queue = "other"
    world.settle()
    assert world.stored is not None
    assert world.stored["spec"]["queueName"] == "other"
    world.admits()
    world.queue = "third"
    world.settle()
    assert world.stored["spec"]["queueName"] == "other"


def test_the_label_of_another_priority_is_followed_at_any_time() -> None:
    world = Queue(**TPU)
    world.priority = "low"
    world.running()
    world.priority = "high"
    world.settle()
    assert world.stored is not None
    assert (world.stored["spec"]["priority"], world.stored["spec"]["priorityClassRef"]["name"]) == (1000, "high")
    assert world.status.phase == "Running"


def test_a_priority_class_that_is_deleted_leaves_a_waiting_job_its_place() -> None:
    world = Queue(**TPU)
    world.priority = "high"
    world.settle()
    world.classes = {}
    world.queue = "other"
    world.settle()
    assert world.stored is not None
    assert (world.status.phase, world.stored["spec"]["priority"]) == ("Queued", 1000)
    assert (world.stored["spec"]["queueName"], "delete" in world.requests) == ("other", False)


def test_a_priority_class_that_never_was_changes_nothing_of_a_job_that_runs() -> None:
    world = Queue(**TPU)
    world.priority = "high"
    world.running()
    told = list(world.requests)
    world.priority = "hihg"
    world.settle()
    assert world.stored is not None
    assert (world.requests, world.stored["spec"]["priority"], world.status.phase) == (told, 1000, "Running")


def test_a_priority_class_that_never_was_is_not_asked_for_while_an_evicted_job_waits() -> None:
    world = Queue(**TPU)
    world.priority = "high"
    world.running().evicts("Preempted")
    world.settle()
    world.obey()
    world.settle()
    told = list(world.requests)
    world.priority = "hihg"
    world.settle()
    assert (world.requests, world.status.phase) == (told, "Queued")


def test_a_job_that_cannot_be_run_lets_the_workload_of_an_earlier_one_of_its_name_go() -> None:
    world = Queue(**TPU)
    world.settle()
    world.admits().deleted()
    assert world.stored is not None
    world.stored["metadata"]["labels"]["slipway.dev/job-uid"] = "another"
    world.priority = "hihg"
    world.settle()
    assert (world.status.phase, world.stored) == ("Invalid", None)


def test_a_workload_that_is_refused_for_good_is_asked_for_again_while_the_status_stays() -> None:
    world = Queue(**TPU)
    world.checked = True
    world.rejection = Rejection("spec.podSets: Invalid value", world.now, WORKLOAD_REJECTED)
    world.step()
    assert world.status.phase == "Invalid"
    before = world.status
    world.now += timedelta(seconds=60)
    decision = world.plan()
    assert (decision.status, [type(one) for one in decision.actions]) == (before, [CreateWorkload])


def unseen_edit(world: Queue) -> None:
    conditions = (one.model_copy(update={"observed_generation": 0}) for one in world.status.conditions)
    world.status = world.status.model_copy(update={"conditions": tuple(conditions)})


def refused_before(world: Queue) -> None:
    before = world.stored
    world.rejection = Rejection("denied", world.now, "WebhookDenied")
    world.checked = False
    world.step()
    assert world.status.phase == "Invalid"
    world.stored, world.rejection = before, None


OF_A_NEW_LEADER: dict[str, tuple[Callable[[Queue], object], bool]] = {
    "it waits": (lambda world: None, False),
    "its Workload has gone": (Queue.deleted, False),
    "Kueue cannot be read": (lambda world: setattr(world, "problem", "no such quota"), False),
    "it is admitted": (lambda world: world.admits(), True),
    "its spec has changed since": (unseen_edit, True),
    "it was refused": (refused_before, True),
}


@pytest.mark.parametrize(("happens", "asks"), OF_A_NEW_LEADER.values(), ids=OF_A_NEW_LEADER)
def test_a_new_leader_asks_about_the_pods_of_a_job_in_a_queue(happens: Callable[[Queue], object], asks: bool) -> None:
    world = Queue(**TPU)
    world.settle()
    world.step(10)
    happens(world)
    world.checked, before = False, world.status
    assert bool(actions_of(world.plan(), Check)) is asks
    if not asks:
        accepted = world.status.condition(ConditionType.ACCEPTED)
        world.step()
        assert world.status.condition(ConditionType.ACCEPTED) == accepted
        assert before.phase == world.status.phase == "Queued"


def test_a_job_that_is_over_and_has_told_kueue_so_asks_nothing_of_a_new_leader() -> None:
    world = Queue(**TPU).running()
    for pod in world.all_pods():
        pod.exits(0)
    world.settle()
    assert world.status.phase == "Succeeded"
    world.leading_since, world.begun_by_this_process, world.pods_as_of = world.now, None, None
    assert world.plan().actions == ()


def test_a_job_whose_label_is_removed_leaves_the_queue_and_goes_on() -> None:
    world = Queue(**TPU).running()
    world.queue = None
    world.settle()
    assert (world.stored, world.status.phase, world.status.attempt) == (None, "Running", 0)


def test_a_job_that_gets_the_label_while_it_runs_waits_for_its_turn() -> None:
    world = Queue(**TPU)
    world.queue = None
    world.run()
    world.queue = "tpu"
    world.settle()
    world.obey()
    world.settle()
    assert (world.attempt.reason, world.status.uncharged, world.status.phase) == ("StoppedByQueue", 1, "Queued")
    assert "it was put in that queue while the attempt went on" in (world.attempt.message or "")
    assert world.story()[2].startswith("waits in LocalQueue tpu")


REFUSED: dict[str, tuple[dict[str, Any], str, str]] = {
    "no Kueue": ({"version": ""}, "KueueNotInstalled", "install Kueue, or remove the label"),
    "no rights": ({"problem": "workloads is forbidden"}, "KueueUnreadable", "workloads is forbidden"),
    "no queue": ({"queue": ""}, "QueueNotSupported", "name a LocalQueue"),
    "no name of a queue": ({"queue": "TPU_Large"}, "QueueNotSupported", "'TPU_Large': name a LocalQueue"),
    "no such class": ({"priority": "hgih"}, "PriorityClassNotFound", "there are: high, low"),
}


@pytest.mark.parametrize(("changes", "reason", "said"), REFUSED.values(), ids=REFUSED.keys())
def test_what_no_queue_can_take_is_refused_until_it_can(changes: dict[str, Any], reason: str, said: str) -> None:
    world = Queue(**TPU)
    before = {name: getattr(world, name) for name in changes}
    for name, value in changes.items():
        setattr(world, name, world.fields | value if name == "fields" else value)
    world.settle()
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert (world.status.phase, accepted.reason, world.requests) == ("Invalid", reason, [])
    assert said in accepted.message
    for name, value in before.items():
        setattr(world, name, value)
    world.settle()
    assert (world.status.phase, world.requests) == ("Queued", ["create"])


def test_a_job_that_runs_goes_on_when_kueue_is_removed() -> None:
    world = Queue(**TPU).running()
    world.version = ""
    world.settle()
    assert (world.status.phase, world.status.attempt) == ("Running", 0)
    world.pod(0, 0).exits(1)
    world.until_restarted()
    assert world.story()[:2] == ("Queued", "KueueNotInstalled")


def test_an_attempt_whose_workload_somebody_removed_says_so() -> None:
    world = Queue(**TPU).running()
    world.stored = None
    world.settle()
    assert (world.attempt.reason, world.attempt.message) == ("StoppedByQueue", "its Workload in LocalQueue tpu is gone")


def gated(workload: str = "slicejob-train") -> Queue:
    """The pods wait until Kueue tells them their nodes."""
    world = Queue(**TPU)
    world.topologies = frozenset({"google.com/tpu"})
    world.settle()
    world.admits(podSetAssignments=[ADMISSION["podSetAssignments"][0] | {"topologyAssignment": {"levels": ["h"]}}])
    world.settle()
    for key, pod in world.pods.items():
        about = msgspec.structs.replace(pod.metadata, annotations=PodAnnotations(workload))
        gates = (Named(name=GATE),)
        world.pods[key] = msgspec.structs.replace(pod, metadata=about, spec=PodSpec(scheduling_gates=gates))
        PodHandle(world, key).has("PodScheduled", "SchedulingGated", status="False")
    world.settle()
    assert (world.status.phase, live(world)) == ("Starting", 8)
    return world


def test_pods_that_wait_for_a_topology_are_made_anew_when_the_job_leaves_its_queue() -> None:
    world = gated()
    world.queue = None
    world.settle()
    assert (world.attempt.reason, world.status.uncharged, live(world)) == ("StoppedByQueue", 1, 0)
    assert world.attempt.message == "8 pod(s) wait for a node from Kueue, and the job is in no queue any more"
    creates = actions_of(world.step(10), CreatePods)
    assert (world.status.attempt, [one.workers.gates for one in creates]) == (1, [()])


def test_pods_that_wait_for_a_topology_are_deleted_when_kueue_is_removed() -> None:
    world = gated()
    world.version = ""
    world.settle()
    assert (world.attempt.reason, world.status.uncharged, live(world)) == ("StoppedByQueue", 1, 0)
    assert world.story()[:2] == ("Queued", "KueueNotInstalled")


def test_pods_that_kueue_has_gated_itself_are_left_alone() -> None:
    world = gated(workload="pod-train-0-0-0")
    world.queue = None
    world.settle()
    assert (world.status.phase, live(world)) == ("Starting", 8)


def test_pods_that_have_their_nodes_go_on_when_the_job_leaves_its_queue() -> None:
    world = gated()
    for handle in world.all_pods():
        handle.runs()
    world.queue = None
    world.settle()
    assert (world.status.phase, world.status.attempt, world.stored) == ("Running", 0, None)


def no_profile(world: Queue) -> None:
    missing = replace(UNLIMITED, choice=Choice(problem=("ProfileNotFound", "there is none")))
    world.sited = lambda given, _: (given, missing)


def no_class(world: Queue) -> None:
    world.priority = "hgih"


def other_env(world: Queue) -> None:
    world.fields["env"] = [{"name": "A", "value": "changed"}]


def unreadable(world: Queue) -> None:
    world.read = None, "spec.newer is not a known field of this version of Slipway"


CANNOT_GO_ON: dict[str, tuple[Callable[[Queue], None], str]] = {
    "its profile is gone": (no_profile, "ProfileNotFound"),
    "its priority names no class": (no_class, "PriorityClassNotFound"),
    "its spec was changed": (other_env, "SpecChanged"),
}


@pytest.mark.parametrize(("breaks", "reason"), CANNOT_GO_ON.values(), ids=CANNOT_GO_ON.keys())
def test_a_job_that_cannot_go_on_between_attempts_gives_its_quota_back_until_it_can(
    breaks: Callable[[Queue], None], reason: str
) -> None:
    world = Queue(**TPU).running()
    before = world.fields | {}, world.sited
    breaks(world)
    world.settle()
    assert (world.status.phase, world.conditions()["Admitted"]) == ("Running", "True")
    world.pod(0, 0).exits(1)
    world.settle()
    assert world.conditions()["Admitted"] == "True", "pods may still run"
    world.obey()
    world.settle()
    world.step(seconds=60)
    world.settle()
    assert (world.stored, world.story()[1], world.status.failures) == (None, reason, 1)
    (world.fields, world.sited), world.priority = before, ""
    world.settle()
    assert (world.status.phase, world.requests.count("create")) == ("Queued", 2)
    world.admits()
    world.step(600)
    world.settle()
    assert sum(pod.attempt == world.status.attempt == 1 for pod in world.pods.values()) == 8


def test_a_profile_that_is_away_while_it_is_replaced_costs_no_quota() -> None:
    world = Queue(**TPU).running()
    world.pod(0, 0).exits(1)
    world.until_restarted()
    before = world.sited
    world.requests.clear()
    no_profile(world)
    world.settle()
    world.step(seconds=30)
    world.sited = before
    world.settle()
    assert (world.conditions()["Admitted"], world.requests) == ("True", [])


def test_a_job_whose_spec_cannot_be_read_keeps_its_quota_while_its_attempt_goes_on() -> None:
    world = Queue(**TPU, retries={"backoff": {"initialSeconds": 600}}).running()
    unreadable(world)
    world.settle()
    assert world.conditions()["Admitted"] == "True"
    world.read = None
    world.pod(0, 0).exits(1)
    world.until_restarted()
    unreadable(world)
    world.settle()
    assert (world.status.phase, world.stored) == ("Restarting", None)


SIZES: dict[str, Any] = TPU | {"slices": 1, "acceptableSlices": [1, 2, 4]}
"""A slice has 16 chips."""


def asked(world: Queue) -> int:
    """Slices that the Workload asks for."""
    assert world.stored is not None
    return int(world.stored["spec"]["podSets"][0]["count"]) // 4


def lacks(world: Queue, chips: int) -> Queue:
    """Kueue has too little quota for the Workload."""
    words = f"insufficient unused quota for google.com/tpu in flavor v5e, {chips} more needed"
    return world.says("QuotaReserved", False, "Pending", f"couldn't assign flavors to pod set slice: {words}")


def pods_of(world: Queue, attempt: int) -> int:
    return sum(key[0] == attempt for key in world.pods)


def grants(world: Queue) -> Queue:
    """Kueue admits the Workload as it is."""
    count = 4 * asked(world)
    given = {"count": count, "resourceUsage": {"google.com/tpu": str(4 * count)}}
    return world.admits(podSetAssignments=[ADMISSION["podSetAssignments"][0] | given])


TOO_LARGE = (
    "couldn't assign flavors to pod set slice: insufficient quota for google.com/tpu in flavor v5e, previously "
    "considered podsets requests (0) + current podset request (64) > maximum capacity ({most})"
)
ROOM: dict[str, tuple[str, float, int]] = {
    "one slice is missing": ("insufficient unused quota for google.com/tpu in flavor v5e, 16 more needed", 60, 2),
    "a part of a slice is missing": (
        "insufficient unused quota for google.com/tpu in flavor v5e, 4 more needed",
        60,
        2,
    ),
    "three are missing": ("insufficient unused quota for google.com/tpu in flavor v5e, 48 more needed", 60, 1),
    "all are missing": ("insufficient unused quota for google.com/tpu in flavor v5e, 64 more needed", 60, 4),
    "less is missing in another flavor": (
        "insufficient unused quota for google.com/tpu in flavor v5e, 64 more needed, insufficient unused quota for "
        "google.com/tpu in flavor spot, 32 more needed",
        60,
        2,
    ),
    "another resource is missing": ("insufficient unused quota for cpu in flavor any, 1 more needed", 60, 2),
    "nodes of the topology are missing": ('topology "a" allows to fit only 3 out of 4 slice(s)', 60, 2),
    "it has not waited for long enough": (
        "insufficient unused quota for google.com/tpu in flavor v5e, 16 more needed",
        59,
        4,
    ),
    "it never fits": (TOO_LARGE.format(most=32), 0, 2),
    "it never fits one flavor, and waits for another": (
        f"{TOO_LARGE.format(most=32)}, insufficient unused quota for google.com/tpu in flavor spot, 16 more needed",
        0,
        4,
    ),
    "not even the smallest fits": (TOO_LARGE.format(most=8), 300, 4),
    "it preempts others": (
        "insufficient unused quota for google.com/tpu in flavor v5e, 16 more needed. Pending the preemption of 1 "
        "workload(s)",
        300,
        4,
    ),
    "its queue is stopped": ("LocalQueue tpu is inactive", 300, 4),
}


@pytest.mark.parametrize(("said", "seconds", "slices"), ROOM.values(), ids=ROOM.keys())
def test_fewer_slices_are_asked_for_without_quota_for_the_most(said: str, seconds: float, slices: int) -> None:
    world = Queue(**SIZES)
    world.settle()
    assert asked(world) == 4
    world.says("QuotaReserved", False, "Pending", said)
    world.settle()
    world.step(seconds)
    world.settle()
    assert (asked(world), world.requests) == (slices, ["create"] + ["patch"] * (slices < 4))
    if slices == 4:
        return
    world.step(600)
    assert f"{slices} of 4 slices are asked for" in world.story()[2]
    grants(world).run()
    counts = world.status.slices
    assert counts is not None
    assert (world.status.phase, counts.requested, counts.granted) == ("Running", 4, slices)
    assert len(world.pods) == 4 * slices


def test_each_smaller_number_of_slices_has_the_same_time() -> None:
    world = Queue(**SIZES)
    world.settle()
    lacks(world, 16).step(0)
    world.step(60)
    assert asked(world) == 2
    lacks(world, 16).step(59)
    assert asked(world) == 2
    world.step(1)
    assert asked(world) == 1


def test_the_time_before_a_suspension_counts_for_no_fewer_slices_where_its_workload_was_left() -> None:
    world = Queue(**SIZES)
    world.settle()
    lacks(world, 16).step(0)
    world.step(59)
    world.fields["suspend"] = True
    # Who writes the status is gone before it deletes the Workload.
    world.apply(replace(world.plan(), actions=()))
    assert world.status.phase == "Suspended"
    world.fields["suspend"] = False
    world.step(30)
    assert (world.status.phase, asked(world)) == ("Queued", 4)
    world.step(59)
    assert asked(world) == 4
    world.step(1)
    assert asked(world) == 2


def shrunk(**fields: Any) -> Queue:
    """A job that runs on two of four slices."""
    world = Queue(**SIZES, **fields)
    world.settle()
    lacks(world, 32).step(0)
    world.step(60)
    grants(world).run()
    assert (world.status.phase, asked(world)) == ("Running", 2)
    return world


KEPT: dict[str, Quota] = {
    "nothing is unused, or others wait": {},
    "less than a slice is unused": {"v5e": {"google.com/tpu": Decimal(31)}},
    "another flavor has it": {"v5p": {"google.com/tpu": Decimal(64)}},
    "it is of another resource": {"v5e": {"cpu": Decimal(64)}},
}


@pytest.mark.parametrize("unused", KEPT.values(), ids=KEPT.keys())
def test_a_job_with_fewer_slices_keeps_its_quota_where_there_is_none_for_more(unused: Quota) -> None:
    world = shrunk()
    world.unused = unused
    world.requests.clear()
    for attempt in range(1, 4):
        world.pod(0, 0).exits(1)
        world.until_restarted()
        world.run()
        assert (world.status.phase, world.status.attempt, pods_of(world, attempt)) == ("Running", attempt, 8)
    assert world.requests == []


def test_the_attempt_after_one_with_fewer_slices_asks_for_the_most_by_a_new_workload_where_there_is_quota() -> None:
    world = shrunk()
    world.requests.clear()
    world.unused = {"v5e": {"google.com/tpu": Decimal(32)}}
    world.pod(0, 0).exits(1)
    world.settle()
    assert world.requests == [], "the pods still run"
    world.obey()
    world.settle()
    assert (world.requests, asked(world)) == (["delete", "patch", "create"], 4)
    assert (world.status.phase, len(world.status.attempts)) == ("Queued", 1)
    grants(world).run()
    assert (world.status.phase, world.status.attempt, pods_of(world, 1)) == ("Running", 1, 16)


def restarted(world: Queue) -> list[str]:
    """The attempt ends; what is asked of Kueue until the next one may begin."""
    world.requests.clear()
    world.pod(0, 0).exits(1)
    world.settle()
    world.obey()
    world.settle()
    return world.requests


def test_a_job_that_gave_its_quota_back_takes_as_much_as_before_at_once_and_keeps_it_for_an_hour() -> None:
    world = shrunk()
    world.unused = {"v5e": {"google.com/tpu": Decimal(32)}}
    assert restarted(world) == ["delete", "patch", "create"]
    world.requests.clear()
    lacks(world, 32).settle()
    assert (world.requests, asked(world)) == (["patch"], 2)
    grants(world).run()
    for attempt in (1, 2):
        assert (world.status.phase, world.status.attempt, pods_of(world, attempt)) == ("Running", attempt, 8)
        assert restarted(world) == []
        world.run()
    world.step(3600)
    assert restarted(world) == ["delete", "patch", "create"]


@pytest.mark.parametrize("reason", ["Preempted", "ClusterQueueStopped"])
def test_an_evicted_job_that_gave_its_next_quota_back_takes_as_much_as_before_at_once(reason: str) -> None:
    world = shrunk()
    world.unused = {"v5e": {"google.com/tpu": Decimal(32)}}
    world.evicts(reason)
    world.settle()
    world.obey()
    # Kueue admits the Workload before it is asked for more.
    world.step(0)
    world.requests.clear()
    grants(world).settle()
    assert (world.requests, asked(world)) == (["delete", "patch", "create"], 4)
    lacks(world, 32).settle()
    assert asked(world) == 2


def test_a_job_that_gave_its_quota_back_waits_before_it_takes_less_than_before() -> None:
    world = shrunk()
    world.unused = {"v5e": {"google.com/tpu": Decimal(32)}}
    restarted(world)
    lacks(world, 48).settle()
    assert asked(world) == 4
    world.step(60)
    assert asked(world) == 1


def test_a_job_that_was_evicted_from_the_more_it_got_waits_as_any() -> None:
    world = shrunk()
    world.unused = {"v5e": {"google.com/tpu": Decimal(32)}}
    restarted(world)
    grants(world).evicts("Preempted")
    world.settle()
    lacks(world, 32).settle()
    assert asked(world) == 4
    world.step(60)
    assert asked(world) == 2


def placed_by_kueue(world: Queue) -> None:
    assert world.stored is not None
    world.stored["spec"]["podSets"][0]["topologyRequest"] = {"required": "pool"}


def checked(world: Queue) -> None:
    assert world.stored is not None
    world.stored["status"]["admissionChecks"] = [{"name": "nodes", "state": "Ready"}]


@pytest.mark.parametrize("trouble", [placed_by_kueue, checked], ids=lambda one: one.__name__)
def test_a_job_with_fewer_slices_keeps_its_quota_where_it_may_get_none_again(trouble: Callable[[Queue], None]) -> None:
    world = shrunk()
    world.topologies = None
    world.unused = {"v5e": {"google.com/tpu": Decimal(32)}}
    trouble(world)
    assert restarted(world) == []


def test_a_preempted_job_with_fewer_slices_waits_for_more_as_long_as_any() -> None:
    world = shrunk()
    world.evicts("Preempted")
    world.settle()
    world.obey()
    world.settle()
    assert asked(world) == 4
    lacks(world, 32).step(59)
    assert asked(world) == 4
    world.step(1)
    assert asked(world) == 2


def test_an_evicted_job_with_fewer_slices_asks_for_the_most_again_in_the_same_workload() -> None:
    world = shrunk()
    world.evicts("Preempted")
    world.settle()
    world.requests.clear()
    world.obey()
    world.settle()
    assert (world.requests, asked(world), world.status.phase) == (["patch", "patch"], 4, "Queued")


def test_an_admission_that_was_decided_before_more_slices_were_asked_for_has_no_pods() -> None:
    world = shrunk()
    world.evicts("Preempted")
    world.settle()
    world.obey()
    world.settle()
    world.requests.clear()
    world.admits(podSetAssignments=[ADMISSION["podSetAssignments"][0] | {"count": 8}])
    world.settle()
    assert (world.requests, world.pods, asked(world)) == (["delete", "patch", "create"], {}, 4)


def test_an_admission_that_was_decided_before_fewer_slices_were_asked_for_is_for_those() -> None:
    world = Queue(**SIZES)
    world.settle()
    lacks(world, 32).step(0)
    world.step(60)
    world.admits(podSetAssignments=[ADMISSION["podSetAssignments"][0] | {"count": 16}])
    world.run()
    assert (world.status.phase, len(world.pods)) == ("Running", 8)


def test_a_resumed_job_asks_for_the_most_again() -> None:
    world = shrunk()
    world.fields["suspend"] = True
    world.settle()
    world.obey()
    world.settle()
    world.fields["suspend"] = False
    world.settle()
    assert asked(world) == 4


def test_with_a_topology_as_many_groups_are_asked_for_as_slices() -> None:
    world = Queue(**SIZES)
    world.topologies = frozenset({"google.com/tpu", "nvidia.com/gpu"})
    world.settle()
    lacks(world, 32).step(0)
    world.step(60)
    assert world.stored is not None
    assert world.stored["spec"]["podSets"][0]["topologyRequest"]["subGroupCount"] == 2


BOOST, BOOST_TIME = "kueue.x-k8s.io/priority-boost", "slipway.dev/priority-boost-time"
PRINTS = TPU | {"progress": {"pattern": r"(?P<step>[0-9]+)|saved (?P<checkpoint>[0-9]+)"}}


def boost_of(world: Queue) -> str | None:
    assert world.stored is not None
    return (world.stored["metadata"].get("annotations") or {}).get(BOOST)


def saves(world: Queue) -> None:
    """The job prints that a checkpoint is saved."""
    number = world.status.attempt
    assert number is not None
    shown = ProgressState(attempt=number, step=1, checkpoint=1, checkpoint_time=world.now)
    world.printed = Printed(number, True, None, shown)
    world.written = None
    world.settle()


def saving(**fields: Any) -> Queue:
    """A job that has just saved a checkpoint, in the queue of a Kueue that reads boosts."""
    world = Queue(**PRINTS, **fields)
    world.boosts = True
    world.running()
    saves(world)
    world.requests.clear()
    return world


AGES = {0: None, 59: None, 60: "1", 119: "1", 120: "2", 240: "3", 479: "3", 480: "4", 7679: "7", 7680: "8", 10**6: "8"}


@pytest.mark.parametrize(("seconds", "boost"), AGES.items())
def test_the_longer_ago_a_checkpoint_is_the_later_a_job_is_preempted(seconds: int, boost: str | None) -> None:
    world = saving()
    world.step(seconds)
    assert (boost_of(world), len(world.requests)) == (boost, int(boost is not None))


def test_the_boost_is_written_when_it_changes_and_at_most_once_a_minute() -> None:
    world, told = saving(), []
    for second in range(0, 1000, 10):
        if second in (150, 300, 310, 330, 400):
            saves(world)
        before = len(world.requests)
        world.step(10)
        told += [second] * (len(world.requests) - before)
    assert all(late - soon >= 60 for soon, late in pairwise(told))
    assert boost_of(world) == "4"


def test_a_job_is_looked_at_when_its_boost_changes() -> None:
    world = saving()
    assert world.plan().wake_at == world.now + timedelta(minutes=1)
    world.step(60)
    assert world.plan().wake_at == world.now + timedelta(minutes=1)


def without_gate(world: Queue) -> None:
    world.boosts = False


def without_checkpoint(world: Queue) -> None:
    world.printed, world.written = Printed(0, True, None, ProgressState(attempt=0, step=1)), None
    world.settle()


def boosted_by_another(world: Queue) -> None:
    assert world.stored is not None
    world.stored["metadata"]["annotations"] = {BOOST: "-5"}


def boosted_at_no_time(world: Queue) -> None:
    assert world.stored is not None
    world.stored["metadata"]["annotations"] = {BOOST: "-5", BOOST_TIME: "yesterday"}


@pytest.mark.parametrize("changed", [without_gate, without_checkpoint, boosted_by_another, boosted_at_no_time])
def test_no_boost_is_written_that_nobody_reads_or_that_is_anothers(changed: Callable[[Queue], None]) -> None:
    world = saving()
    changed(world)
    before = boost_of(world)
    world.step(4000)
    assert (world.requests, boost_of(world)) == ([], before)


def test_an_evicted_job_has_no_boost_before_its_quota_is_given_back() -> None:
    world = saving()
    world.step(500)
    assert boost_of(world) == "4"
    world.evicts("Preempted")
    world.settle()
    assert boost_of(world) == "4", "its pods still run"
    world.requests.clear()
    world.obey()
    while boost_of(world) is not None:
        assert world.conditions()["QuotaReserved"] == "True"
        world.step()
    world.settle()
    assert (world.requests, world.conditions()["QuotaReserved"]) == (["patch", "patch"], "False")


def test_the_next_attempt_has_no_boost_before_its_first_checkpoint() -> None:
    world = saving(retries={"backoff": {"initialSeconds": 0}})
    world.step(500)
    world.pod(0, 0).exits(1)
    world.until_restarted()
    world.run()
    world.step(4000)
    assert boost_of(world) is None


def test_while_kueues_webhooks_do_not_answer_the_job_says_so_and_asks_ever_less_often() -> None:
    world = Queue(**TPU)
    world.rejection = Rejection('failed calling webhook "mworkload.kb.io"', START, WEBHOOK_UNAVAILABLE)
    decision = world.step()
    assert not actions_of(decision, CreateWorkload)
    assert decision.wake_at == START + timedelta(seconds=2)
    assert world.story() == ("Queued", WEBHOOK_UNAVAILABLE, 'failed calling webhook "mworkload.kb.io"')
    assert actions_of(world.step(2), CreateWorkload)


@pytest.mark.parametrize("queue", [None, "tpu"], ids=["without the label", "with the label"])
def test_pods_that_kueue_gates_although_it_should_not_are_recognised(queue: str | None) -> None:
    world = Queue(**TPU)
    world.queue = queue
    world.settle()
    if queue is not None:
        world.admits().settle()
    for handle in world.all_pods():
        gated = msgspec.convert({"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}, type(handle.now.spec))
        world.pods[handle.key] = msgspec.structs.replace(handle.now, spec=gated)
        handle.has("PodScheduled", "SchedulingGated", status="False", message="Scheduling is blocked")
    world.step(10)
    assert world.story()[:2] == ("Queued", "GatedByKueue")
    assert "SliceJob.v1alpha1.slipway.dev" in world.story()[2]
    assert "slicejobs.slipway.dev" in world.story()[2]


def test_the_time_in_the_queue_is_accounted_for() -> None:
    world = Queue(**TPU)
    world.settle()
    world.step(20)
    world.admits()
    world.run()
    world.step(100)
    world.evicts("Preempted")
    world.settle()
    world.step(3)
    world.obey()
    world.settle()
    world.step(40)
    world.admits()
    world.run()
    world.step(50)
    found = sums(account_at(world.job.created, world.status, world.now).seconds)
    assert found[("queued",)] == 20
    assert found[("lost_to_preemption", "fence")] == 3
    assert found[("lost_to_preemption", "queue")] == 40
    assert sum(found.values()) == (world.now - world.job.created).total_seconds()


@given(st.lists(st.floats(0, 100), min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_the_sums_cover_the_time_in_the_queue_and_never_shrink(steps: list[float], random: Any) -> None:
    world = Queue(**TPU, retries={"maxFailures": 5, "maxPreemptions": 5})
    before: Sums = {}
    for seconds in steps:
        handles = [one for one in world.all_pods() if not one.now.ended]
        happen: list[Callable[[], Any]] = [world.obey, lambda: world.fields.update(suspend=random.random() < 0.5)]
        if handles:
            happen += [lambda one=one: one.runs() for one in handles] + [lambda one=handles[0]: one.exits(1)]
        if world.stored is not None:
            happen += [world.admits, lambda: world.evicts("Preempted"), lambda: world.evicts("AdmissionCheck")]
            happen.append(world.deleted)
        random.choice(happen)()
        world.step(seconds)
        known = world.status.ledger
        assert known is not None
        found = sums(known.seconds)
        assert sum(found.values()) == pytest.approx((known.until - world.job.created).total_seconds(), abs=0.01)
        assert all(found.get(state, 0.0) >= passed for state, passed in before.items())
        before = found


def test_a_plan_is_the_same_twice() -> None:
    world = Queue(**TPU).running()
    world.evicts("Preempted")
    now: datetime = world.now
    assert plan(world.snapshot, now) == plan(world.snapshot, now)
    assert spec(**world.fields).slices == 2


NODE_AFFINITY = {
    "requiredDuringSchedulingIgnoredDuringExecution": {
        "nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]
    }
}
OF_A_TEMPLATE: dict[str, Any] = {
    "overhead": {"cpu": "1"},
    "runtimeClassName": "gvisor",
    "resources": {"requests": {"memory": "8Gi"}},
    "resourceClaims": [{"name": "nic", "resourceClaimTemplateName": "nics"}],
}
"""Fields of a pod by which Kueue counts what it needs, or finds the flavors that it can have."""


def test_1_kueue_is_told_all_by_which_it_counts_and_chooses_flavors() -> None:
    side = {"name": "side", "image": "side:1", "restartPolicy": "Always", "resources": {"requests": {"cpu": "1"}}}
    more = {"affinity": {"nodeAffinity": NODE_AFFINITY}, "initContainers": [side]}
    tolerated = {"key": "team", "operator": "Exists"}
    world = Queue(**TPU, tolerations=[tolerated], podTemplate={"spec": OF_A_TEMPLATE | more})
    world.settle()
    assert world.stored is not None
    told = world.stored["spec"]["podSets"][0]["template"]["spec"]
    assert {field: told[field] for field in OF_A_TEMPLATE} == OF_A_TEMPLATE
    assert tolerated in told["tolerations"]
    assert told["affinity"] == {"nodeAffinity": NODE_AFFINITY}
    assert [one for one in told["initContainers"] if one["name"] == "side"] == [side]


def checked(world: Queue, **update: Any) -> None:
    """An admission check is ready, and says something of the pods."""
    assert world.stored is not None
    world.stored["status"]["admissionChecks"] = [{"name": "c", "state": "Ready", "podSetUpdates": [update]}]


def test_3_what_a_check_says_of_one_pod_set_is_not_for_another() -> None:
    world = Queue(**TPU, ray={"entrypoint": "python a.py", "head": {"resources": {"limits": {"cpu": "2"}}}})
    world.settle()
    checked(world, name="head", labels={"team": "a"})
    flavors = {"head": {"cpu": "v5p"}, "slice": {"google.com/tpu": "v5e"}}
    world.admits(podSetAssignments=[{"name": name, "flavors": flavor} for name, flavor in flavors.items()])
    [pods] = actions_of(world.step(), CreatePods)
    assert (pods.head.labels, pods.workers.labels) == ({"team": "a"}, {})


@pytest.mark.parametrize(
    ("update", "said"),
    [
        ({"labels": {"slipway.dev/job-uid": "another"}}, "labels slipway.dev/job-uid: the queue asks for 'another'"),
        ({"annotations": {"team": "b"}}, "annotations team: the queue asks for 'b', and it is 'a'"),
    ],
    ids=["a label of Slipway's", "an annotation of the job"],
)
def test_3_a_check_replaces_nothing_that_the_pods_have(update: dict[str, Any], said: str) -> None:
    world = Queue(**TPU, podTemplate={"metadata": {"annotations": {"team": "a"}}})
    world.settle()
    checked(world, name="slice", **update)
    world.admitted()
    world.step(10)
    assert world.story()[:2] == ("Queued", "AdmissionNotUsable")
    assert said in world.story()[2]
    assert not world.pods


def has_quota(world: Queue) -> bool:
    return world.stored is not None and "admission" in world.stored["status"]


def test_7_quota_stays_while_the_kubelet_may_run_a_pod_that_was_deleted_by_others() -> None:
    world = Queue(**TPU).running()
    world.evicts("Preempted")
    world.settle()
    world.pod(0, 0).ends_as("Failed").has("DisruptionTarget", "DeletionByPodGC").vanishes(seen=True)
    world.obey()
    world.settle()
    assert has_quota(world)
    world.until_orphans_terminated()
    world.settle()
    assert not has_quota(world)


def test_7_quota_stays_while_a_pod_may_still_be_created() -> None:
    world = Queue(**TPU).running()
    world.evicts("Preempted")
    world.settle()
    world.creates_end = world.now + timedelta(seconds=60)
    world.obey()
    world.settle()
    assert has_quota(world)
    world.step(61)
    world.settle()
    assert not has_quota(world)


@pytest.mark.parametrize("reason", ["Preempted", "AdmissionCheck"])
def test_8_a_job_that_is_admitted_again_begins_without_delay(reason: str) -> None:
    world = Queue(**TPU).running()
    world.evicts(reason)
    world.settle()
    world.obey()
    world.settle()
    world.admits()
    world.settle()
    assert (world.status.attempt, len(world.pods)) == (1, 8)


def test_9_the_workload_has_finished_before_its_finalizer_goes() -> None:
    world = Queue(**TPU).running()
    for handle in world.all_pods():
        handle.exits(0)
    sent: list[PatchWorkload] = []
    for _ in range(10):
        decision = world.plan()
        sent += actions_of(decision, PatchWorkload)
        world.apply(decision)
    assert [one.status for one in sent] == [True, False]


def test_a_workload_that_somebody_calls_finished_ends_the_attempt() -> None:
    world = Queue(**TPU).running()
    world.says("Finished", True, "Succeeded", "by hand")
    world.settle()
    assert (world.attempt.reason, live(world)) == ("StoppedByQueue", 0)


def by_profile(world: Queue, number: int, **defaults: Any) -> None:
    """The SliceJobProfile of the namespace has these defaults, as its version of that number."""
    profile = Profile("default", number, ProfileSpec.model_validate({"defaults": defaults}))
    world.sited = lambda given, _: site_of(given, NO_CHART, Choice(profile))


def asked_of_queue(world: Queue) -> tuple[int, Any]:
    """How many pods the Workload asks for, and what each requests."""
    assert world.stored is not None
    [pods] = world.stored["spec"]["podSets"]
    [container] = pods["template"]["spec"]["containers"]
    return pods["count"], container.get("resources", {}).get("requests")


CPU4, CPU64 = ({"resources": {"requests": {"cpu": cpu}}} for cpu in ("4", "64"))


def test_a_job_that_waits_asks_for_other_pods_in_place_when_its_defaults_change() -> None:
    world = Queue(hosts=4)
    by_profile(world, 1, **CPU4)
    world.settle()
    by_profile(world, 2, **CPU64)
    world.settle()
    assert asked_of_queue(world) == (4, {"cpu": "64"})
    assert world.requests == ["create", "patch"]


@pytest.mark.parametrize(("before", "after"), [("v5litepod-16", "v5litepod-32"), ("v5litepod-32", "v5litepod-16")])
def test_defaults_with_other_slices_change_the_pods_and_not_the_number_of_slices(before: str, after: str) -> None:
    world = Queue(slices=2, hosts=None)
    world.flavors = {"any": {}}
    by_profile(world, 1, accelerator={"type": before})
    world.settle()
    by_profile(world, 2, accelerator={"type": after})
    world.settle()
    count, _ = asked_of_queue(world)
    given = [{"name": "slice", "flavors": {"google.com/tpu": "any"}, "count": count}]
    world.admits(podSetAssignments=given)
    world.settle()
    world.run()
    assert world.status.slices is not None
    assert (world.status.slices.granted, len(world.pods)) == (2, count)


def test_a_job_that_runs_keeps_its_quota_until_an_attempt_with_other_defaults_is_due() -> None:
    world = Queue(hosts=4)
    by_profile(world, 1, **CPU4)
    world.settle()
    given = {"podSetAssignments": [{"name": "slice", "flavors": {}, "count": 4}]}
    world.admits(**given)
    world.settle()
    world.run()
    by_profile(world, 2, **CPU64)
    world.settle()
    assert "delete" not in world.requests
    world.pod(0, 0).exits(1)
    world.until_restarted()
    world.settle()
    assert (world.status.phase, asked_of_queue(world)) == (Phase.QUEUED, (4, {"cpu": "64"}))
    world.admits(**given)
    world.settle()
    assert (world.status.phase, world.status.attempt) == (Phase.STARTING, 1)


@pytest.mark.parametrize(
    "changed",
    [{"registryMirrors": {"docker.io": "mirror.example.com"}}, {"env": [{"name": "A", "value": "1"}]}],
    ids=["the image", "variables"],
)
def test_defaults_that_take_no_more_of_a_quota_cost_no_request(changed: dict[str, Any]) -> None:
    world = Queue(hosts=4)
    by_profile(world, 1, **CPU4)
    world.settle()
    by_profile(world, 2, **CPU4, **changed)
    world.settle()
    assert world.requests == ["create"]


def test_a_job_that_waits_leaves_its_queue_for_a_label_that_is_no_name_of_one() -> None:
    world = Queue(**TPU)
    world.settle()
    lacks(world, 16).step(seconds=10)
    world.queue = "TPU_Large"
    world.settle()
    assert (world.status.phase, world.stored) == ("Invalid", None)


def test_a_job_that_asked_for_fewer_slices_asks_another_queue_for_all() -> None:
    world = Queue(**SIZES)
    world.settle()
    for _ in range(2):
        lacks(world, 16).step(seconds=60)
        world.step()
    assert asked(world) == 1
    world.queue = "large"
    world.settle()
    assert world.stored is not None
    assert (asked(world), world.stored["spec"]["queueName"]) == (4, "large")


@pytest.mark.parametrize(
    "said",
    [
        "insufficient unused quota for cpu in flavor any, 1 more needed",
        "insufficient quota for cpu in flavor any, previously considered podsets requests (0) + current podset request "
        "(1050m) > maximum capacity (1)",
    ],
    ids=["it lacks CPUs now", "it never fits"],
)
def test_no_slices_are_given_up_for_the_ray_head(said: str) -> None:
    world = Queue(**SIZES, ray={"entrypoint": "python train.py"})
    world.settle()
    for _ in range(3):
        world.says("QuotaReserved", False, "Pending", f"couldn't assign flavors to pod set head: {said}")
        world.step(seconds=60)
        world.step()
    assert world.stored is not None
    assert {one["name"]: one["count"] for one in world.stored["spec"]["podSets"]} == {"head": 1, "slice": 16}


def test_kueues_words_are_one_line_without_secrets() -> None:
    world = Queue(**TPU)
    world.settle()
    world.says("QuotaReserved", False, "Pending", "no room\nFAKE LINE\x1b[2J token=abcdef123456")
    world.step(seconds=10)
    message = world.story()[2]
    assert message.startswith("no room")
    assert not {"\n", "\x1b"} & set(message)
    assert "abcdef123456" not in message


@pytest.mark.parametrize("count", [0, 4, 12, 24], ids=lambda count: f"{count} pods of 8 a slice")
def test_a_workload_that_somebody_edited_to_another_number_of_pods_is_asked_for_anew(count: int) -> None:
    job = Queue(slices=1, hosts=8, acceptableSlices=[1, 2])
    job.settle()
    given = {"name": "slice", "flavors": {"cpu": "v5e"}, "resourceUsage": {"cpu": "8"}, "count": 16}
    job.admits(podSetAssignments=[given])
    job.settle()
    job.run()
    assert job.stored is not None
    job.stored["spec"]["podSets"][0]["count"] = count
    job.unused = {"v5e": {"cpu": Decimal(1000)}}
    job.now += timedelta(hours=3)
    job.settle()
    assert job.status.phase is Phase.RUNNING
    job.pod(0, 0).exits(1)
    job.until_restarted()
    job.now += timedelta(minutes=1)
    job.settle()
    assert job.status.phase is Phase.QUEUED
    assert job.stored is not None
    assert job.stored["spec"]["podSets"][0]["count"] == 16

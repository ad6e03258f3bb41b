"""What is said of GPU and CPU jobs whose nodes are full, and which change is said to help."""

import random
from dataclasses import dataclass, field, replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest

from slipway.api import names
from slipway.api.places import FIRST
from slipway.api.resources import amount
from slipway.core.explain.preemption import ORDINARY, Standing
from slipway.core.explain.remedies import Remedy
from slipway.core.explain.scheduler import MAX_VISITS, Answer, View, explain_unscheduled
from slipway.core.explain.shared_nodes import _quantity
from slipway.core.manifests.placement import Needs
from slipway.core.model.job import Job, Settings
from slipway.core.model.nodes import Node, NodeMetadata, NodeSpec, NodeStatus, Taint
from slipway.core.model.pod_parts import PodCondition
from slipway.core.model.tenants import Tenant, Tenants, Use, Visitors
from slipway.core.validation.acceptance import pod_factory
from tests.core.build import START, World

SETTINGS = Settings(whole_cluster=True)
GPU = "nvidia.com/gpu"
EVAL = Tenant("SliceJob", "team-b", "eval", "other")
LOW = Tenant("SliceJob", "team-b", "low", "other-2", 10, "low")
NOTEBOOK = Tenant("Pod", "ml", "notebook", priority=1000)
BATCH = Tenant("Pod", "ml", "batch")
DAEMON = Tenant("Pod", "kube-system", "agent", priority=2_000_001_000)
MINE = Tenant("SliceJob", "ml", "train", World().job.uid)


@dataclass
class Nodes(Tenants):
    """The nodes of a cluster in a test, and what the pods on them request."""

    nodes: dict[str, Node] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__({})

    def node(self, name: str, *uses: tuple[Tenant, dict[str, str]], gpus: int = 0, **more: Any) -> "Nodes":
        """Add a node; `more` are `cpu`, `labels`, `taints`, `cordoned`, `unknown` and `chips`."""
        size = {"cpu": more.get("cpu", "8"), "memory": "32Gi", "pods": more.get("pods", "110")}
        size |= {GPU: str(gpus)} if gpus else {}
        size |= {names.TPU_RESOURCE: "4"} if "chips" in more else {}
        ready = PodCondition("Ready", "True", "", "", START)
        self.nodes[name] = Node(
            NodeMetadata(name, uid=f"uid-{name}", labels=more.get("labels", {})),
            NodeSpec(more.get("taints", ()), more.get("cordoned", False)),
            NodeStatus((ready,), size),
        )
        sizes = [(tenant, {key: amount(value) or Decimal(0) for key, value in asked.items()}) for tenant, asked in uses]
        held = tuple(Use(tenant, one | {"pods": Decimal(1)}) for tenant, one in sizes)
        self.visitors = {**self.visitors, name: Visitors(START, (), held, more.get("unknown", False))}
        return self


def gpus(count: int) -> dict[str, str]:
    return {GPU: str(count)}


def cpu(count: str) -> dict[str, str]:
    return {"cpu": count}


def asking(count: int = 2, **fields: Any) -> dict[str, Any]:
    return {"accelerator": {"gpu": {"vendor": "nvidia", "count": count}}} | fields


def on_cpus(count: str, **fields: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": count}}} | fields


def answer(
    nodes: Nodes, job: Job, waiting: int = 1, wanted: int | None = None, standing: Standing = ORDINARY,
    settings: Settings = SETTINGS, refused: int = 0,
) -> Answer:  # fmt: skip
    at = START + timedelta(seconds=refused)
    view = View(job, settings, nodes.nodes.values(), nodes, 1, at, at, standing, waiting, wanted or waiting)
    return explain_unscheduled(view)


TAINTED = (Taint("team", "NoSchedule", None, "b"),)
TABLE: dict[str, tuple[Nodes, dict[str, Any], int, str, str, str]] = {
    "GPUs held by a job": (
        Nodes().node("a", (EVAL, gpus(3)), gpus=4),
        asking(),
        1,
        "NodesHeld",
        "1 of 1 pods cannot be scheduled: a has 1 of 4 nvidia.com/gpu left (team-b/eval has 3); a pod requests 2 "
        "nvidia.com/gpu",
        "wait for, or free, team-b/eval on a",
    ),
    "GPUs held by a job and by pods of others": (
        Nodes().node("a", (EVAL, gpus(1)), (EVAL, gpus(1)), (BATCH, gpus(1)), (DAEMON, cpu("1")), gpus=4),
        asking(),
        1,
        "NodesHeld",
        "a has 1 of 4 nvidia.com/gpu left (team-b/eval has 2, pod ml/batch has 1)",
        "wait for, or free, pod ml/batch on a",
    ),
    "the fewest tenants are named": (
        Nodes().node("a", (EVAL, gpus(4)), gpus=4).node("b", (BATCH, gpus(1)), (NOTEBOOK, gpus(3)), gpus=4),
        asking(4),
        1,
        "NodesHeld",
        "b has 0 of 4 nvidia.com/gpu left (pod ml/notebook (priority 1000) has 3, pod ml/batch has 1)",
        "wait for, or free, team-b/eval on a",
    ),
    "CPU": (
        Nodes().node("a", (BATCH, cpu("6500m")), (DAEMON, cpu("500m"))),
        on_cpus("2"),
        1,
        "NodesHeld",
        "a has 1 of 8 cpu left (pod ml/batch has 6.5, pod kube-system/agent (priority 2000001000) has 0.5)",
        "wait for, or free, pod ml/batch on a",
    ),
    "memory": (
        Nodes().node("a", (EVAL, {"memory": "20Gi"})),
        {"resources": {"requests": {"memory": "16Gi"}}},
        1,
        "NodesHeld",
        "a has 12Gi of 32Gi memory left (team-b/eval has 20Gi); a pod requests 16Gi memory",
        "wait for, or free, team-b/eval on a",
    ),
    "places for pods": (
        Nodes().node("a", (BATCH, {}), pods="1"),
        {},
        1,
        "NodesHeld",
        "a has 0 of 1 pods left (pod ml/batch has 1)",
        "wait for, or free, pod ml/batch on a",
    ),
    "a lower priority than that of those who have them": (
        Nodes().node("a", (NOTEBOOK, gpus(4)), gpus=4),
        asking(),
        1,
        "PriorityTooLow",
        "this job's priority is 0, and the scheduler preempts only pods of a lower one",
        "recreate the job with a priorityClassName whose value is above 1000: the scheduler may then preempt pod "
        "ml/notebook",
    ),
    "Kubernetes' own pods stay": (
        Nodes().node("a", (DAEMON, cpu("7"))), on_cpus("2"), 1, "PriorityTooLow", "pod kube-system/agent", "",
    ),
    "a label": (
        Nodes().node("a", (EVAL, gpus(4)), gpus=4, labels={"team": "ml"}).node("b", gpus=4),
        asking(nodeSelector={"team": "ml"}),
        1,
        "NodesHeld",
        "a has 0 of 4 nvidia.com/gpu left",
        "remove team from the nodeSelector: b would fit",
    ),
    "a label that no node has": (
        Nodes().node("a", gpus=4),
        asking(nodeSelector={"team": "ml"}),
        1,
        "SelectorMatchesNothing",
        "no node has team=ml",
        "remove team from the nodeSelector: a would fit",
    ),
    "a label of a node that is full, too": (
        Nodes().node("a", (EVAL, gpus(4)), gpus=4),
        asking(nodeSelector={"team": "ml"}),
        1,
        "SelectorMatchesNothing",
        "no node has team=ml",
        "",
    ),
    "the node that has the label is cordoned": (
        Nodes().node("a", gpus=4).node("b", gpus=4, labels={"team": "ml"}, cordoned=True),
        asking(nodeSelector={"team": "ml"}),
        1,
        "NodesCordoned",
        "b waits for its node b, which is cordoned",
        "remove team from the nodeSelector: a would fit",
    ),
    "labels that no node has together": (
        Nodes().node("a", gpus=4, labels={"team": "ml"}).node("b", gpus=4, labels={"disk": "ssd"}),
        asking(nodeSelector={"team": "ml", "disk": "ssd"}),
        1,
        "SelectorMatchesNothing",
        "no node has disk=ssd and team=ml",
        "remove disk from the nodeSelector: a would fit",
    ),
    "nodes that have room for some of the pods": (
        Nodes().node("a", (EVAL, gpus(2)), gpus=4).node("b", (EVAL, gpus(2)), gpus=4),
        asking(),
        3,
        "NodesHeld",
        "the nodes that suit it have room for 2 of them",
        "wait for, or free, team-b/eval on a and b",
    ),
    "the model is no selector": (
        Nodes().node("a", gpus=4, labels={"cloud.google.com/gke-accelerator": "nvidia-l4"}),
        {"accelerator": {"gpu": {"vendor": "nvidia", "count": 1, "model": "nvidia-h100-80gb"}}},
        1,
        "SelectorMatchesNothing",
        "no node has cloud.google.com/gke-accelerator=nvidia-h100-80gb",
        "",
    ),
    "a taint": (
        Nodes().node("a", (EVAL, cpu("8"))).node("b", taints=TAINTED),
        on_cpus("2"),
        1,
        "NodesHeld",
        "a has 0 of 8 cpu left (team-b/eval has 8)",
        "tolerate the taint team: b would fit",
    ),
    "the control plane is not for jobs": (
        Nodes().node("a", taints=(Taint("node-role.kubernetes.io/control-plane", "NoSchedule"),)),
        on_cpus("2"),
        1,
        "NodesTainted",
        "a has the taint node-role.kubernetes.io/control-plane",
        "",
    ),
    "TPU nodes are not for CPU jobs": (
        Nodes().node("a", (EVAL, cpu("8"))).node("b", taints=(Taint(names.TPU_RESOURCE, "NoSchedule"),), chips=4),
        on_cpus("2"),
        1,
        "NodesHeld",
        "a has 0 of 8 cpu left",
        "wait for, or free, team-b/eval on a",
    ),
    "a cordoned node": (
        Nodes().node("a", cordoned=True), on_cpus("2"), 1, "NodesCordoned", "a waits for its node a",
        "uncordon a (kubectl uncordon)",
    ),
    "some of the pods fit": (
        Nodes().node("a", gpus=4).node("b", (EVAL, gpus(4)), gpus=4),
        asking(hosts=4),
        4,
        "NodesHeld",
        "4 of 4 pods cannot be scheduled: b has 0 of 4 nvidia.com/gpu left (team-b/eval has 4)",
        "wait for, or free, team-b/eval on b",
    ),
    "the job itself has the rest": (
        Nodes().node("a", (MINE, gpus(2)), (MINE, gpus(2)), gpus=4).node("b", (EVAL, gpus(2)), gpus=3),
        asking(hosts=3),
        1,
        "NodesHeld",
        "b has 1 of 3 nvidia.com/gpu left (team-b/eval has 2)",
        "wait for, or free, team-b/eval on b",
    ),
    "more pods than the nodes hold when they are empty": (
        Nodes().node("a", (MINE, gpus(2)), (MINE, gpus(2)), gpus=4),
        asking(hosts=3),
        1,
        "TooFewNodes",
        "the only node that suits it has room for 2 of its pods even without the pods of others",
        "",
    ),
    "a node for each host": (
        Nodes().node("a", (MINE, {})).node("b", (MINE, {})),
        {"hosts": 3, "oneHostPerNode": True},
        1,
        "TooFewNodes",
        "the 2 nodes that suit it have room for 2 of its pods even without the pods of others, one for each node",
        "",
    ),
    "a node for each host, and others have one of them": (
        Nodes().node("a", (MINE, cpu("2"))).node("b", (EVAL, cpu("8"))),
        on_cpus("2", hosts=2, oneHostPerNode=True),
        1,
        "NodesHeld",
        "a has a pod of this job, and each has a node to itself; b has 0 of 8 cpu left",
        "wait for, or free, team-b/eval on b",
    ),
}  # fmt: skip


def test_a_job_that_asks_for_next_to_nothing_is_told_who_has_the_rest() -> None:
    nodes = Nodes().node("a", (EVAL, gpus(2)), gpus=2)
    found = answer(nodes, World(**asking(2, resources={"requests": {"cpu": "1e-30"}})).job).found
    assert found is not None
    assert "a has 0 of 2 nvidia.com/gpu left (team-b/eval has 2)" in found.message


@pytest.mark.parametrize(("nodes", "fields", "waiting", "reason", "words", "step"), TABLE.values(), ids=TABLE)
def test_a_job_that_shares_nodes_says_who_has_them_and_what_would_help(
    nodes: Nodes, fields: dict[str, Any], waiting: int, reason: str, words: str, step: str
) -> None:
    found = answer(nodes, World(**fields).job, waiting, World(**fields).job.spec.hosts).found  # type: ignore[union-attr]
    assert found is not None
    assert found.reason == reason
    assert words in found.message
    assert found.next_step == step or (step and found.next_step.startswith(step)), found.next_step


FULL = Nodes().node("a", (EVAL, gpus(3)), gpus=4)
SILENT: dict[str, tuple[Nodes, dict[str, Any]]] = {
    "other namespaces are not seen": (FULL, {"settings": Settings()}),
    "the scheduler has no node for a Ray head, too": (FULL, {"waiting": 0}),
    "the pods of a node could not be read": (Nodes().node("a", (EVAL, gpus(3)), gpus=4, unknown=True), {}),
    "more nodes than are read for a sentence": (
        Nodes({f"n{one}": msgspec.structs.replace(FULL.nodes["a"], metadata=NodeMetadata(f"n{one}"))
               for one in range(MAX_VISITS + 1)}), {},
    ),
    "there is room": (Nodes().node("a", gpus=4), {}),
}  # fmt: skip


@pytest.mark.parametrize(("nodes", "more"), SILENT.values(), ids=SILENT)
def test_nothing_is_said_of_how_full_nodes_are_where_that_is_not_known(nodes: Nodes, more: dict[str, Any]) -> None:
    assert answer(nodes, World(**asking()).job, **{"waiting": 1} | more) == Answer(None)


def test_the_pods_of_nodes_are_read_before_anything_is_said() -> None:
    known = Nodes().node("a", (EVAL, gpus(3)), gpus=4).node("cpu").node("tpu", chips=4)
    known.visitors = {}
    assert answer(known, World(**asking()).job).unread == ("a",)
    assert answer(known, World(**on_cpus("2")).job).unread == ("a", "cpu", "tpu")
    assert answer(FULL, World(**asking()).job, refused=6).unread == ("a",), "they were read before the refusal"


def test_a_priority_class_that_preempts_nobody_is_told() -> None:
    seen = answer(FULL, World(**asking()).job, standing=Standing(50, preempts=False))
    assert seen.found is not None
    assert "preemptionPolicy Never" in seen.found.message
    assert seen.remedy is not None
    assert seen.remedy.words.startswith(
        "recreate the job with a priorityClassName whose value is above 0 and whose preemptionPolicy is not Never"
    )


REQUESTS: dict[str, tuple[dict[str, Any], dict[str, int]]] = {
    "containers add up": ({"containers": [("1", ""), ("2", "")]}, {"cpu": 3}),
    "an init container that ends counts alone": (
        {"initContainers": [("5", "")], "containers": [("2", "")]}, {"cpu": 5},
    ),
    "a sidecar counts beside the containers": (
        {"initContainers": [("5", "Always")], "containers": [("2", "")]}, {"cpu": 7},
    ),
    "a sidecar counts beside later init containers": (
        {"initContainers": [("2", "Always"), ("4", "")], "containers": [("1", "")]}, {"cpu": 6},
    ),
    "overhead": ({"containers": [("1", "")], "overhead": {"cpu": "1"}}, {"cpu": 2}),
}  # fmt: skip


@pytest.mark.parametrize(("given", "sizes"), REQUESTS.values(), ids=REQUESTS)
def test_what_a_pod_requests_is_counted_as_the_scheduler_does(given: dict[str, Any], sizes: dict[str, int]) -> None:
    body = {
        kind: [
            {"resources": {"requests": {"cpu": size}}} | ({"restartPolicy": policy} if policy else {})
            for size, policy in ones
        ]
        for kind, ones in given.items()
        if kind != "overhead"
    }
    assert Needs.of(body | {"overhead": given.get("overhead", {})}).sizes == sizes


# Whether what is said to help does: with a scheduler that places one pod after the other.


def some_nodes(rng: random.Random) -> Nodes:
    found = Nodes()
    for index in range(rng.randint(1, 4)):
        most, uses = rng.choice([2, 4, 8]), []
        for tenant in rng.sample([EVAL, LOW, NOTEBOOK, BATCH, DAEMON, MINE], rng.randint(0, 4)):
            uses.append((tenant, gpus(rng.randint(0, 3)) | cpu(str(rng.randint(0, 3)))))
        while sum(int(asked[GPU]) for _, asked in uses) > most or sum(int(asked["cpu"]) for _, asked in uses) > 8:
            uses.pop()
        found.node(
            f"n{index}", *uses, gpus=most, cordoned=rng.random() < 0.15,
            labels={"team": rng.choice(["ml", "web"])}, taints=TAINTED if rng.random() < 0.2 else (),
        )  # fmt: skip
    return found


def places_all(nodes: Nodes, job: Job, waiting: int, priority: int | None = None, gone: tuple[str, ...] = ()) -> bool:
    """Whether a scheduler places so many pods; with a priority it preempts pods of a lower one."""
    body = pod_factory(job, SETTINGS).pod(0, FIRST)["spec"]
    asked = {key: int(body["containers"][0]["resources"]["requests"].get(key, 0)) for key in (GPU, "cpu")}
    alone = bool(job.spec and job.spec.one_host_per_node)
    left = waiting
    for name, node in nodes.nodes.items():
        tolerated = {one.get("key") for one in body["tolerations"]}
        selects = body.get("nodeSelector", {}).items() <= node.metadata.labels.items()
        if node.spec.unschedulable or not selects or {one.key for one in node.spec.taints} - tolerated:
            continue
        stay = [
            use
            for use in nodes.visitors[name].uses
            if use.tenant.title not in gone
            and (use.tenant.uid == job.uid or priority is None or use.tenant.priority >= priority)
        ]
        free = {key: int(node.status.allocatable[key]) - sum(int(use.sizes[key]) for use in stay) for key in asked}
        beside = any(use.tenant.uid == job.uid for use in stay)
        while left and all(free[key] >= size for key, size in asked.items()) and not (alone and beside):
            free = {key: free[key] - size for key, size in asked.items()}
            left, beside = left - 1, True
    return not left


def helped(remedy: Remedy, nodes: Nodes, job: Job, waiting: int) -> bool:
    assert job.spec is not None
    changes: dict[str, Any] = {}
    match remedy.change:
        case "free":
            return places_all(nodes, job, waiting, gone=tuple(map(str, remedy.values)))
        case "priorityClassName":
            [least] = remedy.values
            assert isinstance(least, int)
            return places_all(nodes, job, waiting, least)
        case "uncordon":
            for name in map(str, remedy.values):
                spec = msgspec.structs.replace(nodes.nodes[name].spec, unschedulable=False)
                nodes.nodes[name] = msgspec.structs.replace(nodes.nodes[name], spec=spec)
        case "nodeSelector":
            changes["node_selector"] = {}
        case "tolerations":
            changes["tolerations"] = (
                type(job.spec)
                .model_validate({"tolerations": [{"key": key, "operator": "Exists"} for key in remedy.values]})
                .tolerations
            )
        case _:
            raise AssertionError(remedy)
    return places_all(nodes, replace(job, spec=job.spec.model_copy(update=changes), accepted={}), waiting)


def test_on_1000_clusters_the_change_that_is_said_to_help_does() -> None:
    changes: dict[str, int] = {}
    for seed in range(1_000_000):
        rng = random.Random(seed)
        nodes, waiting = some_nodes(rng), rng.randint(1, 3)
        fields = asking(rng.randint(1, 4), resources={"requests": {"cpu": str(rng.randint(1, 4))}}, hosts=4)
        fields |= {"nodeSelector": {"team": "ml"}} if rng.random() < 0.4 else {}
        job = World(**fields, oneHostPerNode=rng.random() < 0.3 or None).job
        fits, seen = places_all(nodes, job, waiting), answer(nodes, job, waiting, 4)
        assert fits == (seen.found is None), (seed, seen)
        if seen.found is not None and seen.found.reason == "PriorityTooLow":
            assert not places_all(nodes, job, waiting, 0), seed
        if seen.remedy is not None:
            changes[seen.remedy.change] = changes.get(seen.remedy.change, 0) + 1
            assert helped(seen.remedy, nodes, job, waiting), (seed, seen)
        if sum(changes.values()) == 1000:
            break
    assert min(changes.get(one, 0) for one in ("nodeSelector", "tolerations", "uncordon", "free", "priorityClassName"))


SIZES = {"32Mi": "32Mi", "52Mi": "52Mi", "1536Mi": "1.5Gi", "2Gi": "2Gi", "100": "100", "3Ki": "3Ki", "0": "0"}


@pytest.mark.parametrize(("size", "said"), SIZES.items(), ids=SIZES)
def test_an_amount_of_memory_is_said_in_a_unit_that_shows_it(size: str, said: str) -> None:
    found = amount(size)
    assert found is not None
    assert _quantity("memory", found) == f"{said} memory"

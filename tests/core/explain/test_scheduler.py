"""What is said of jobs for which the scheduler finds no nodes, and which change is said to help."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

from slipway.api import names
from slipway.api.places import worker
from slipway.core.explain.preemption import ORDINARY, Standing
from slipway.core.explain.remedies import Remedy
from slipway.core.explain.scheduler import NODE_REASONS, Answer, View, explain_unscheduled
from slipway.core.model.events import PodEvent
from slipway.core.model.job import Job, Settings
from slipway.core.model.nodes import Node, NodeMetadata, NodeSpec, NodeStatus, Taint
from slipway.core.model.pod_parts import PodCondition
from slipway.core.model.tenants import Tenant, Tenants, Visitors
from slipway.core.planner.contract.pool_pinning import NodePools, choose
from slipway.core.validation.acceptance import accept, pod_factory
from slipway.core.vocabulary.reasons import COMING
from tests.core.build import START, World

SETTINGS = Settings(whole_cluster=True)
V5E, V5P = "tpu-v5-lite-podslice", "tpu-v5p-slice"
SHAPES = {"2x4": (2, 4), "4x4": (4, 4), "2x2": (1, 4), "4x8": (8, 4)}
"""Topologies of v5e with their hosts, and the chips of a host."""


@dataclass
class Nodes(Tenants):
    """The nodes of a cluster in a test, and who has them."""

    nodes: dict[str, Node] = field(default_factory=dict)
    held: dict[str, Tenant] = field(default_factory=dict)
    read: bool = True
    """Whether the pods of others were read on every node."""

    def __post_init__(self) -> None:
        super().__init__({})

    def on(self, node: str, since: datetime) -> Iterable[Tenant]:
        return [self.held[node]] if node in self.held else []

    def pool(
        self, name: str, topology: str = "4x4", *, hosts: int | None = None, label: str = V5E, **more: Any
    ) -> "Nodes":
        """Add a node pool; `more` are `labels`, `taints`, `cordoned`, `ready`, `memory`, `sizes` and `held`."""
        full, chips = SHAPES.get(topology, (2, 4))
        labels = {
            names.NODE_ACCELERATOR: label,
            names.NODE_TOPOLOGY: topology,
            names.NODE_CHIPS: str(chips),
            names.NODE_POOL: name,
        }
        for host in range(full if hosts is None else hosts):
            node = f"{name}-{host}"
            ready = PodCondition("Ready", "True" if more.get("ready", True) or host else "False", "", "", START)
            size = {"cpu": "200", "memory": more.get("memory", "400Gi"), names.TPU_RESOURCE: str(chips)}
            size |= more.get("sizes", {})
            size = {resource: amount for resource, amount in size.items() if amount}
            taints = (Taint(names.TPU_RESOURCE, "NoSchedule", None, "present"), *more.get("taints", ()))
            self.nodes[node] = Node(
                NodeMetadata(node, uid=f"uid-{node}", labels=labels | more.get("labels", {})),
                NodeSpec(taints, more.get("cordoned", False) and host == 0),
                NodeStatus((ready,), size),
            )
            if "held" in more:
                self.held[node] = more["held"]
        self.visitors = {node: Visitors(START) for node in self.nodes} if self.read else {}
        return self


def asking(slices: int = 1, kind: str = "v5litepod-16", **fields: Any) -> Job:
    accelerator = {"type": kind} | fields.pop("accelerator", {})
    return World(slices=slices, hosts=None, accelerator=accelerator, **fields).job


def answer(
    nodes: Nodes, job: Job, slices: int = 1, settings: Settings = SETTINGS, standing: Standing = ORDINARY
) -> Answer:
    resolved = job.status.model_copy(update={"resolved": accept(job, settings).resolved})
    asked = replace(job, status=resolved)
    return explain_unscheduled(View(asked, settings, nodes.nodes.values(), nodes, slices, START, START, standing))


EVAL = Tenant("SliceJob", "team-b", "eval", "other", since=START)
LOW = Tenant("SliceJob", "team-b", "low", "other-2", 10, "low", START)
HIGH = Tenant("SliceJob", "team-b", "high", "other-3", 1000, "high", START)
NOTEBOOK = Tenant("Pod", "ml", "notebook", priority=1000)
VISITOR = Tenant("Pod", "ml", "batch", priority=500)
SYSTEM = Tenant("Pod", "kube-system", "check", priority=2_000_000_000)
SPOT = {"labels": {names.NODE_SPOT: "true"}, "taints": (Taint(names.NODE_SPOT, "NoSchedule", None, "true"),)}
REPAIR = (Taint("repair", "NoSchedule", None, "yes"),)
TABLE: dict[str, tuple[Nodes, Job, str, str, str]] = {
    "nodes whose device plugin reports no chips": (
        Nodes().pool("a", sizes={names.TPU_RESOURCE: "0"}),
        asking(),
        "NodesTooSmall",
        "the slice has no room: a has 0 google.com/tpu on each host, less than a pod requests",
        "",
    ),
    "nodes whose device plugin has not registered": (
        Nodes().pool("a", sizes={names.TPU_RESOURCE: ""}),
        asking(),
        "NodesTooSmall",
        "the slice has no room: a has 0 google.com/tpu on each host, less than a pod requests",
        "",
    ),
    "a reservation that no node has": (
        Nodes().pool("a"),
        asking(accelerator={"reservation": "res-1"}),
        "SelectorMatchesNothing",
        "does not have cloud.google.com/reservation-name=res-1",
        "a slice fits on a now: recreate the job without accelerator.reservation",
    ),
    "spot nodes of another reservation, which no spot job can have": (
        Nodes().pool("a", labels={names.NODE_SPOT: "true", names.NODE_RESERVATION: "res-1"}, taints=SPOT["taints"]),
        replace(
            asking(accelerator={"reservation": "res-1"}),
            status=World(slices=1, hosts=None, accelerator={"type": "v5litepod-16", "reservation": "res-1"})
            .begin()
            .status,
        ),
        "NodesTainted",
        "the slice has no room: a has spot nodes, and accelerator.spot is not true",
        "",
    ),
    "no TPUs of that type": (
        Nodes().pool("a", "2x4").pool("b", "2x4").pool("c", "4x4"),
        asking(kind="v5p-16"),
        "NoSuchNodes",
        "the slice has no room: no node pool is v5p-16 (tpu-v5p-slice, 2x2x2); this cluster has "
        "tpu-v5-lite-podslice 2x4 in 2 node pools, tpu-v5-lite-podslice 4x4 in 1 node pool",
        "",
    ),
    "no TPUs of that topology": (
        Nodes().pool("a", "4x8"),
        asking(),
        "NoSuchNodes",
        "no node pool is v5litepod-16 (tpu-v5-lite-podslice, 4x4)",
        "a slice of v5litepod-32 (4x8) fits now: recreate the job with that accelerator",
    ),
    "no spot nodes": (
        Nodes().pool("a"),
        asking(accelerator={"spot": True}),
        "NoSuchNodes",
        "the only node pool of v5litepod-16 (tpu-v5-lite-podslice, 4x4) does not have cloud.google.com/gke-spot=true",
        "a slice fits on other nodes now: recreate the job with accelerator.spot: false",
    ),
    "spot nodes only": (
        Nodes().pool("a", **SPOT),
        asking(),
        "NodesTainted",
        "a has spot nodes, and accelerator.spot is not true",
        "a slice fits on spot nodes now: recreate the job with accelerator.spot: true",
    ),
    "a selector that nothing has": (
        Nodes().pool("a").pool("b"),
        asking(nodeSelector={"team": "research"}),
        "SelectorMatchesNothing",
        "none of the 2 node pools of v5litepod-16 (tpu-v5-lite-podslice, 4x4) has team=research",
        "remove team from the nodeSelector: a would fit",
    ),
    "held by a job": (
        Nodes().pool("a", held=EVAL),
        asking(),
        "NodesHeld",
        "the slice has no room: a is held by team-b/eval (since 2026-11-21T12:00:00Z)",
        "wait for, or free, a, which is held by team-b/eval (since 2026-11-21T12:00:00Z)",
    ),
    "held by a pod of others": (
        Nodes().pool("a", held=Tenant("Pod", "ml", "notebook")),
        asking(),
        "NodesHeld",
        "a is held by pod ml/notebook",
        "wait for, or free, a",
    ),
    "E2-18 some slices fit": (
        Nodes().pool("a").pool("b").pool("c").pool("d", held=EVAL),
        asking(4),
        "NodesHeld",
        "3 of 4 slices have room: d is held by team-b/eval",
        "3 of 4 slices fit now: recreate the job with acceptableSlices: [3]",
    ),
    "fewer node pools than slices": (
        Nodes().pool("a", held=EVAL),
        asking(2),
        "TooFewNodes",
        "0 of 2 slices have room: there is 1 node pool of v5litepod-16 (tpu-v5-lite-podslice, 4x4); a is held by",
        "",
    ),
    "a cordoned node": (
        Nodes().pool("a", cordoned=True),
        asking(),
        "NodesCordoned",
        "a waits for its node a-0, which is cordoned",
        "uncordon a-0 (kubectl uncordon)",
    ),
    "a node that is not ready": (
        Nodes().pool("a", ready=False),
        asking(),
        "NodesNotReady",
        "a waits for its node a-0, which is not ready",
        "",
    ),
    "a taint": (
        Nodes().pool("a", taints=REPAIR),
        asking(),
        "NodesTainted",
        "a has the taint repair=yes:NoSchedule, which nothing tolerates",
        "tolerate the taint repair: a would fit",
    ),
    "a node pool that lacks hosts": (
        Nodes().pool("a", hosts=3),
        asking(),
        "NodePoolIncomplete",
        "a has 3 of 4 hosts",
        "",
    ),
    "a node pool that is too large": (
        Nodes().pool("a", hosts=8),
        asking(),
        "NodePoolIncomplete",
        "a has 8 hosts, and a slice 4",
        "",
    ),
    "more memory than a host has": (
        Nodes().pool("a"),
        asking(resources={"requests": {"memory": "1Ti"}}),
        "NodesTooSmall",
        "a has 400Gi memory on each host, less than a pod requests",
        "",
    ),
    "many node pools": (
        Nodes()
        .pool("a", held=EVAL)
        .pool("b", ready=False)
        .pool("c", taints=REPAIR)
        .pool("d", hosts=1)
        .pool("e", hosts=1),
        asking(),
        "NodesHeld",
        "which is not ready; c has the taint repair=yes:NoSchedule, which nothing tolerates; and 2 more",
        "tolerate the taint repair: c would fit",
    ),
    "node pools with the same in their way": (
        Nodes().pool("a", hosts=3).pool("b", hosts=1).pool("c", hosts=3).pool("d", hosts=3).pool("e", hosts=3),
        asking(),
        "NodePoolIncomplete",
        "the slice has no room: a, c, d and 1 more have 3 of 4 hosts; b has 1 of 4 hosts",
        "",
    ),
    "two node pools with the same in their way": (
        Nodes().pool("a", memory="1Gi").pool("b", memory="1Gi"),
        asking(resources={"requests": {"memory": "2Gi"}}),
        "NodesTooSmall",
        "the slice has no room: a and b have 1Gi memory on each host, less than a pod requests",
        "",
    ),
    "node pools of one holder": (
        Nodes().pool("a", held=LOW).pool("b", held=EVAL).pool("c", held=LOW),
        asking(2),
        "NodesHeld",
        "0 of 2 slices have room: a and c are held by team-b/low (priority 10, class low, since 2026-11-21T12:00:00Z); "
        "b is held by team-b/eval (since 2026-11-21T12:00:00Z)",
        "wait for, or free, a, which is held by team-b/low (priority 10, class low, since 2026-11-21T12:00:00Z); "
        "b, which is held by team-b/eval",
    ),
    "slices of one host": (
        Nodes().pool("a", "2x2", held=EVAL),
        asking(kind="v5litepod-4"),
        "NodesHeld",
        "the slice has no room: a-0 is held by team-b/eval",
        "wait for, or free, a-0",
    ),
}


PREEMPTS = "this job's priority is {0}, and the scheduler preempts only pods of a lower one"
ABOVE = "recreate the job with a priorityClassName whose value is above {0}: the scheduler may then preempt {1}"
RANKS: dict[str, tuple[Nodes, Job, Standing, str, str, str]] = {
    "nobody has a priority": (
        Nodes().pool("a", "2x2", held=EVAL),
        asking(kind="v5litepod-4"),
        ORDINARY,
        "NodesHeld",
        "a-0 is held by team-b/eval (since 2026-11-21T12:00:00Z)",
        "wait for, or free, a-0",
    ),
    "a job of a higher priority": (
        Nodes().pool("a", "2x2", held=HIGH),
        asking(kind="v5litepod-4"),
        ORDINARY,
        "PriorityTooLow",
        "a-0 is held by team-b/high (priority 1000, class high, since 2026-11-21T12:00:00Z); " + PREEMPTS.format(0),
        ABOVE.format(1000, "team-b/high"),
    ),
    "a job of the same priority": (
        Nodes().pool("a", "2x2", held=HIGH),
        asking(kind="v5litepod-4"),
        Standing(1000),
        "PriorityTooLow",
        PREEMPTS.format(1000),
        ABOVE.format(1000, "team-b/high"),
    ),
    "a job of a lower priority, which the scheduler preempts": (
        Nodes().pool("a", "2x2", held=LOW).pool("b", "2x2", held=HIGH),
        asking(kind="v5litepod-4"),
        Standing(11),
        "NodesHeld",
        "b-0 is held by team-b/high (priority 1000, class high, since 2026-11-21T12:00:00Z)",
        "wait for, or free, a-0",
    ),
    "the least priority that is enough": (
        Nodes().pool("a", "2x2", held=HIGH).pool("b", "2x2", held=LOW).pool("c", "2x2"),
        asking(2, kind="v5litepod-4"),
        ORDINARY,
        "PriorityTooLow",
        "1 of 2 slices has room: ",
        "1 of 2 slices fit now",
    ),
    "a negative priority": (
        Nodes().pool("a", "2x2", held=EVAL),
        asking(kind="v5litepod-4"),
        Standing(-5),
        "PriorityTooLow",
        PREEMPTS.format(-5),
        ABOVE.format(0, "team-b/eval"),
    ),
    "a class that never preempts": (
        Nodes().pool("a", "2x2", held=LOW),
        asking(kind="v5litepod-4"),
        Standing(1000, preempts=False),
        "NodesHeld",
        "the job's PriorityClass has preemptionPolicy Never, so the scheduler preempts nobody for it",
        "recreate the job with a priorityClassName whose value is above 10 and whose preemptionPolicy is not Never: ",
    ),
    "pods of the system": (
        Nodes().pool("a", "2x2", held=SYSTEM),
        asking(kind="v5litepod-4"),
        ORDINARY,
        "PriorityTooLow",
        PREEMPTS.format(0),
        "wait for, or free, a-0",
    ),
    "a node pool of pods": (
        Nodes().pool("a", held=NOTEBOOK),
        asking(),
        ORDINARY,
        "PriorityTooLow",
        PREEMPTS.format(0),
        ABOVE.format(1000, "pod ml/notebook"),
    ),
    "a node pool of a SliceJob, which no priority frees": (
        Nodes().pool("a", held=HIGH),
        asking(),
        ORDINARY,
        "NodesHeld",
        "a is held by team-b/high",
        "wait for, or free, a",
    ),
    "a node pool of a SliceJob of a lower priority": (
        Nodes().pool("a", held=LOW),
        asking(),
        Standing(1000),
        "NodesHeld",
        "this job's priority is 1000, but the scheduler preempts pods of one node at a time and frees no node pool for",
        "wait for, or free, a",
    ),
    "beside a node pool that is open in part": (
        Nodes().pool("a", held=NOTEBOOK).pool("b", ready=False),
        asking(),
        ORDINARY,
        "NodesHeld",
        "a is held by pod ml/notebook (priority 1000)",
        "wait for, or free, a",
    ),
}


@pytest.mark.parametrize(("nodes", "job", "standing", "reason", "words", "step"), RANKS.values(), ids=RANKS)
def test_a_job_whose_priority_keeps_it_out_says_so(
    nodes: Nodes, job: Job, standing: Standing, reason: str, words: str, step: str
) -> None:
    assert job.spec is not None
    found = answer(nodes, job, job.spec.slices, standing=standing).found
    assert found is not None
    assert (found.reason, found.next_step[: len(step)]) == (reason, step)
    assert words in found.message


@pytest.mark.parametrize(("nodes", "job", "reason", "words", "step"), TABLE.values(), ids=TABLE)
def test_a_job_without_nodes_says_which_there_are_and_what_keeps_it_out(
    nodes: Nodes, job: Job, reason: str, words: str, step: str
) -> None:
    assert job.spec is not None
    found = answer(nodes, job, job.spec.slices).found
    assert found is not None
    assert (found.reason, found.next_step[: len(step)]) == (reason, step)
    assert bool(step) == bool(found.next_step)
    assert words in found.message


def test_every_reason_is_met() -> None:
    met = {reason for _, _, reason, _, _ in TABLE.values()} | {row[3] for row in RANKS.values()}
    assert met == NODE_REASONS.keys() - {COMING}


def test_nothing_is_promised_of_nodes_whose_pods_were_not_read() -> None:
    nodes = Nodes(read=False).pool("a").pool("b", held=EVAL)
    seen = answer(nodes, asking(2), 2)
    assert seen.found is not None
    assert (seen.found.next_step, seen.unread) == ("", ("a-0", "a-1", "a-2", "a-3"))


@pytest.mark.parametrize(
    ("read", "refused", "again"),
    [(-30, -40, False), (-30, -20, True), (-61, -90, True), (-3, 4, False), (-6, 4, True)],
    ids=["lately", "before the scheduler refused", "long ago", "just now, a clock is ahead", "a clock is ahead"],
)
def test_pods_of_others_are_read_again_when_something_may_have_changed(read: int, refused: int, again: bool) -> None:
    nodes = Nodes().pool("a", "2x2")
    nodes.visitors = {"a-0": Visitors(START + timedelta(seconds=read))}
    job = asking(kind="v5litepod-4")
    view = View(job, SETTINGS, nodes.nodes.values(), nodes, 1, START + timedelta(seconds=refused), START)
    assert explain_unscheduled(view).unread == (("a-0",) if again else ())


def test_nothing_is_promised_where_other_namespaces_are_not_seen() -> None:
    seen = answer(Nodes().pool("a", "4x8"), asking(), settings=Settings())
    assert seen.found is not None
    assert (seen.found.reason, seen.found.next_step) == ("NoSuchNodes", "")


def test_nothing_is_said_of_rules_that_only_the_scheduler_reads() -> None:
    job = asking(podTemplate={"spec": {"affinity": {"nodeAffinity": {}}}})
    assert answer(Nodes().pool("a", held=EVAL), job).found is None


SCALES: dict[str, tuple[PodEvent, str, str]] = {
    "nodes are added": (
        PodEvent("TriggeredScaleUp", "pod triggered scale-up: [{np-1 0->4 (max: 4)}]", START),
        "NodesComing",
        "the cluster autoscaler adds nodes: pod triggered scale-up: [{np-1 0->4 (max: 4)}]",
    ),
    "no node group would do": (
        PodEvent("NotTriggerScaleUp", "pod didn't trigger scale-up: 1 max node group size reached", START),
        "TooFewNodes",
        "the cluster autoscaler adds no nodes: pod didn't trigger scale-up: 1 max node group size reached",
    ),
    "long ago": (
        PodEvent("TriggeredScaleUp", "pod triggered scale-up", START - timedelta(seconds=601)),
        "TooFewNodes",
        "there is 1 node pool",
    ),
}


@pytest.mark.parametrize(("event", "reason", "words"), SCALES.values(), ids=SCALES)
def test_an_autoscaler_that_brings_nodes_is_named(event: PodEvent, reason: str, words: str) -> None:
    world = World(slices=2, hosts=None, accelerator={"type": "v5litepod-16"})
    world.nodes = Nodes().pool("a").nodes
    world.begin()
    for handle in world.all_pods():
        handle.unschedulable()
    # The cache holds pods in the order in which their creation was answered; Events are read of one pod.
    world.pods = dict(reversed(world.pods.items()))
    world.events["uid-train-0-0-0"] = (event,)
    world.step(seconds=6)
    world.step(seconds=6)
    running = world.condition("Running")
    assert running is not None
    assert (world.status.phase, running.reason) == ("WaitingForCapacity", reason)
    assert words in running.message


def test_the_words_reach_the_status_and_its_columns() -> None:
    world = World(slices=2, hosts=None, accelerator={"type": "v5litepod-16"})
    world.nodes = Nodes().pool("a").nodes
    world.begin()
    for handle in world.all_pods():
        handle.unschedulable()
    world.step(seconds=6)
    world.step(seconds=6)
    running = world.condition("Running")
    assert running is not None
    assert (world.status.phase, running.reason) == ("WaitingForCapacity", "TooFewNodes")
    assert running.message.startswith("1 of 2 slices has room: there is 1 node pool of v5litepod-16")


# --- Is what is said to help true? -----------------------------------------------------------------------------------

KINDS = ("v5litepod-4", "v5litepod-8", "v5litepod-16", "v5litepod-32")


def a_cluster(rng: random.Random) -> Nodes:
    found = Nodes()
    for index in range(rng.randint(1, 6)):
        topology, mixed = rng.choice(list(SHAPES)), False
        more: dict[str, Any] = {"labels": {"team": rng.choice(["a", "b"])}, "taints": ()}
        if rng.random() < 0.3:
            more["labels"] |= SPOT["labels"]
            more["taints"] += SPOT["taints"]
        if rng.random() < 0.2:
            more["taints"] += REPAIR
        if rng.random() < 0.3:
            more["held"] = rng.choice([EVAL, LOW, HIGH, NOTEBOOK, SYSTEM])
            mixed = more["held"] in (NOTEBOOK, SYSTEM) and rng.random() < 0.5
        if rng.random() < 0.15:
            more["hosts"] = max(1, SHAPES[topology][0] - 1)
        more |= {"cordoned": rng.random() < 0.2, "ready": rng.random() > 0.1}
        more["memory"] = rng.choice(["100Gi", "400Gi"])
        found.pool(f"np-{index}", topology, **more)
        if mixed:
            found.held[f"np-{index}-0"] = rng.choice([NOTEBOOK, SYSTEM])
    return found


def a_job(rng: random.Random) -> Job:
    fields: dict[str, Any] = {}
    if rng.random() < 0.3:
        fields["nodeSelector"] = {"team": rng.choice(["a", "b", "c"])}
    if rng.random() < 0.3:
        fields["resources"] = {"requests": {"memory": "200Gi"}}
    accelerator = {"spot": rng.random() < 0.3, "chipsPerHost": 4}
    return asking(rng.randint(1, 3), rng.choice(KINDS), accelerator=accelerator, **fields)


def applied(remedy: Remedy, job: Job, nodes: Nodes) -> Job:
    """Carry out what is said to help, on the job or on the cluster."""
    if remedy.change in ("uncordon", "free"):
        return on_the_cluster(remedy, job, nodes)
    spec = job.spec
    assert spec is not None
    assert spec.accelerator is not None
    changes: dict[str, Any] = {}
    match remedy.change:
        case "nodeSelector":
            changes["node_selector"] = {k: v for k, v in spec.node_selector.items() if k not in remedy.values}
        case "tolerations":
            taints = tuple({"key": key, "operator": "Exists"} for key in remedy.values)
            changes["tolerations"] = type(spec).model_validate({"tolerations": taints}).tolerations
        case "acceptableSlices":
            changes["acceptable_slices"] = remedy.values
        case "accelerator.spot":
            changes["accelerator"] = spec.accelerator.model_copy(update={"spot": remedy.values[0]})
        case "accelerator":
            kind, topology, chips = remedy.values
            update = {"type": kind, "topology": topology, "chips_per_host": chips}
            changes["accelerator"] = spec.accelerator.model_copy(update=update)
        case _:
            raise AssertionError(remedy)
    return replace(job, spec=spec.model_copy(update=changes), accepted={})


def on_the_cluster(remedy: Remedy, job: Job, nodes: Nodes) -> Job:
    for name, node in list(nodes.nodes.items()):
        if name not in remedy.values and node.metadata.labels[names.NODE_POOL] not in remedy.values:
            continue
        if remedy.change == "free":
            nodes.held.pop(name, None)
        else:
            spec = msgspec.structs.replace(node.spec, unschedulable=False)
            nodes.nodes[name] = msgspec.structs.replace(node, spec=spec)
    return job


def scheduled(job: Job, nodes: Nodes) -> bool:
    """Whether a scheduler finds nodes for all pods that Slipway would create: its filters, written once more."""
    assert job.spec is not None
    slices = min(job.spec.acceptable_slices, default=job.spec.slices)
    hosts = accept(job, SETTINGS).resolved.hosts
    factory = pod_factory(job, SETTINGS)
    pools: dict[str, list[str]] = {}
    for name, node in nodes.nodes.items():
        pools.setdefault(node.metadata.labels[names.NODE_POOL], []).append(name)
    pins: Mapping[int, str] = {}
    if factory.pool_hosts:
        known = NodePools(pools, tuple(pools), busy=nodes.held.keys())
        pins = choose(known, nodes.nodes, 0, range(slices), factory.pool_hosts, factory.suits)
    pinned = pod_factory(job, SETTINGS, pins)
    used = set(nodes.held)
    for index in range(slices):
        body = pinned.pod(0, worker(index, 0))["spec"]
        open_nodes = [name for name, node in nodes.nodes.items() if name not in used and fits(body, node)]
        # Affinity keeps the pods of a slice in one node pool, and out of those of other slices.
        choices = [[one for one in open_nodes if one in pools[pool]] for pool in pools] if hosts > 1 else [open_nodes]
        place = next((one for one in choices if len(one) >= hosts), None)
        if place is None:
            return False
        used |= set(place[:hosts])
    return True


def preempts(job: Job, nodes: Nodes, priority: int) -> bool:
    """Whether a scheduler finds nodes for all pods of that priority, whichever it takes of those it may take."""
    assert job.spec is not None
    hosts = accept(job, SETTINGS).resolved.hosts
    body = pod_factory(job, SETTINGS).pod(0, worker(0, 0))["spec"]
    suited = [name for name, node in nodes.nodes.items() if fits(body, node)]
    pool_of = {name: node.metadata.labels[names.NODE_POOL] for name, node in nodes.nodes.items()}
    of_slices = {pool_of[name] for name, tenant in nodes.held.items() if tenant.kind == names.KIND}

    def placed(left: int, used: frozenset[str]) -> bool:
        if not left:
            return True
        # Pods with a priority are not pinned: affinity keeps a slice out of node pools with pods of others.
        full = of_slices | {pool_of[name] for name in used} if hosts > 1 else set()
        open_nodes = [name for name in suited if name not in used and pool_of[name] not in full]
        free = [name for name in open_nodes if name not in nodes.held]
        lower = [name for name in open_nodes if name in nodes.held and nodes.held[name].priority < priority]
        for first in free or lower:
            rest = [name for name in free + lower if pool_of[name] == pool_of[first] and name != first]
            if len(rest) < hosts - 1 or not placed(left - 1, used | {first, *rest[: hosts - 1]}):
                return False
        return bool(free or lower)

    return placed(job.spec.slices, frozenset())


def fits(body: Mapping[str, Any], node: Node) -> bool:
    if node.spec.unschedulable or any(one.type == "Ready" and one.status != "True" for one in node.status.conditions):
        return False
    if not body["nodeSelector"].items() <= node.metadata.labels.items():
        return False
    tolerated = {one["key"] for one in body["tolerations"] if one["operator"] == "Exists"}
    if {taint.key for taint in node.spec.taints} - tolerated:
        return False
    asked = body["containers"][0]["resources"]["requests"].get("memory", "0Gi")
    return int(asked.removesuffix("Gi")) <= int(node.status.allocatable["memory"].removesuffix("Gi"))


def trials(count: int) -> Iterable[tuple[int, Nodes, Job]]:
    for seed in range(count):
        rng = random.Random(seed)
        yield seed, a_cluster(rng), a_job(rng)


def test_on_500_clusters_the_change_that_is_said_to_help_does() -> None:
    changes: dict[str, int] = {}
    for seed, nodes, job in trials(1_000_000):
        assert job.spec is not None
        fit, seen = scheduled(job, nodes), answer(nodes, job, job.spec.slices)
        assert fit == (seen.found is None), seed
        if fit:
            continue
        assert seen.found is not None
        assert seen.found.reason != "PriorityTooLow" or not preempts(job, nodes, 0), seed
        if seen.remedy is not None:
            changes[seen.remedy.change] = changes.get(seen.remedy.change, 0) + 1
            if seen.remedy.change == "priorityClassName":
                [least] = seen.remedy.values
                assert isinstance(least, int)
                assert preempts(job, nodes, least), (seed, seen)
            else:
                assert scheduled(applied(seen.remedy, job, nodes), nodes), (seed, seen)
        if sum(changes.values()) == 500:
            break
    assert changes.keys() == {
        "nodeSelector", "tolerations", "acceptableSlices", "accelerator.spot", "accelerator", "uncordon", "free",
        "priorityClassName",
    }  # fmt: skip
    assert sum(changes.values()) == 500


def a_full_cluster(rng: random.Random, topology: str) -> Nodes:
    """Where only others and nodes that are not ready are in the way."""
    found = Nodes()
    for index in range(rng.randint(1, 4)):
        found.pool(f"np-{index}", topology, ready=rng.random() > 0.2)
        for node in (name for name in found.nodes if name.startswith(f"np-{index}-")):
            if rng.random() < 0.9:
                found.held[node] = rng.choice(
                    [EVAL, LOW, NOTEBOOK, SYSTEM] if rng.random() < 0.2 else [NOTEBOOK, VISITOR]
                )
    return found


def test_on_500_full_clusters_a_higher_priority_helps_where_it_is_said_to() -> None:
    helped = {"2x2": 0, "2x4": 0}
    for seed in range(1_000_000):
        rng = random.Random(seed)
        topology, kind = rng.choice([("2x2", "v5litepod-4"), ("2x4", "v5litepod-8")])
        nodes, slices = a_full_cluster(rng, topology), rng.randint(1, 2)
        job, standing = asking(slices, kind, accelerator={"chipsPerHost": 4}), Standing(rng.choice([0, 10, 500]))
        seen = answer(nodes, job, slices, standing=standing)
        if seen.found is None:
            continue
        assert seen.found.reason != "PriorityTooLow" or not preempts(job, nodes, standing.priority), seed
        if seen.remedy is not None and seen.remedy.change == "priorityClassName":
            [least] = seen.remedy.values
            assert isinstance(least, int)
            assert preempts(job, nodes, least), (seed, seen)
            helped[topology] += 1
        if sum(helped.values()) == 500:
            break
    assert min(helped.values()) > 100


@pytest.mark.parametrize("chips", ["0", ""], ids=["it reports 0", "it reports nothing"])
def test_no_slice_is_pinned_to_nodes_without_the_chips_of_their_device_plugin(chips: str) -> None:
    cluster = Nodes().pool("a", sizes={names.TPU_RESOURCE: chips})
    factory = pod_factory(asking(), SETTINGS)
    pools = NodePools(nodes={"a": set(cluster.nodes)}, open=("a",))
    assert choose(pools, cluster.nodes, 0, [0], factory.pool_hosts, factory.suits) == {0: ""}

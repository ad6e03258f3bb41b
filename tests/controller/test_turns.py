"""What news of a job and the decisions on it cost does not grow with the jobs, pods and nodes of others.

Only a job that waits for nodes looks at them all, to say who has them; what it looks at of each is bounded.

Bytecodes are counted, which are the same on each run; a loop within a C function counts as one.
"""

import gc
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from itertools import chain, groupby
from operator import attrgetter
from types import FrameType
from typing import Any, Final

import msgspec
import pytest

from slipway.api import names
from slipway.apiserver.watch import Applied, Deleted
from slipway.controller import debounce
from slipway.controller.seen.cache import Cache
from slipway.core.model.events import PodEvents
from slipway.core.model.job import Job, Key, Settings
from slipway.core.model.nodes import Node
from slipway.core.model.pods import Pod
from slipway.core.model.tenants import Visitors
from slipway.core.planner.contract.actions import Action, Check, CreatePods, CreateServices, DeletePods, Plan, Refresh
from slipway.core.planner.plan import plan
from slipway.core.validation.acceptance import pod_factory
from slipway.devcluster.native.simulated import node_object
from slipway.devcluster.spec import ClusterSpec, NodePlan, Pool
from tests.controller.things import Time, job_json
from tests.core.build import START

FEW, MANY = 20, 80
"""How many others there are. Of the jobs that wait for the same nodes eight are looked at, which `FEW` has too."""
TYPE, OTHER_TYPE, SLICES = "v5litepod-16", "v5p-32", 2
MINE: Final = "mine"
NO_NODES: Final = "0/4 nodes are available: 4 Insufficient google.com/tpu."
Json = dict[str, Any]


@dataclass(frozen=True)
class Others:
    """What there is of a TPU type beside the job that is looked at."""

    running: int = 0
    """Jobs that run, on nodes of their own."""
    waiting: int = 0
    """Jobs that wait, because there are no nodes for them."""
    free: int = 0
    """Node pools that nobody has."""


class Cluster:
    """What the watches show of it, and the jobs that have their turns."""

    def __init__(self, others: Mapping[str, Others]) -> None:
        """With these others, by TPU type."""
        self.now = START
        self.cache = Cache(Settings(whole_cluster=True), lambda: self.now, Time())
        self.jobs: dict[Key, Json] = {}
        self.pods: dict[Key, list[Json]] = {}
        self.version = 0
        self.nodes: dict[str, list[str]] = {}
        """Names of nodes by node pool."""
        for tpu_type, there in others.items():
            pool = Pool(kind="simulated", type=tpu_type, count=there.running * SLICES + there.free)
            pools = [
                [*nodes] for _, nodes in groupby(ClusterSpec(name="test", pools=[pool]).nodes(), attrgetter("pool"))
            ]
            held = there.running * SLICES
            self.add_nodes(pools[:held])
            for number in range(there.running):
                name = f"running-{tpu_type}-{number}"
                self.submit(name, tpu_type).settle(name).run(name)
            for number in range(there.waiting):
                self.submit(name := f"waiting-{tpu_type}-{number}", tpu_type).settle(name)
            self.add_nodes(pools[held:])

    def add_nodes(self, pools: list[list[NodePlan]]) -> None:
        for one in chain.from_iterable(pools):
            body = self.versioned(node_object(one, START.isoformat()))
            self.cache.nodes.observe(Applied(msgspec.convert(body, Node)))
            self.nodes.setdefault(one.pool, []).append(one.name)

    def versioned(self, body: Json) -> Json:
        self.version += 1
        metadata = body["metadata"]
        return body | {"metadata": {"uid": metadata["name"], **metadata, "resourceVersion": str(self.version)}}

    def submit(self, name: str, tpu_type: str = TYPE) -> "Cluster":
        self.now += timedelta(seconds=1)
        spec = {"image": "busybox:1", "slices": SLICES, "accelerator": {"type": tpu_type}}
        body = job_json(uid=name, name=name, spec=spec)
        body["metadata"]["creationTimestamp"] = self.now.isoformat()
        self.store(body)
        return self

    def store(self, body: Json) -> None:
        self.jobs["ns", body["metadata"]["name"]] = body = self.versioned(body)
        self.cache.jobs.upsert(body)

    def decide(self, key: Key) -> Plan:
        snapshot = self.cache.snapshot(key)
        assert snapshot is not None
        return plan(snapshot, self.now)

    def settle(self, name: str) -> "Cluster":
        """Give a job its turns until there is nothing to do."""
        for _ in range(10):
            decision, before = self.decide(("ns", name)), self.jobs["ns", name]
            self.carry_out(decision, before)
            if self.jobs["ns", name] is before and not decision.actions:
                return self
        raise AssertionError(f"no rest: {decision}")

    def carry_out(self, decision: Plan, body: Json) -> None:
        key = "ns", body["metadata"]["name"]
        job = self.cache.jobs.get(key)
        assert job is not None
        if decision.status != job.status:
            self.store(body | {"status": decision.status.model_dump(mode="json", by_alias=True, exclude_none=True)})
        for action in decision.actions:
            self.act(action, self.cache.jobs.get(key) or job)

    def act(self, action: Action, job: Job) -> None:
        match action:
            case Check():
                self.cache.accepted(job)
            case CreatePods():
                self.cache.claims.take(job.key, job.uid, action.attempt, action.pools)
                factory = pod_factory(job, self.cache.settings, action.pools)
                self.pods[job.key] = [self.versioned(factory.pod(action.attempt, one)) for one in action.places]
                for number, place in enumerate(action.places):
                    if action.pools.get(place.slice):
                        self.change(job.name, number, "Pending", {"waiting": {"reason": "ContainerCreating"}})
                    else:
                        self.wait(job.name, number)
            case DeletePods():
                self.terminate(job.name)
            case CreateServices():
                self.cache.served(job, action.attempt, self.now)
            case Refresh():
                self.answer(action, job)

    def answer(self, asked: Refresh, job: Job) -> None:
        """What is read is as the watches have shown it; there are no pods of others and no Events."""
        if asked.pods:
            found = [msgspec.convert(one, Pod) for one in self.pods.get(job.key, ())]
            self.cache.pods_listed(job, found, str(self.version), self.now)
        for name in asked.nodes:
            self.cache.node_read(name, self.now)
        for name in asked.visitors:
            self.cache.visitors_read(name, Visitors(self.now))
        for uid in asked.events:
            self.cache.events_read(uid, PodEvents(self.now))

    def change(self, name: str, number: int, phase: str, state: Json) -> None:
        """The kubelet says how a pod is."""
        worker = {"name": "worker", "state": state}
        pod, labels = self.pods["ns", name][number], self.pods["ns", name][number]["metadata"]["labels"]
        node = self.nodes[labels[names.LABEL_NODE_POOL]][int(labels[names.LABEL_HOST])]
        changed = pod | {
            "spec": pod["spec"] | {"nodeName": node},
            "status": {"phase": phase, "containerStatuses": [worker]},
        }
        self.show(name, number, changed)

    def wait(self, name: str, number: int) -> None:
        """The scheduler finds no node for a pod."""
        why = {"reason": "Unschedulable", "message": NO_NODES, "lastTransitionTime": self.now.isoformat()}
        condition = {"type": "PodScheduled", "status": "False", **why}
        pod = self.pods["ns", name][number]
        self.show(name, number, pod | {"status": {"phase": "Pending", "conditions": [condition]}})

    def show(self, name: str, number: int, pod: Json) -> None:
        self.pods["ns", name][number] = pod = self.versioned(pod)
        debounce.observe(self.cache, Applied(msgspec.convert(pod, Pod)), "")

    def terminate(self, name: str) -> None:
        """The kubelets terminate the containers of deleted pods, and the pods are gone."""
        for number in range(len(self.pods["ns", name])):
            self.change(name, number, "Failed", self.ended(143))
            gone = self.versioned(self.pods["ns", name][number])
            debounce.observe(self.cache, Deleted(msgspec.convert(gone, Pod)), "")
        del self.pods["ns", name]

    def ended(self, code: int) -> Json:
        return {"terminated": {"exitCode": code, "reason": "Error", "finishedAt": self.now.isoformat()}}

    def run(self, name: str) -> "Cluster":
        """The pods of a job run."""
        for number in range(len(self.pods["ns", name])):
            self.change(name, number, "Running", {"running": {"startedAt": self.now.isoformat()}})
        return self.settle(name)

    def fail(self, name: str) -> "Cluster":
        """A pod of a job fails."""
        self.change(name, 0, "Failed", self.ended(1))
        return self.settle(name)


Step = Callable[[Cluster], object]
WAITS: dict[str, Step] = {
    "is submitted": lambda cluster: cluster.submit(MINE),
    "waits, or gets node pools and pods": lambda cluster: cluster.settle(MINE),
}
RUNS: dict[str, Step] = {
    **WAITS,
    "runs": lambda cluster: cluster.run(MINE),
    "loses a pod and begins again": lambda cluster: cluster.fail(MINE),
}


def bytecodes(step: Step, cluster: Cluster) -> int:
    count, before = 0, sys.gettrace()

    def within(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal count
        count += event == "opcode"
        return within

    def entered(frame: FrameType, *_: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return within

    # What a collection of garbage calls would count, too.
    gc.collect()
    gc.disable()
    sys.settrace(entered)
    try:
        step(cluster)
    finally:
        sys.settrace(before)
        gc.enable()
    return count


FREE = Others(free=SLICES)
EXPLANATIONS = 3
END = {True: ("WaitingForCapacity", 0, ["NodesHeld"]), False: ("Starting", 1, ["Scheduled"])}
"""Phase, attempt and the reason of CapacityAvailable at last, by whether the job waits."""
CASES: dict[str, tuple[dict[str, Step], Callable[[int], Mapping[str, Others]], int]] = {
    "jobs run": (RUNS, lambda number: {TYPE: Others(running=number, free=SLICES)}, 0),
    "node pools are free": (RUNS, lambda number: {TYPE: Others(free=number)}, 0),
    "jobs run elsewhere": (RUNS, lambda number: {OTHER_TYPE: Others(running=number), TYPE: FREE}, 0),
    "jobs wait for other nodes": (RUNS, lambda number: {OTHER_TYPE: Others(waiting=number, running=1), TYPE: FREE}, 0),
    # The place in the order of their age is looked for in halves.
    "jobs wait for the same nodes": (WAITS, lambda number: {TYPE: Others(waiting=number, running=1)}, 1),
    "jobs run on the nodes that it waits for": (
        WAITS,
        lambda number: {TYPE: Others(waiting=1, running=number)},
        EXPLANATIONS * SLICES * 1100,
    ),
    "jobs run elsewhere while it waits": (
        WAITS,
        lambda number: {OTHER_TYPE: Others(running=number), TYPE: Others(waiting=1, running=1)},
        EXPLANATIONS * SLICES * 400,
    ),
}
"""What there is many times: what the job goes through, the cluster by the number of others, bytecodes for each of them.

Those of a job that waits are for each of its explanations and each node pool of four nodes.
"""


@pytest.mark.parametrize("case", CASES)
def test_a_job_costs_no_more_while_many(case: str) -> None:
    steps, others, limit = CASES[case]

    def costs(number: int) -> dict[str, int]:
        cluster = Cluster(others(number))
        found = {what: bytecodes(step, cluster) for what, step in steps.items()}
        status = cluster.jobs["ns", MINE]["status"]
        seen = (
            status["phase"],
            status["attempt"],
            [one["reason"] for one in status["conditions"] if one["type"] == "CapacityAvailable"],
        )
        assert seen == END[steps is WAITS]
        return found

    costs(FEW)  # What a process makes once is made here.
    few, many = costs(FEW), costs(MANY)
    assert min(few.values()) > 1000
    more = {what: (many[what] - few[what]) / (MANY - FEW) for what in steps}
    assert {what: each for what, each in more.items() if each > limit} == {}

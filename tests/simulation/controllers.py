"""The control plane's other hands: scheduler, node lifecycle, taint manager, cloud, garbage collectors."""

from collections.abc import Callable
from typing import Final

from slipway.api import names
from slipway.core.model.nodes import Node, NodeMetadata, NodeSpec, NodeStatus, Taint
from slipway.core.model.pod_parts import PodCondition
from slipway.core.model.pods import ENDED_PHASES
from tests.simulation import pods
from tests.simulation.cluster import Cluster
from tests.simulation.machines import Machine
from tests.simulation.store import PodRecord, replace
from tests.simulation.timeline import Timer
from tests.simulation.truth import Violation

UNREACHABLE: Final = "node.kubernetes.io/unreachable"
TOLERATED_SECONDS: Final = 30.0
"""Slipway's pods tolerate an unreachable node for this long."""
GC_QUARANTINE: Final = 40.0
"""How long pod garbage collection waits after a node is gone; it looks every 20 s."""


class Controllers:
    """What a cluster does with pods and nodes by itself."""

    def __init__(self, cluster: Cluster, labels: dict[str, str]) -> None:
        """`labels` are those of every node with TPUs, beside its pool."""
        self._cluster = cluster
        self._labels = labels
        self._timeline = cluster.timeline
        self._store = cluster.store
        self._rng = cluster.rng
        self._scheduling = False
        self._collecting = False
        self._unreachable: dict[str, list[Timer]] = {}
        self.on_collect: Callable[[set[str]], None] = lambda owners: None
        """Has others collect what those owners do not own."""
        cluster.wake_scheduler = self.schedule_soon
        cluster.on_orphan = self.collect_soon
        cluster.store.on_job_gone = self.collect_soon

    def register(self, machine: Machine) -> None:
        """A machine's kubelet makes its Node, or finds it there."""
        self._cluster.machines[machine.name] = machine
        if machine.name in self._store.nodes:
            self.ready(machine)
            return
        node = Node(
            NodeMetadata(
                machine.name,
                uid=self._store.new_uid("node"),
                creation_timestamp=self._store.second(),
                labels=(self._labels if machine.tpu else {}) | {names.NODE_POOL: machine.pool},
            ),
            status=NodeStatus((self._condition("True", "KubeletReady"),)),
        )
        self._store.put_node(node)
        self.schedule_soon()

    def _condition(self, status: str, reason: str) -> PodCondition:
        return PodCondition("Ready", status, reason, "", self._store.second())

    def ready(self, machine: Machine) -> None:
        """A node is heard of again, unless its machine has died meanwhile."""
        if not machine.speaks:
            return
        for timer in self._unreachable.pop(machine.name, []):
            timer.cancel()
        node = self._store.nodes.get(machine.name)
        if node is None:
            if self._cluster.machines.get(machine.name) is machine:
                self.register(machine)
            return
        if node.ready is None or node.ready.status != "True":
            status = NodeStatus((self._condition("True", "KubeletReady"),))
            self._store.put_node(replace(node, spec=NodeSpec(), status=status))
        self.schedule_soon()

    def back(self, machine: Machine) -> None:
        """A kubelet that was given up is heard of: at first its node is not ready."""
        node = self._store.nodes.get(machine.name)
        if node is not None and node.ready is not None and node.ready.status == "Unknown":
            status = NodeStatus((self._condition("False", "KubeletNotReady"),))
            self._store.put_node(replace(node, status=status))

    def silent(self, machine: Machine) -> None:
        """A node stops sending heartbeats: 40 to 50 s later the control plane gives it up."""
        wait = self._rng.uniform(40.0, 50.0)
        timer = self._timeline.after(wait, lambda: self._give_up(machine))
        self._unreachable.setdefault(machine.name, []).append(timer)

    def _give_up(self, machine: Machine) -> None:
        node = self._store.nodes.get(machine.name)
        if node is None or machine.speaks or self._cluster.machines.get(machine.name) is not machine:
            return
        self._cluster.say("node %s is not ready", machine.name)
        taints = (
            *node.spec.taints,
            Taint(UNREACHABLE, "NoSchedule", self._store.second()),
            Taint(UNREACHABLE, "NoExecute", self._store.second()),
        )
        status = NodeStatus((self._condition("Unknown", "NodeStatusUnknown"),))
        self._store.put_node(replace(node, spec=NodeSpec(taints), status=status))
        timer = self._timeline.after(TOLERATED_SECONDS, lambda: self._evict_all(machine.name))
        self._unreachable.setdefault(machine.name, []).append(timer)

    def _evict_all(self, node: str) -> None:
        for record in self._on(node):
            if record.pod.status.phase not in ENDED_PHASES:
                pods.disrupt(
                    self._store, record, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
                )
                pods.delete(self._store, record)

    def _on(self, node: str) -> list[PodRecord]:
        return [record for record in self._store.pods.values() if record.pod.spec.node_name == node]

    def forget_node(self, name: str) -> None:
        """The cloud says that there is no such machine: its Node goes, and its pods some time later."""
        for timer in self._unreachable.pop(name, []):
            timer.cancel()
        if name not in self._store.nodes:
            return
        self._cluster.say("node %s is deleted", name)
        self._store.drop_node(name)
        self._cluster.forgotten(name)
        self._timeline.after(GC_QUARANTINE + self._rng.uniform(0.0, 22.0), lambda: self._collect_pods(name))

    def _collect_pods(self, node: str) -> None:
        """Pod garbage collection: the node is still not there."""
        if node in self._store.nodes:
            return
        for record in self._on(node):
            if record.pod.status.phase not in ENDED_PHASES:
                why = pods.condition(self._store, "DisruptionTarget", "DeletionByPodGC", "PodGC: node no longer exists")
                pods.add_condition(self._store, record, why, phase="Failed")
            pods.delete(self._store, record, 0)

    def collect_soon(self) -> None:
        """Garbage collection of what has no owner any more."""
        if not self._collecting:
            self._collecting = True
            self._timeline.after(self._rng.uniform(0.3, 5.0), self._collect_dependents)

    def _collect_dependents(self) -> None:
        self._collecting = False
        going = {
            name: str(job["metadata"]["uid"])
            for name, job in self._store.jobs.items()
            if job["metadata"].get("deletionTimestamp")
        }
        owners = self._store.owners() - set(going.values())
        for key, owner in list(self._store.dependents.items()):
            if owner not in owners:
                del self._store.dependents[key]
        for record in list(self._store.pods.values()):
            if record.owner not in owners and not record.pod.terminating:
                pods.delete(self._store, record)
        self.on_collect(owners)
        kept = {one["metadata"].get("ownerReferences", [{}])[0].get("uid") for one in self._store.workloads.values()}
        for name, uid in going.items():
            if uid in kept or any(record.owner == uid for record in self._store.pods.values()):
                self.collect_soon()
            else:
                self._store.drop_job(name)

    def schedule_soon(self) -> None:
        """The scheduler looks at what waits, in a moment."""
        if not self._scheduling:
            self._scheduling = True
            self._timeline.after(self._rng.uniform(0.02, 0.4), self._schedule)

    def _schedule(self) -> None:
        self._scheduling = False
        waiting = list(self._store.pods.values())
        # Which of many new pods it hears of first is anybody's guess.
        self._rng.shuffle(waiting)
        for record in waiting:
            pod = record.pod
            if pod.spec.node_name or pod.terminating or pod.ended:
                continue
            machine = self._place(record)
            if machine is not None:
                pods.bind(self._store, record, machine.name)
                self._check_pools(record)
                self._cluster.bound(record, machine)
            elif pod.condition("PodScheduled", "False") is None:
                said = f"0/{len(self._store.nodes)} nodes are available"
                missing = pods.condition(self._store, "PodScheduled", "Unschedulable", said, "False")
                pods.set_status(self._store, record, conditions=(missing,))

    def _place(self, record: PodRecord) -> Machine | None:
        """A free host that has the labels asked for; with affinity, in the pool of its slice or in one without any."""
        used: set[str] = set()
        mine: set[str] = set()
        taken = set(record.kept_out)
        for other in self._store.pods.values():
            node = other.pod.spec.node_name
            if not node or other.pod.status.phase in ENDED_PHASES:
                continue
            used.add(node)
            if node in self._cluster.machines:
                pool = self._cluster.machines[node].pool
                if other.slice_key == record.slice_key:
                    mine.add(pool)
                elif other.exclusive or record.exclusive:
                    taken.add(pool)
        for machine in self._cluster.machines.values():
            if machine.name in used or machine.pool in taken or not self._open(machine, record):
                continue
            if record.exclusive and mine and machine.pool not in mine:
                continue
            if record.selector.items() <= self._store.nodes[machine.name].metadata.labels.items():
                return machine
        return None

    def _check_pools(self, bound: PodRecord) -> None:
        """Chips of two node pools are not connected, and a slice that shares its pool keeps another from it.

        So does one that is there before the slice that was pinned to it.
        """
        shape = self._cluster.shape_of(bound.pod.metadata.labels.job_uid)
        if shape.tpu is None or shape.hosts == 1:
            return
        pool = self._cluster.machines[bound.pod.spec.node_name].pool
        for other in self._store.pods.values():
            same = other.owner == bound.owner and other.pod.attempt == bound.pod.attempt
            if other.pod.status.phase in ENDED_PHASES or not same:
                continue
            if other.slice_key != bound.slice_key and other.pod.metadata.labels.node_pool == pool:
                raise Violation(f"{bound.pod.metadata.name} is in {pool}, where {other.pod.metadata.name} has to go")
            machine = self._cluster.machines.get(other.pod.spec.node_name)
            if machine is None:
                continue
            if (other.slice_key == bound.slice_key) != (machine.pool == pool):
                raise Violation(f"{bound.pod.metadata.name} is in {pool}, {other.pod.metadata.name} in {machine.pool}")

    def _open(self, machine: Machine, record: PodRecord) -> bool:
        """Whether a machine takes pods, and such ones: nodes with TPUs are tainted."""
        node = self._store.nodes.get(machine.name)
        if machine.tpu is not bool(record.selector):
            return False
        fit = node is not None and not node.spec.taints and node.ready is not None and node.ready.status == "True"
        return fit and self._timeline.now >= machine.taken_until

"""Builders for planner tests: a small world that says only what a test is about.

world = World(slices=2, hosts=2)
world.begin()                     # attempt 0 has its pods
world.run()                       # every worker runs
world.pod(0, 1).exits(1)
plan = world.plan()
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from slipway.api.places import Place, pod_name
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, Condition, SliceJobStatus
from slipway.core.model.container_states import (
    ContainerState,
    ContainerStatus,
    Device,
    Devices,
    Running,
    Terminated,
    Waiting,
)
from slipway.core.model.events import PodEvent, PodEvents
from slipway.core.model.job import Job
from slipway.core.model.nodes import Node, NodeMetadata, Taint
from slipway.core.model.pod_parts import PodCondition, PodLabels, PodMetadata, PodSpec
from slipway.core.model.pods import ENDED_PHASES, Pod
from slipway.core.model.site import Site
from slipway.core.planner.contract.actions import (
    Action,
    CreatePods,
    CreateServices,
    DeletePods,
    ForceDeletePod,
    Plan,
    Refresh,
)
from slipway.core.planner.contract.freshness import EVER, Horizon
from slipway.core.planner.contract.snapshot import (
    KubeletLease,
    LostNode,
    OwnDeletions,
    Printed,
    Rejection,
    Snapshot,
    Vanished,
)
from slipway.core.planner.lifecycle.fencing import LATE
from slipway.core.planner.plan import plan
from slipway.core.planner.status.events import cursor_of, news

START = datetime(2026, 11, 21, 12, 0, 0, tzinfo=UTC)
UNLIMITED = Site(limits=())
"""The site of jobs in tests that are about no limits."""
UID = "11111111-2222-3333-4444-555555555555"


def spec(**fields: Any) -> SliceJobSpec:
    """A spec; fields in camelCase as in YAML."""
    return SliceJobSpec.model_validate({"image": "busybox:1"} | fields)


def world_at(site: Site, **fields: Any) -> "World":
    """A world whose job is under that site."""
    world = World(**fields)
    world.sited = lambda given, _: (given, site)
    return world


HEAD_KEY = (-1, -1)
"""Stands for slice and host in the key of a Ray head."""


@dataclass
class PodHandle:
    """Changes one pod of a world as the cluster would."""

    world: "World"
    key: tuple[int, int, int]

    @property
    def now(self) -> Pod:
        return self.world.pods[self.key]

    def _status(self, **changes: Any) -> "PodHandle":
        pod = self.now
        self.world.pods[self.key] = msgspec.structs.replace(pod, status=msgspec.structs.replace(pod.status, **changes))
        return self

    def _worker(self, state: ContainerState, phase: str) -> "PodHandle":
        before = next(iter(self.now.status.container_statuses), ContainerStatus("worker"))
        devices = before.allocated_resources_status
        worker = ContainerStatus("worker", state, allocated_resources_status=devices)
        return self._status(phase=phase, container_statuses=(worker,))

    def binds(self, node: str | None = None) -> "PodHandle":
        _, slice_index, host = self.key
        name = node or f"node-{slice_index}-{host}"
        self.world.nodes.setdefault(name, a_node(name))
        spec = msgspec.structs.replace(self.now.spec, node_name=name, scheduling_gates=())
        self.world.pods[self.key] = msgspec.structs.replace(self.now, spec=spec)
        return self.has("PodScheduled", reason="")

    def runs(self, since: datetime | None = None) -> "PodHandle":
        if not self.now.spec.node_name:
            self.binds()
        return self._worker(ContainerState(running=Running(since or self.world.now)), "Running")

    def waits(self, reason: str, message: str = "") -> "PodHandle":
        return self._worker(ContainerState(waiting=Waiting(reason, message)), "Pending")

    def exits(self, code: int, *, reason: str = "", message: str = "", at: datetime | None = None) -> "PodHandle":
        if not self.now.spec.node_name:
            self.binds()
        ended = Terminated(code, reason or ("Completed" if code == 0 else "Error"), message, at or self.world.now)
        return self._worker(ContainerState(terminated=ended), "Succeeded" if code == 0 else "Failed")

    def fails(self, reason: str, message: str = "") -> "PodHandle":
        """Phase Failed without any container status, as a kubelet's refusal looks."""
        if not self.now.spec.node_name:
            self.binds()
        return self._status(phase="Failed", reason=reason, message=message, container_statuses=())

    def breaks(self, *devices: str, health: str = "Unhealthy") -> "PodHandle":
        """The kubelet says of chips of the worker how they are."""
        [status, *others] = self.now.status.container_statuses
        chips = Devices("google.com/tpu", tuple(Device(one, health) for one in devices))
        told = msgspec.structs.replace(status, allocated_resources_status=(chips,))
        return self._status(container_statuses=(told, *others))

    def ends_as(self, phase: str, reason: str = "", message: str = "") -> "PodHandle":
        return self._status(phase=phase, reason=reason, message=message)

    def has(self, kind: str, reason: str, *, status: str = "True", message: str = "") -> "PodHandle":
        others = tuple(one for one in self.now.status.conditions if one.type != kind)
        return self._status(conditions=(*others, PodCondition(kind, status, reason, message, self.world.now)))

    def unschedulable(self, message: str = "0/4 nodes are available") -> "PodHandle":
        return self.has("PodScheduled", "Unschedulable", status="False", message=message)

    def is_deleted(self, grace: int = 30) -> "PodHandle":
        pod = self.now
        self.world.pods[self.key] = msgspec.structs.replace(
            pod,
            metadata=msgspec.structs.replace(
                pod.metadata,
                deletion_timestamp=self.world.now.replace(microsecond=0) + timedelta(seconds=grace),
                deletion_grace_period_seconds=grace,
            ),
        )
        return self

    def vanishes(self, *, seen: bool = False) -> "PodHandle":
        """The pod leaves the API, in the state in which it is; `seen` when the watch shows that."""
        now = self.world.now
        self.world.vanished.append(Vanished(self.world.pods.pop(self.key), now, now if seen else None))
        return self


def a_node(name: str, *, created: datetime = START - timedelta(days=1)) -> Node:
    """A ready node."""
    return Node(NodeMetadata(name, uid=f"uid-{name}", creation_timestamp=created))


class World:
    """One job, its pods and nodes, and a clock that moves when told."""

    def __init__(self, *, slices: int = 1, hosts: int | None = 1, **fields: Any) -> None:
        self.fields: dict[str, Any] = {"slices": slices, "hosts": hosts} | fields
        self.read: tuple[SliceJobSpec | None, str] | None = None
        """The spec and the problem as they were read, where that is not what `fields` say."""
        self.now = START
        self.status = SliceJobStatus()
        self.pods: dict[tuple[int, int, int], Pod] = {}
        self.vanished: list[Vanished] = []
        self.nodes: dict[str, Node] = {}
        self.lost: dict[str, LostNode] = {}
        self.troubled: dict[str, datetime] = {}
        self.events: dict[str, tuple[PodEvent, ...]] = {}
        """Events of pods by UID."""
        self.pod_events: dict[str, PodEvents] = {}
        """Those that were read."""
        self.kubelets: dict[str, KubeletLease] = {}
        self.foreign: tuple[Pod, ...] = ()
        self.vanished_foreign: tuple[Vanished, ...] = ()
        self.rejection: Rejection | None = None
        self.checked, self.deleting = True, False
        self.rivals: tuple[Job, ...] = ()
        self.written: datetime | None = None
        self.answers = True
        """Whether the API server answers what a plan asks to be read."""
        self.leading_since = START - timedelta(hours=1)
        self.pods_as_of: datetime | None = None
        self.creates_end = EVER
        self.workload_as_of: datetime | None = None
        self.nodes_as_of: dict[str, datetime] = {}
        self.begun_by_this_process: int | None = None
        self.served: int | None = None
        self.served_at = START
        self.deleted_here = OwnDeletions()
        self.nodes_watched = True
        self.printed: Printed | None = None
        """What was read of the log of rank 0."""
        self.told: list[str] = []
        self.queue: str | None = None
        self.sited: Callable[[SliceJobSpec, SliceJobStatus], tuple[SliceJobSpec, Site]] = lambda spec, _: (
            spec,
            UNLIMITED,
        )
        """What the site makes of the spec."""
        self.free_pools: dict[int, str] = {}
        """Node pools that slices are pinned to where the planner leaves it open."""

    @property
    def job(self) -> Job:
        given, problem = self.read or (spec(**self.fields), "")
        sited, site = self.sited(given, self.status) if given is not None else (None, UNLIMITED)
        return Job(
            namespace="ml",
            name="train",
            uid=UID,
            generation=1,
            resource_version="1",
            created=START,
            spec=sited,
            given=given,
            status=self.status,
            problem=problem,
            queue=self.queue,
            deleting=self.deleting,
            site=site,
        )

    @property
    def snapshot(self) -> Snapshot:
        return Snapshot(
            job=self.job,
            pods=(*self.pods.values(), *self.foreign),
            vanished=tuple(self.vanished),
            vanished_foreign=self.vanished_foreign,
            nodes=dict(self.nodes),
            lost_nodes=dict(self.lost),
            troubled_nodes=dict(self.troubled),
            checked=self.checked,
            rejection=self.rejection,
            status_written=self.written,
            rivals=self.rivals,
            kubelets=dict(self.kubelets),
            known=Horizon(
                self.leading_since,
                self.pods_as_of,
                None,
                self.creates_end,
                dict(self.nodes_as_of),
                self.workload_as_of,
            ),
            begun_by_this_process=self.begun_by_this_process,
            pod_events=dict(self.pod_events),
            served=self.served,
            served_at=self.served_at,
            deleted_here=self.deleted_here,
            nodes_watched=self.nodes_watched,
            printed=self.printed,
        )

    @property
    def attempt(self) -> Attempt:
        return self.status.attempts[0]

    def plan(self) -> Plan:
        """Decide, without carrying anything out."""
        return plan(self.snapshot, self.now)

    def step(self, seconds: float = 0) -> Plan:
        """Let time pass, decide once and carry it out: status, new pods, deletions."""
        self.now += timedelta(seconds=seconds)
        decision = self.plan()
        self.apply(decision)
        for asked in actions_of(decision, Refresh) if self.answers else ():
            if asked.pods or asked.kubelets or asked.events or asked.workload or self._answerable(asked):
                self.answer(asked)
                return self.step()
        return decision

    def answer(self, asked: Refresh) -> None:
        """The API server answers: pods and nodes are as this world says."""
        if asked.pods:
            self.pods_as_of = self.now
        if asked.workload:
            self.workload_as_of = self.now
        for node in self._answerable(asked):
            self.nodes_as_of[node] = self.now
            if node in self.lost:
                self.lost[node] = replace(self.lost[node], at=self.now)
        for uid in asked.events:
            self.pod_events[uid] = PodEvents(self.now, self.events.get(uid, ()))
        for node in asked.kubelets:
            self.kubelets[node] = KubeletLease(
                self.now, None, self.kubelets[node].same_since if node in self.kubelets else self.now
            )

    def _answerable(self, asked: Refresh) -> set[str]:
        return {*asked.nodes} & {*self.nodes, *self.lost}

    def apply(self, decision: Plan) -> None:
        before = cursor_of(self.status)
        if decision.status != self.status:
            self.written = self.now
        if decision.status.attempt != self.status.attempt:
            self.begun_by_this_process = decision.status.attempt
        # As through the API: what is written is what is read.
        self.status = SliceJobStatus.model_validate_json(
            decision.status.model_dump_json(by_alias=True, exclude_none=True)
        )
        self.told += [one.reason for one in news(before, self.status, self.job.spec)]
        for action in decision.actions:
            self._carry_out(action)

    def _carry_out(self, action: Action) -> None:
        if isinstance(action, CreatePods):
            pools = self.free_pools | dict(action.pools)
            for place in action.places:
                self.add_pod(action.attempt, place, pool=pools.get(place.slice, ""))
        elif isinstance(action, DeletePods):
            for key, pod in list(self.pods.items()):
                meant = action.head if pod.is_head else pod.place.slice in action.slices
                if key[0] != action.attempt or not meant or pod.place in action.except_places:
                    continue
                if action.ended_too or pod.status.phase not in ENDED_PHASES:
                    PodHandle(self, key).is_deleted(30 if action.grace_seconds is None else action.grace_seconds)
                    if pod.ended or not pod.spec.node_name:
                        PodHandle(self, key).vanishes()
        elif isinstance(action, CreateServices):
            self.served, self.served_at = action.attempt, self.now
        elif isinstance(action, ForceDeletePod):
            key = next(key for key, pod in self.pods.items() if pod.metadata.uid == action.uid)
            PodHandle(self, key).vanishes()

    def add_pod(self, attempt: int, place: Place, uid: str = UID, pool: str = "") -> None:
        name, key = pod_name("train", attempt, place), (attempt, place.slice, place.host)
        labels = PodLabels("train", uid, str(attempt), str(place.slice), str(place.host), node_pool=pool)
        if place.is_head:
            key, labels = (attempt, *HEAD_KEY), PodLabels("train", uid, str(attempt), role="head")
        grace = self.status.resolved.grace_period_seconds if self.status.resolved else 30
        spec = PodSpec(termination_grace_period_seconds=grace)
        created = self.now.replace(microsecond=0)
        self.pods[key] = Pod(PodMetadata(name, "ml", f"uid-{name}", creation_timestamp=created, labels=labels), spec)

    def settle(self, limit: int = 10) -> None:
        """Decide and carry out until nothing changes."""
        for _ in range(limit):
            before = (self.status, dict(self.pods))
            self.step()
            if before == (self.status, self.pods):
                return
        raise AssertionError(f"no rest after {limit} decisions: {self.status}")

    def begin(self) -> "World":
        """Decide until the pods of the current attempt exist."""
        self.settle()
        return self

    def run(self) -> "World":
        """Every worker of the current attempt runs."""
        self.begin()
        self.now += timedelta(seconds=2)
        for key in list(self.pods):
            if key[0] == self.status.attempt:
                PodHandle(self, key).runs()
        self.settle()
        self.now += timedelta(seconds=60)
        return self

    def pod(self, slice_index: int, host: int, attempt: int | None = None) -> PodHandle:
        number = self.status.attempt if attempt is None else attempt
        assert number is not None
        return PodHandle(self, (number, slice_index, host))

    def all_pods(self) -> Iterable[PodHandle]:
        return [PodHandle(self, key) for key in list(self.pods)]

    def obey(self) -> None:
        """Kubelets carry out deletions: what was asked to go is killed and goes."""
        for handle in self.all_pods():
            if handle.now.terminating:
                if handle.now.started and not handle.now.ended:
                    handle.exits(143)
                elif handle.now.spec.node_name and not handle.now.ended:
                    # A kubelet removes no pod whose phase is not final.
                    handle.ends_as("Failed")
                handle.vanishes()

    def until_orphans_terminated(self) -> None:
        """The containers of pods that were removed before their kubelets reported an end have had their time."""
        self.settle()
        self.now += timedelta(seconds=self.status.resolved.grace_period_seconds if self.status.resolved else 0) + LATE
        self.settle()

    def until_restarted(self) -> None:
        """Decide, let kubelets obey, decide: the next attempt has its pods, or the job is over."""
        self.settle()
        self.obey()
        self.settle()

    def lose_node(self, name: str) -> None:
        """The Node goes; it was not ready before, as far as that is not known otherwise."""
        if (node := self.nodes.pop(name, None)) is not None:
            self.lost[name] = LostNode(self.now, silent=True)
            ready = node.ready
            away = ready.last_transition_time if ready is not None and ready.status != "True" else None
            self.troubled[name] = away or self.now

    def taint(self, name: str, key: str) -> None:
        node = self.nodes[name]
        self.nodes[name] = msgspec.structs.replace(
            node, spec=msgspec.structs.replace(node.spec, taints=(Taint(key, "NoSchedule", self.now),))
        )

    def not_ready(self, name: str) -> None:
        node, condition = self.nodes[name], PodCondition("Ready", "Unknown", "NodeStatusUnknown", "", self.now)
        self.nodes[name] = msgspec.structs.replace(
            node, status=msgspec.structs.replace(node.status, conditions=(condition,))
        )
        self.troubled[name] = self.now

    def condition(self, kind: str) -> Condition | None:
        return next((one for one in self.status.conditions if one.type == kind), None)


def actions_of(decision: Plan, kind: type[Action]) -> list[Any]:
    """The actions of one kind."""
    return [action for action in decision.actions if isinstance(action, kind)]


Scenario = Callable[[World], None]

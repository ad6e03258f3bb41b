"""What the planner sees: a job, its pods and their nodes at one moment.

The structs mirror the API's JSON and name only the fields that decisions need, so a watch event decodes straight
into them in microseconds and everything else is never even allocated.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import cached_property
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from slipway.api import names
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import SliceJobStatus

Slot = tuple[int, int]
"""(slice index, host index): the place of a worker in its job."""

HEAD: Final[Slot] = (-1, -1)
"""The place of the Ray head, which belongs to no slice."""


class Part(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of a Kubernetes object.

    It never refers to what refers to it, so the garbage collector need not walk over the parts of ten thousand pods.
    """


class PodLabels(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "job_name": names.LABEL_JOB_NAME,
        "job_uid": names.LABEL_JOB_UID,
        "attempt": names.LABEL_ATTEMPT,
        "slice": names.LABEL_SLICE,
        "host": names.LABEL_HOST,
        "role": names.LABEL_ROLE,
        "node_pool": names.LABEL_NODE_POOL,
    },
):
    """Slipway's own labels on a pod; numbers are decimal strings."""

    job_name: str = ""
    job_uid: str = ""
    attempt: str = "0"
    slice: str = "0"
    host: str = "0"
    role: str = names.ROLE_WORKER
    node_pool: str = ""


class PodMetadata(Part, frozen=True):
    """Identity and deletion of a pod."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: PodLabels = PodLabels()


class PodSpec(Part, frozen=True):
    """Where a pod was bound."""

    node_name: str = ""


class PodCondition(Part, frozen=True):
    """A condition of a pod or node."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


class Terminated(Part, frozen=True):
    """How a container ended."""

    exit_code: int
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None


class Waiting(Part, frozen=True):
    """Why a container has not started."""

    reason: str = ""
    message: str = ""


class Running(Part, frozen=True):
    """Since when a container runs."""

    started_at: datetime | None = None


class ContainerState(Part, frozen=True):
    """Exactly one of the three."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class ContainerStatus(Part, frozen=True):
    """A container as the kubelet last reported it."""

    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    """How it was before the kubelet started it anew."""


POD_CONDITIONS: Final = frozenset(("PodScheduled", "Ready", "DisruptionTarget", "TerminationTarget"))
NODE_CONDITIONS: Final = frozenset(("Ready",))


class PodStatus(Part, frozen=True):
    """A pod as the control plane and the kubelet last reported it."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()

    def __post_init__(self) -> None:
        """Keep only the conditions that decisions ask for: the others were a third of what pods and nodes take."""
        force_setattr(self, "conditions", tuple(one for one in self.conditions if one.type in POD_CONDITIONS))


ENDED_PHASES: Final = ("Succeeded", "Failed")


class Pod(Part, frozen=True, gc=True, dict=True):
    """A worker pod; what is derived from it is derived once, for decisions look at every pod of a job."""

    metadata: PodMetadata
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @cached_property
    def attempt(self) -> int:
        """Attempt the pod belongs to; -1 when the label is no number, so that it is never the current one."""
        return _index(self.metadata.labels.attempt)

    @cached_property
    def slot(self) -> Slot:
        """Place of the pod in its job."""
        if self.is_head:
            return HEAD
        return _index(self.metadata.labels.slice), _index(self.metadata.labels.host)

    @cached_property
    def is_head(self) -> bool:
        """Whether it is the pod of the Ray head, whose end is that of its driver."""
        return self.metadata.labels.role == names.ROLE_HEAD

    @cached_property
    def ended(self) -> bool:
        """Whether every container of the pod has ended."""
        return self.status.phase in ENDED_PHASES or self.ending

    @cached_property
    def may_run(self) -> bool:
        """Whether a container of the pod may run, or be started anew.

        A machine that comes back with an empty disk starts every pod of its node whose phase does not say that it has
        ended, whatever is said of its containers.
        """
        return self.status.phase not in ENDED_PHASES

    @cached_property
    def ending(self) -> bool:
        """Whether all containers have ended although the phase does not say so yet: kubelets report that later."""
        containers = self.status.container_statuses
        if not containers or containers[0].state.terminated is None or self.status.phase in ENDED_PHASES:
            return False
        return all(one.state.terminated for one in (*containers, *self.status.init_container_statuses))

    @cached_property
    def going(self) -> bool:
        """Whether somebody asked for its deletion."""
        return self.metadata.deletion_timestamp is not None

    @cached_property
    def going_since(self) -> datetime | None:
        """When its deletion was asked for, to the second."""
        if self.metadata.deletion_timestamp is None:
            return None
        return self.metadata.deletion_timestamp - timedelta(seconds=self.metadata.deletion_grace_period_seconds or 0)

    @cached_property
    def worker(self) -> ContainerState | None:
        """State of the worker container, or of what stands for it in a head pod; None before the kubelet tells."""
        name = names.DRIVER_CONTAINER if self.is_head else names.WORKER_CONTAINER
        for status in self.status.container_statuses:
            if status.name == name:
                return self._unless_ray_ended_first(status.state) if self.is_head else status.state
        return None

    def _unless_ray_ended_first(self, driver: ContainerState) -> ContainerState:
        """The end of Ray itself is the head's end: the kubelet starts Ray anew, but as a cluster without workers."""
        crash = self._ray_end
        if crash is not None and (
            driver.terminated is None or _before(crash.finished_at, driver.terminated.finished_at)
        ):
            return ContainerState(terminated=crash)
        return driver

    @cached_property
    def _ray_end(self) -> Terminated | None:
        for status in self.status.init_container_statuses:
            if status.name == names.RAY_CONTAINER:
                return status.last_state.terminated or status.state.terminated
        return None

    @cached_property
    def end_unseen(self) -> bool:
        """Whether its kubelet only found that the worker was not there any more."""
        end = self.worker.terminated if self.worker is not None else None
        return end is not None and end.reason == "ContainerStatusUnknown"

    @cached_property
    def crashed(self) -> bool:
        """Whether it is a head pod whose driver still runs, or waits, although Ray has ended."""
        containers = self.status.container_statuses
        return self.is_head and self._ray_end is not None and any(one.state.terminated is None for one in containers)

    @cached_property
    def started(self) -> bool:
        """Whether the worker runs or has run; of a head pod, whether all workers have joined it."""
        state = self.worker
        if state is None:
            return self.ended
        if self.is_head and state.terminated is None:
            return self.condition("Ready") is not None
        return state.running is not None or state.terminated is not None

    @cached_property
    def bound_at(self) -> datetime | None:
        """When it was bound to its node, to the second."""
        bound = self.condition("PodScheduled")
        return bound.last_transition_time if bound is not None else None

    @cached_property
    def uneventful(self) -> bool:
        """Whether nothing has ended or disturbed it, as is the case for nearly every pod."""
        return not self.going and self.undisturbed

    @cached_property
    def undisturbed(self) -> bool:
        """Whether nothing has ended in it, and nothing is said of it that would be a reason to end."""
        if self.ended or self.status.reason:
            return False
        worker = self.worker
        if worker is not None and worker.terminated is not None:
            return False
        return not any(self.condition(kind) for kind in ("DisruptionTarget", "TerminationTarget"))

    def condition(self, kind: str, status: str = "True") -> PodCondition | None:
        """The condition of that type when it has that status."""
        for condition in self.status.conditions:
            if condition.type == kind and condition.status == status:
                return condition
        return None


def _before(moment: datetime | None, other: datetime | None) -> bool:
    return moment is not None and other is not None and moment < other


def _index(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return -1


class Taint(Part, frozen=True):
    """A taint of a node."""

    key: str
    effect: str = ""
    time_added: datetime | None = None


class NodeMetadata(Part, frozen=True):
    """Identity of a node."""

    name: str
    uid: str = ""
    resource_version: str = "0"
    creation_timestamp: datetime | None = None
    labels: dict[str, str] = {}


class NodeSpec(Part, frozen=True):
    """Whom a node keeps out."""

    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    """Closed by hand; the taint of that name comes a moment later."""


class NodeStatus(Part, frozen=True):
    """Conditions of a node."""

    conditions: tuple[PodCondition, ...] = ()

    def __post_init__(self) -> None:
        """Keep only the conditions that decisions ask for."""
        force_setattr(self, "conditions", tuple(one for one in self.conditions if one.type in NODE_CONDITIONS))


class Node(Part, frozen=True, gc=True, dict=True):
    """A node that a worker is, or was, on."""

    metadata: NodeMetadata
    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @cached_property
    def ready(self) -> PodCondition | None:
        """The Ready condition, whatever its status."""
        return next((condition for condition in self.status.conditions if condition.type == "Ready"), None)

    @cached_property
    def well(self) -> bool:
        """Whether it is ready, as far as is known, and stays."""
        ready = self.ready
        if ready is not None and ready.status != "True":
            return False
        return not any(taint.key in names.TAINTS_OF_LOSS for taint in self.spec.taints)

    def taint(self, key: str) -> Taint | None:
        """The taint of that key."""
        if not self.spec.taints:
            return None
        return next((taint for taint in self.spec.taints if taint.key == key), None)


@dataclass(frozen=True, slots=True)
class Vanished:
    """A pod that is gone from the API, as it was last seen."""

    pod: Pod
    at: datetime
    """When its absence was noticed."""


POD_REJECTED: Final = "PodRejected"
QUOTA_EXCEEDED: Final = "QuotaExceeded"
NAME_TAKEN: Final = "NameTaken"
WAITING_FOR_OLD: Final = "WaitingForOldPods"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why something the job needs could not be created."""

    message: str
    at: datetime
    reason: str = POD_REJECTED
    """POD_REJECTED, QUOTA_EXCEEDED when only a quota stands in the way, NAME_TAKEN by an object of somebody else, or
    WAITING_FOR_OLD objects of an earlier job of this name."""

    @property
    def final(self) -> bool:
        """Whether waiting will hardly help."""
        return self.reason == POD_REJECTED

    @property
    def of_names(self) -> bool:
        """Whether a name that the job needs is taken."""
        return self.reason in (NAME_TAKEN, WAITING_FOR_OLD)


@dataclass(frozen=True, slots=True)
class Job:
    """A SliceJob as it was last read."""

    namespace: str
    name: str
    uid: str
    generation: int
    resource_version: str
    created: datetime
    spec: SliceJobSpec | None
    """None when the spec cannot be read; `problem` says why."""
    status: SliceJobStatus
    problem: str = ""
    deleting: bool = False

    @property
    def attempt_ended(self) -> bool:
        """Whether the last attempt has ended, so that its pods only have to go."""
        return bool(self.status.attempts) and self.status.attempts[0].end_time is not None

    @property
    def granted(self) -> int:
        """Slices of the current attempt."""
        return self.status.slices.granted if self.status.slices else self.spec.most_slices if self.spec else 0


@dataclass(frozen=True, slots=True)
class Settings:
    """What the operator was started with, as far as decisions depend on it."""

    coordinator_port: int = names.DEFAULT_COORDINATOR_PORT
    topology_key: str = names.NODE_POOL
    """Node label whose values are TPU slices."""
    whole_cluster: bool = False
    """Whether this operator serves all namespaces, so that it knows the pods of every job."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything one decision is made from."""

    job: Job
    pods: tuple[Pod, ...] = ()
    """Every pod in the API that carries the job's name, whatever its attempt and job UID."""
    vanished: tuple[Vanished, ...] = ()
    """Pods of this job UID that were seen and are gone."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """Known nodes by name; may hold more than this job's."""
    lost_nodes: Mapping[str, datetime] = field(default_factory=dict)
    """Nodes that the API server denies, and since when."""
    nodes_watched: bool = True
    """Whether nodes can be seen at all."""
    checked: bool = False
    """Whether the API server took host 0 in a dry run for this generation."""
    rejection: Rejection | None = None
    """Why the API server refused a pod of this generation, in a dry run or for real."""
    listed_at: datetime | None = None
    """When the job's pods were last asked for, rather than heard of; None when they never were."""
    older_waits: bool = False
    """Whether an older job waits for capacity of the same shape."""
    asked_to_go: frozenset[str] = frozenset()
    """UIDs of pods whose deletion the API server has confirmed but the watch has not shown yet."""
    served: int | None = None
    """The last attempt whose Services this process has seen to."""
    nodes_asked: int | None = None
    """The last attempt about whose unseen ends this process has asked the nodes."""
    begun_here: int | None = None
    """The last attempt that this process has begun, or tried to."""
    status_written: datetime | None = None
    """When this process last wrote the status."""
    settings: Settings = Settings()

    def machine_gone(self, pod: Pod) -> bool:
        """Whether the machine a pod was bound to is gone: its node was lost, or a younger one has its name."""
        return self.machine_gone_since(pod) is not None

    def machine_gone_since(self, pod: Pod) -> datetime | None:
        """By when the machine a pod was bound to was gone; None when it may be there.

        A node that is merely unknown proves nothing: pods and nodes come through different watches, and a pod may
        be seen on a new node before the node itself.
        """
        name, since = pod.spec.node_name, pod.bound_at
        if not name:
            return None
        node = self.nodes.get(name)
        if node is None:
            lost = self.lost_nodes.get(name)
            return lost if lost is not None and (since is None or since <= lost) else None
        created = node.metadata.creation_timestamp
        return created if created is not None and since is not None and created > since else None

    def machine_well(self, pod: Pod) -> bool:
        """Whether nothing is wrong with the machine a pod was bound to, as far as nodes can be seen."""
        node = self.nodes.get(pod.spec.node_name)
        if node is None:
            return not self.nodes_watched
        if node.ready is not None and node.ready.status != "True":
            return False
        return not self.machine_gone(pod)

    def ready_since(self, pod: Pod) -> datetime | None:
        """Since when the machine a pod was bound to is ready."""
        node = self.nodes.get(pod.spec.node_name)
        return node.ready.last_transition_time if node is not None and node.ready is not None else None

    def unknown_nodes(self, pods: Iterable[Pod]) -> tuple[str, ...]:
        """Nodes of these pods of which it is not known whether they are there."""
        if not self.nodes_watched:
            return ()
        unseen = [pod for pod in pods if pod.spec.node_name and pod.spec.node_name not in self.nodes]
        return tuple(sorted({pod.spec.node_name for pod in unseen if not self.machine_gone(pod)}))

    def vanished_of(self, attempt: int) -> Iterator[Pod]:
        """The pods of an attempt that are gone, as they were last seen."""
        return (lost.pod for lost in self.vanished if lost.pod.attempt == attempt)

    def own_pods(self) -> Iterator[Pod]:
        """Pods of this very job, not of an earlier one of the same name."""
        return (pod for pod in self.pods if pod.metadata.labels.job_uid == self.job.uid)

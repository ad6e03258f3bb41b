"""The input of the planner: a job, its pods and their nodes at one moment."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Final

from slipway.api.progress import ProgressState
from slipway.api.status import Attempt
from slipway.core.model.events import PodEvents
from slipway.core.model.job import Job, Settings
from slipway.core.model.nodes import Node
from slipway.core.model.pods import Pod
from slipway.core.model.roster import Roster
from slipway.core.model.workload import Kueue
from slipway.core.planner.contract.freshness import EVER, Horizon
from slipway.core.planner.contract.pool_pinning import NodePools
from slipway.core.vocabulary.reasons import (
    MISSING_OBJECTS,
    NAME_TAKEN,
    POD_REJECTED,
    QUOTA_EXCEEDED,
    WAITING_FOR_OLD,
    WEBHOOK_UNAVAILABLE,
)


@dataclass(frozen=True, slots=True)
class Vanished:
    """A pod that the API server no longer has, in its last version."""

    pod: Pod
    at: datetime
    """When its absence was noticed."""
    removed_at: datetime | None = None
    """When the API server deleted it, if its last version shows that."""


@dataclass(frozen=True, slots=True)
class OwnDeletions:
    """The pods of the ended attempt that this process has deleted."""

    uids: frozenset[str] = frozenset()
    complete: bool = False
    """Whether there are no others: the process itself ended the attempt, and every deletion was answered."""

    def has(self, uid: str) -> bool | None:
        """Whether this process has deleted a pod; None when it does not know."""
        return uid in self.uids or (False if self.complete else None)


@dataclass(frozen=True, slots=True)
class LostNode:
    """A Node that the API server no longer has."""

    at: datetime
    """When it was found to be gone."""
    silent: bool = False
    """Whether it was last seen NotReady because its kubelet had stopped posting its status."""
    created: datetime | None = None
    """When the last Node of that name was created, if it was seen: pods may have been bound to one before it."""
    pods: frozenset[str] = frozenset()
    """UIDs of pods that were seen to be bound to a Node of that name before the API server was asked."""

    def gone_since(self, pod: Pod) -> datetime | None:
        """By when the Node that a pod was bound to was gone; None when the pod may be on a later Node."""
        bound_at = pod.bound_at
        if bound_at is not None and self.created is not None and self.created > bound_at:
            return self.created
        sure = pod.metadata.uid in self.pods or bound_at is None or bound_at + SKEW <= self.at
        return self.at if sure else None


@dataclass(frozen=True, slots=True)
class KubeletLease:
    """The Lease of a kubelet in kube-node-lease."""

    read_at: datetime
    """When it was last read."""
    renewed_at: datetime | None
    """Its renewTime, by the kubelet's clock; None when there is no Lease."""
    same_since: datetime
    """When it was first read with this renewTime."""
    duration: timedelta = timedelta(seconds=40)
    """For how long a renewal holds."""
    forbidden: bool = False
    """Whether the role of the operator does not allow it to read the Lease. Then nothing is proven."""


SKEW: Final = timedelta(seconds=5)
"""How far the clocks of the API servers, of the kubelets and of Slipway may be apart.

A pod bound so shortly before its Node was denied may be on the next Node of that name, unless it was seen before that.
"""
_MAY_PASS: Final = frozenset({QUOTA_EXCEEDED, WEBHOOK_UNAVAILABLE, MISSING_OBJECTS, NAME_TAKEN, WAITING_FOR_OLD})


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why an object of the job could not be created."""

    message: str
    at: datetime
    reason: str = POD_REJECTED
    """One of `explain.api_server.ROWS`, or POD_REJECTED or WORKLOAD_REJECTED where none fits; NAME_TAKEN by an object
    that is not of the job; WAITING_FOR_OLD if the object belongs to an earlier job of this name."""

    @property
    def final(self) -> bool:
        """Whether only a change by a user will help."""
        return self.reason not in _MAY_PASS

    @property
    def of_names(self) -> bool:
        """Whether a name that the job needs is taken."""
        return self.reason in (NAME_TAKEN, WAITING_FOR_OLD)


@dataclass(frozen=True, slots=True)
class Printed:
    """What was read of the log of an attempt for `spec.progress`."""

    attempt: int
    opened: bool = False
    """Whether the API server has sent the log, so that what is not in `progress` was not printed."""
    problem: tuple[str, str] | None = None
    """Reason and message of why the log cannot be read."""
    progress: ProgressState | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything that one plan is made from."""

    job: Job
    pods: tuple[Pod, ...] = ()
    """Every pod in the API that carries the job's name, whatever its attempt and job UID."""
    vanished: tuple[Vanished, ...] = ()
    """Pods of this job UID that were seen and that the API server no longer has."""
    vanished_foreign: tuple[Vanished, ...] = ()
    """Pods of earlier jobs of this name that the API server no longer has, and whose end no kubelet has reported."""
    nodes: Mapping[str, Node] = field(default_factory=dict)
    """Known nodes by name; may hold more than this job's."""
    lost_nodes: Mapping[str, LostNode] = field(default_factory=dict)
    """Nodes that the API server no longer has."""
    troubled_nodes: Mapping[str, datetime] = field(default_factory=dict)
    """Since when the machine of a Node of that name was last not ready or gone, where this process has seen it."""
    kubelets: Mapping[str, KubeletLease] = field(default_factory=dict)
    """Leases of kubelets that were read, by node."""
    pod_events: Mapping[str, PodEvents] = field(default_factory=dict)
    """Events of pods that wait, where they were read, by UID; may hold more than this job's."""
    known: Horizon = field(default_factory=Horizon)
    """When pods and nodes were last read."""
    nodes_watched: bool = True
    """Whether the operator may watch nodes."""
    checked: bool = False
    """Whether the API server accepted the pods of this generation in a dry run."""
    equal_accepted: bool = False
    """Whether it has just accepted the pods of an equal spec in the same namespace."""
    rejection: Rejection | None = None
    """Why the API server rejected an object of this generation, in a dry run or not."""
    rivals: tuple[Job, ...] = ()
    """Older jobs that wait for nodes or quota as this one does, the oldest first."""
    pools: NodePools = field(default_factory=NodePools)
    """The node pools of the cluster; the claim is the job's own, as it was when the snapshot was made."""
    kueue: Kueue = field(default_factory=Kueue)
    """What is known of Kueue and of the job's place in its queue."""
    pending_deletions: frozenset[str] = frozenset()
    """UIDs of pods whose deletion the API server has accepted and the watch has not shown yet."""
    served: int | None = None
    """The last attempt whose Services this process has created."""
    served_at: datetime = EVER
    """When it had created them."""
    deleted_here: OwnDeletions = OwnDeletions()
    """The pods of the ended attempt that this process has deleted."""
    begun_by_this_process: int | None = None
    """The last attempt that this process has begun, or tried to."""
    status_written: datetime | None = None
    """When this process last wrote the status."""
    printed: Printed | None = None
    """What was read of the log of rank 0."""
    gone_has_ended: bool = False
    """Whether a pod that is gone has surely terminated: the Docker engine removes no container before its end."""
    settings: Settings = field(default_factory=Settings)

    def machine_gone(self, pod: Pod) -> bool:
        """Whether the Node that a pod is bound to is gone or was created again."""
        return self.machine_gone_since(pod) is not None

    def machine_gone_since(self, pod: Pod) -> datetime | None:
        """By when the Node that a pod is bound to was gone or created again; None when it may exist.

        A Node that is merely unknown proves nothing. Pods and Nodes are watched separately, and a pod on a new node
        may be seen before the Node.
        """
        name, since = pod.spec.node_name, pod.bound_at
        if not name:
            return None
        node = self.nodes.get(name)
        if node is None:
            lost = self.lost_nodes.get(name)
            return lost.gone_since(pod) if lost is not None else None
        created = node.metadata.creation_timestamp
        return created if created is not None and since is not None and created > since else None

    def machine_troubled_since(self, pod: Pod) -> datetime | None:
        """Since when the machine that a pod is bound to was last not ready or gone, where this process has seen it."""
        since, bound = self.troubled_nodes.get(pod.spec.node_name), pod.bound_at
        return since if since is not None and (bound is None or bound <= since) else None

    def machine_well(self, pod: Pod) -> bool:
        """Whether the Node that a pod is bound to is ready, as far as is known."""
        node = self.nodes.get(pod.spec.node_name)
        if node is None:
            return not self.nodes_watched
        if node.ready is not None and node.ready.status != "True":
            return False
        return not self.machine_gone(pod)

    def ready_since(self, pod: Pod) -> datetime | None:
        """When the Ready condition of the Node that a pod is bound to last changed."""
        node = self.nodes.get(pod.spec.node_name)
        return node.ready.last_transition_time if node is not None and node.ready is not None else None

    def unknown_nodes(self, pods: Iterable[Pod]) -> tuple[str, ...]:
        """Nodes of these pods that are neither known to exist nor known to be gone."""
        if not self.nodes_watched:
            return ()
        unseen = [pod for pod in pods if pod.spec.node_name and pod.spec.node_name not in self.nodes]
        return tuple(sorted({pod.spec.node_name for pod in unseen if not self.machine_gone(pod)}))

    def vanished_of(self, attempt: Attempt) -> Iterator[Pod]:
        """The pods of an attempt that the API server no longer has, in their last version."""
        return Roster.of(attempt).current(lost.pod for lost in self.vanished)

    def own_pods(self) -> Iterator[Pod]:
        """Pods of this job UID, not of an earlier job of the same name."""
        return (pod for pod in self.pods if pod.metadata.labels.job_uid == self.job.uid)

    def staying(self, pods: Iterable[Pod]) -> Iterator[Pod]:
        """Those of the given pods that nobody deleted: they have no deletionTimestamp, and no deletion was accepted."""
        return (pod for pod in pods if not pod.terminating and pod.metadata.uid not in self.pending_deletions)

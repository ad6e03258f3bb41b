"""What the API server shows of a Workload, as far as decisions need it, and all that is known of Kueue for a job."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

import msgspec

from slipway.api import names
from slipway.core.model.cluster_queue import FlavorSpec, Quota
from slipway.core.model.parts import Named, ObjectMeta, Part

FINALIZER: Final = "kueue.x-k8s.io/resource-in-use"
"""As long as a Workload has it, Kueue counts its quota as used."""
QUOTA_RESERVED: Final = "QuotaReserved"
ADMITTED: Final = "Admitted"
EVICTED: Final = "Evicted"
REQUEUED: Final = "Requeued"
PODS_READY: Final = "PodsReady"
FINISHED: Final = "Finished"


_PREFIX: Final = "slicejob-"


def workload_name(job: str) -> str:
    """Name of the Workload of a SliceJob."""
    return f"{_PREFIX}{job}"


def job_of_workload(name: str) -> str:
    """The SliceJob whose Workload has this name; empty for a name that Slipway does not give."""
    return name.removeprefix(_PREFIX) if name.startswith(_PREFIX) else ""


class WorkloadLabels(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={
        "job_name": names.LABEL_JOB_NAME,
        "job_uid": names.LABEL_JOB_UID,
        "operator_id": names.LABEL_OPERATOR_ID,
        "attempt": names.LABEL_ATTEMPT,
        "pod_sets": names.LABEL_POD_SETS,
        "origin": names.ORIGIN_LABEL,
    },
):
    """Slipway's own labels on a Workload, and MultiKueue's."""

    job_name: str = ""
    job_uid: str = ""
    operator_id: str = ""
    attempt: str = ""
    pod_sets: str = ""
    """Empty on those that an earlier version, or MultiKueue, has made."""
    origin: str = ""
    """Not empty where MultiKueue has copied it from another cluster."""

    @property
    def for_attempt(self) -> int:
        """Number of the attempt for which the number of slices was chosen; -1 where that is not said."""
        return int(self.attempt) if self.attempt.isascii() and self.attempt.isdigit() else -1


class WorkloadAnnotations(
    msgspec.Struct,
    frozen=True,
    gc=False,
    rename={"boost": names.PRIORITY_BOOST, "boost_time": names.PRIORITY_BOOST_TIME},
):
    """What is added to the priority of a Workload."""

    boost: str = ""
    boost_time: str = ""

    @property
    def boosted_at(self) -> datetime | None:
        """When Slipway last wrote it; None if it did not."""
        try:
            found = datetime.fromisoformat(self.boost_time)
        except ValueError:
            return None
        return found if found.tzinfo is not None else None


class WorkloadMeta(ObjectMeta, frozen=True):
    """Identity and deletion of a Workload."""

    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    finalizers: tuple[str, ...] = ()
    labels: WorkloadLabels = WorkloadLabels()
    annotations: WorkloadAnnotations = WorkloadAnnotations()


class PodSet(Part, frozen=True):
    """Pods of one kind, as a Workload asks for them."""

    name: str = ""
    count: int = 0
    topology_request: dict[str, Any] | None = None


class WorkloadSpec(Part, frozen=True):
    """What a Workload asks its queue for."""

    queue_name: str = ""
    pod_sets: tuple[PodSet, ...] = ()
    active: bool = True
    priority: int = 0
    priority_class_ref: Named = Named()
    priority_class_name: str = ""
    """The class by the name that v1beta1 has for it."""

    @property
    def priority_class(self) -> str:
        """Name of the WorkloadPriorityClass; empty without one."""
        return self.priority_class_ref.name or self.priority_class_name


class Assignment(Part, frozen=True):
    """What a podSet was given."""

    name: str
    flavors: dict[str, str] = msgspec.field(default_factory=dict)
    """ResourceFlavors by resource."""
    resource_usage: dict[str, str | int] = msgspec.field(default_factory=dict)
    """Quantity of each resource that all its pods have."""
    count: int | None = None
    """Number of pods that it was given for; absent where that is what it asks for."""
    topology_assignment: dict[str, Any] | None = None


class Admission(Part, frozen=True):
    """What a Workload was given."""

    pod_set_assignments: tuple[Assignment, ...] = ()


class PodSetUpdate(Part, frozen=True):
    """What an admission check adds to the pods of a podSet."""

    name: str
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    node_selector: dict[str, str] = msgspec.field(default_factory=dict)
    tolerations: tuple[dict[str, Any], ...] = ()


class CheckState(Part, frozen=True):
    """The state of an admission check."""

    name: str = ""
    state: str = "Pending"
    message: str = ""
    pod_set_updates: tuple[PodSetUpdate, ...] = ()


class RequeueState(Part, frozen=True):
    """When an evicted Workload is queued again."""

    requeue_at: datetime | None = None


class WorkloadStatus(Part, frozen=True):
    """What Kueue last said of a Workload."""

    conditions: tuple[dict[str, Any], ...] = ()
    """As they are stored: a write replaces them all, so nothing of the others may be lost."""
    admission: Admission | None = None
    admission_checks: tuple[CheckState, ...] = ()
    requeue_state: RequeueState = RequeueState()


class Workload(Part, frozen=True):
    """A request to Kueue for the quota of one SliceJob."""

    metadata: WorkloadMeta
    spec: WorkloadSpec = WorkloadSpec()
    status: WorkloadStatus = WorkloadStatus()

    @property
    def job_name(self) -> str:
        """The SliceJob whose Workload has this name, and no other; empty for a name that Slipway does not give.

        The labels say the same unless somebody has edited them, or copied them to another Workload.
        """
        return job_of_workload(self.metadata.name)

    @property
    def deleting(self) -> bool:
        """Whether it has a deletionTimestamp."""
        return self.metadata.deletion_timestamp is not None

    def condition(self, kind: str) -> Mapping[str, Any]:
        """The condition of that type; empty without one."""
        return next((condition for condition in self.status.conditions if condition.get("type") == kind), {})

    def holds(self, kind: str) -> bool:
        """Whether a condition is True. Kueue leaves those that no longer hold in place, so presence means nothing."""
        return self.condition(kind).get("status") == "True"

    def since(self, kind: str) -> datetime | None:
        """Since when a condition is True; None while it is not, or where no moment is written."""
        try:
            since = datetime.fromisoformat(self.condition(kind)["lastTransitionTime"]) if self.holds(kind) else None
        except (KeyError, TypeError, ValueError):
            return None
        return since if since is not None and since.tzinfo is not None else None

    def is_current(self, kind: str) -> bool:
        """Whether a condition says something of the spec as it is now."""
        return bool(
            self.condition(kind).get("observedGeneration", self.metadata.generation) == self.metadata.generation
        )

    @property
    def placed(self) -> frozenset[str]:
        """The podSets for which it asks that Kueue chooses the nodes."""
        return frozenset(one.name for one in self.spec.pod_sets if one.topology_request is not None)

    def pods_of(self, pod_set: str) -> int:
        """How many pods it asks for in the podSet of that name."""
        return sum(one.count for one in self.spec.pod_sets if one.name == pod_set)

    def assignment(self, pod_set: str) -> Assignment | None:
        """What the podSet of that name was given; None while it is not admitted."""
        assignments = self.status.admission.pod_set_assignments if self.status.admission is not None else ()
        return next((assignment for assignment in assignments if assignment.name == pod_set), None)

    @property
    def admitted(self) -> bool:
        """Whether pods may exist."""
        return self.holds(ADMITTED) and not (self.holds(EVICTED) or self.holds(FINISHED) or self.deleting)


@dataclass(frozen=True, slots=True)
class Kueue:
    """What is known of Kueue for one job."""

    version: str = ""
    """The API version of its Workloads that the cluster serves; empty without Kueue."""
    problem: str = ""
    """Why its objects cannot be read, where they cannot."""
    unseen: bool = False
    """Whether its Workloads are among those objects."""
    workload: Workload | None = None
    """The one that has the name of this job's, whosever it is."""
    flavors: Mapping[str, FlavorSpec] = field(default_factory=dict)
    """ResourceFlavors by name."""
    priorities: Mapping[str, int] = field(default_factory=dict)
    """Values of the WorkloadPriorityClasses by name."""
    topologies: frozenset[str] | None = frozenset()
    """Resources of which a flavor of the job's queue has a topology. Kueue chooses the nodes of what requests them.
    None where the queue is not known, as when it was deleted."""
    unused: Quota = field(default_factory=dict)
    """Quota by flavor and resource that the job may have beside its own, because nobody has it or waits in the queue.
    Only known for admitted jobs that can run on several numbers of slices."""
    preemptor: str = ""
    """Namespace and name of the job for which Kueue has preempted this one, where it is one of Slipway's."""
    preempted: tuple[str, ...] = ()
    """Namespace and name of the jobs of Slipway that have yet to stop because Kueue preempts them for this one."""
    boosts: bool = False
    """Whether Kueue adds the annotation of a Workload to its priority."""

    def places(self, requests: Set[str]) -> bool:
        """Whether Kueue chooses the nodes of pods that request these resources; those that request none have any."""
        known = self.topologies or frozenset[str]()
        return bool(known & requests if requests else known)

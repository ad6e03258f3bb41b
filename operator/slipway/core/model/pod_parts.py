"""The parts of a pod that decisions need: metadata, spec, conditions and status.

The structs mirror the API's JSON and name only the fields that are read, so a watch event decodes straight into them in
microseconds. All other fields are never allocated.
"""

from collections.abc import Collection, Iterable
from datetime import datetime
from typing import Final

import msgspec
from msgspec.structs import force_setattr

from slipway.api import names
from slipway.core.model.container_states import ContainerStatus
from slipway.core.model.parts import Named, ObjectMeta, Part, keep_once


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

    def __post_init__(self) -> None:
        """Share the texts with the job's other pods."""
        keep_once(self, self.__struct_fields__)


class PodAnnotations(msgspec.Struct, frozen=True, gc=False, rename={"workload": names.QUEUE_WORKLOAD}):
    """The annotation that names the Workload by whose topology the node of a pod is chosen."""

    workload: str = ""


class OwnerReference(Part, frozen=True):
    """The owner of an object."""

    uid: str = ""

    def __post_init__(self) -> None:
        """Share the UID with the label of the pod."""
        keep_once(self, ("uid",))


class PodMetadata(ObjectMeta, frozen=True):
    """Identity, creation and deletion of a pod."""

    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: PodLabels = PodLabels()
    annotations: PodAnnotations = PodAnnotations()
    owner_references: tuple[OwnerReference, ...] = ()

    def __post_init__(self) -> None:
        """Share the namespace with other pods."""
        keep_once(self, ("namespace",))


class PodSpec(Part, frozen=True):
    """The node that a pod is bound to, and what the API server has made of what it was asked for."""

    node_name: str = ""
    priority: int = 0
    termination_grace_period_seconds: int = 30
    scheduling_gates: tuple[Named, ...] = ()

    def __post_init__(self) -> None:
        """Share the name with the Node."""
        keep_once(self, ("node_name",))


class PodCondition(Part, frozen=True):
    """A condition of a pod or node."""

    type: str
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None


def kept(conditions: Iterable[PodCondition], types: Collection[str]) -> tuple[PodCondition, ...]:
    """Those of some types, with texts that are shared with the conditions of other objects."""
    found = tuple(condition for condition in conditions if condition.type in types)
    for one in found:
        keep_once(one, ("type", "status", "reason", "message"))
    return found


POD_CONDITIONS: Final = frozenset(("PodScheduled", "Ready", "DisruptionTarget", "TerminationTarget"))


class PodStatus(Part, frozen=True):
    """A pod as the control plane and the kubelet last reported it."""

    phase: str = "Pending"
    reason: str = ""
    message: str = ""
    conditions: tuple[PodCondition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()

    def __post_init__(self) -> None:
        """Keep only the conditions that the planner reads; the others were a third of the memory of pods and nodes."""
        force_setattr(self, "conditions", kept(self.conditions, POD_CONDITIONS))
        keep_once(self, ("phase",))

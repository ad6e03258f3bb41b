"""The status of a SliceJob.

`phase` is for people, `conditions` are for programs, `attempts` is the history. The object stays small for any number
of hosts: lists are bounded, and hosts are written as intervals.
"""

from datetime import datetime
from enum import Enum, StrEnum
from functools import lru_cache
from typing import Annotated, Final, Self, TypeVar

from pydantic import BeforeValidator, Field

from slipway.api.base import Part, Time
from slipway.api.ledger import Ledger
from slipway.api.progress import ProgressState

MAX_ATTEMPTS: Final = 20
MAX_HOSTS: Final = 16
MAX_LOG_CHARACTERS: Final = 2048


UNSEEN: Final = -1
"""What the API server puts into observedGeneration of a job that no operator has seen; reads as None."""


class Word(StrEnum):
    """One of the words that this version knows, or a word of another version, which is kept as it is."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        return _foreign(cls, value) if isinstance(value, str) else None

    @property
    def known(self) -> bool:
        """Whether this version knows the word."""
        return self.value in type(self)._value2member_map_


W = TypeVar("W", bound=Word)


@lru_cache(maxsize=256)
def _foreign(kind: type[W], text: str) -> W:
    word = str.__new__(kind, text)
    word._name_ = word._value_ = text
    return word


class PhaseKind(Enum):
    """What a phase means to all that need not know which one it is."""

    WAITS = "wants to run, and waits"
    LACKS_NODES = "wants to run, and has no nodes"
    STARTS = "wants to run, and starts"
    RUNS = "runs"
    RESTS = "does nothing until its spec changes"
    REFUSED = "cannot run as it is written"
    SUCCEEDED = "did what it was for"
    FAILED = "came to nothing"
    STOPPED = "was ended by its user"


class Phase(Word):
    """The state of a job in one word. What follows from it is in its kind, one row of `_KINDS`."""

    PENDING = "Pending"
    QUEUED = "Queued"
    WAITING_FOR_CAPACITY = "WaitingForCapacity"
    STARTING = "Starting"
    RUNNING = "Running"
    RESTARTING = "Restarting"
    SUSPENDED = "Suspended"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"
    PREEMPTED = "Preempted"
    CANCELLED = "Cancelled"
    INVALID = "Invalid"

    @property
    def kind(self) -> PhaseKind | None:
        """What it means; None of a phase of another version."""
        return _KINDS.get(self)

    @property
    def final(self) -> bool:
        """Whether the phase never changes again (Invalid may: a corrected spec starts the job).

        Of a phase of another version only `SliceJobStatus.final` knows.
        """
        return self.kind in (PhaseKind.SUCCEEDED, PhaseKind.FAILED, PhaseKind.STOPPED)

    @property
    def waiting(self) -> bool:
        """Whether the job wants to run, and does not."""
        return self.kind in (PhaseKind.WAITS, PhaseKind.LACKS_NODES, PhaseKind.STARTS)


_KINDS: Final = {
    Phase.PENDING: PhaseKind.WAITS,
    Phase.QUEUED: PhaseKind.LACKS_NODES,
    Phase.WAITING_FOR_CAPACITY: PhaseKind.LACKS_NODES,
    Phase.STARTING: PhaseKind.STARTS,
    Phase.RUNNING: PhaseKind.RUNS,
    Phase.RESTARTING: PhaseKind.WAITS,
    Phase.SUSPENDED: PhaseKind.RESTS,
    Phase.SUCCEEDED: PhaseKind.SUCCEEDED,
    Phase.FAILED: PhaseKind.FAILED,
    Phase.PREEMPTED: PhaseKind.FAILED,
    Phase.CANCELLED: PhaseKind.STOPPED,
    Phase.INVALID: PhaseKind.REFUSED,
}


class Cause(Word):
    """Why an attempt ended. It determines the budget that is charged; another version's word charges none here."""

    FAILURE = "failure"
    PREEMPTION = "preemption"
    INFRASTRUCTURE = "infrastructure"
    UNCHARGED = "uncharged"


class ConditionType(StrEnum):
    """Conditions of a SliceJob. kstatus reads `Reconciling` and `Stalled`."""

    ACCEPTED = "Accepted"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    RUNNING = "Running"
    READY = "Ready"
    FINISHED = "Finished"
    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    CLEANUP_PENDING = "CleanupPending"
    NODES_VISIBLE = "NodesVisible"
    PROGRESS_VISIBLE = "ProgressVisible"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"


class Condition(Part):
    """A Kubernetes condition."""

    type: str = Field(json_schema_extra={"maxLength": 316})
    """Type of the condition."""
    status: str = Field(json_schema_extra={"pattern": "^(True|False|Unknown)$"})
    """True, False or Unknown."""
    reason: str = Field(json_schema_extra={"maxLength": 1024})
    """Reason in one CamelCase word."""
    message: str = Field(default="", json_schema_extra={"maxLength": 32768})
    """Reason in a sentence."""
    last_transition_time: Time
    """When the condition's status last changed."""
    observed_generation: int | None = None
    """Generation of the spec from which the condition was computed."""


class Root(Part):
    """The first failure of an attempt and its place."""

    time: Time | None = None
    """Time of the failure, if the cluster reported one."""
    slice: int | None = None
    """Slice index. Absent for a Ray head."""
    host: int | None = None
    """Host index within the slice. Absent for a Ray head."""
    pod: str | None = None
    """Pod name."""
    node: str | None = None
    """Node of the pod."""
    exit_code: int | None = None
    """Exit code of the worker container, or of a Ray head's entrypoint."""
    signal: int | None = None
    """Signal that ended the worker container, derived from the exit code."""
    log: str | None = None
    """Last log lines of the container, at most 2 KiB. Secrets are redacted."""


class AppliedDefaults(Part):
    """The defaults of the site with which an attempt began."""

    profile: str | None = None
    """Name of the SliceJobProfile. Absent where only the operator's chart has defaults."""
    generation: int | None = None
    """Generation of the SliceJobProfile."""
    hash: str
    """Hash of the defaults."""


def same_defaults(defaults: AppliedDefaults | None, other: AppliedDefaults | None) -> bool:
    """Whether both are the same defaults. An edit of the limits alone is another generation of a profile."""
    if defaults is None or other is None:
        return defaults is other
    return (defaults.profile, defaults.hash) == (other.profile, other.hash)


class Attempt(Part):
    """One attempt to run the whole job."""

    number: int = Field(ge=0)
    """Attempt number. It starts at 0 and is never reused."""
    cause: Cause | None = None
    """Cause of the attempt's end, which determines the charged budget.
    Absent while the attempt runs, until the cause is determined, and on success."""
    reason: str | None = None
    """Why the attempt ended, in one CamelCase word."""
    message: str | None = None
    """Why the attempt ended, in a sentence."""
    start_time: Time
    """When the first pod of the attempt was created."""
    running_time: Time | None = None
    """When all hosts of the attempt ran for the first time."""
    end_time: Time | None = None
    """When the attempt ended."""
    root: Root | None = None
    """First failure of the attempt and its place. Absent on success."""
    checkpoint_time: Time | None = None
    """When it last printed that a checkpoint is saved, or else runningTime. What it did after that is lost work.
    Written when it ends, where spec.progress has a group checkpoint and its log was read."""
    charged_time: Time | None = None
    """When its cause was determined and charged. By then every pod of the attempt had terminated."""
    queued_time: Time | None = None
    """Since when the job waited in its queue before the attempt began. Absent if it did not."""
    admitted_time: Time | None = None
    """When its queue had admitted the job or the pods. Absent without a queue."""
    scheduled_time: Time | None = None
    """When the last of its pods was bound to a node. Written when the attempt runs or ends."""
    held_time: Time | None = None
    """When pods with nodes were first seen that wait for an image or for objects that are missing."""
    unheld_time: Time | None = None
    """When no pod waited for that any more. timeouts.startSeconds counts from here."""
    defaults: AppliedDefaults | None = None
    """Defaults of the site with which the attempt began. Absent where the site has none."""


class SliceCounts(Part):
    """Numbers of requested, granted and ready slices."""

    requested: int
    """Slices that the spec requests."""
    granted: int
    """Slices of the current attempt."""
    ready: int = 0
    """Slices in which every host runs or has succeeded."""


class HostState(Part):
    """A host that delays the job."""

    slice: int | None = None
    """Slice index. Absent for a Ray head."""
    host: int | None = None
    """Host index within the slice. Absent for a Ray head."""
    pod: str
    """Pod name."""
    node: str | None = None
    """Node of the pod."""
    reason: str
    """Why the host is not running, in one word."""
    message: str | None = None
    """Message of the scheduler or the kubelet."""


class Coordinator(Part):
    """Coordinator address for multislice jobs."""

    address: str
    """DNS name of host 0 of slice 0."""
    port: int
    """TCP port."""


class RayState(Part):
    """Addresses and token of the Ray cluster."""

    service: str
    """Service of the head: 6379 (GCS), 8265 (dashboard and jobs), 10001 (client)."""
    token_secret: str
    """Secret with the cluster's authentication token in its key `token`."""


class DefaultValue(Part):
    """A field of the spec that has a default of the site."""

    field: str
    """Field of the SliceJob."""
    value: str | None = None
    """Its value. Absent for variables of the environment; for volumes their names."""
    source: str
    """The SliceJobProfile, or the chart's values."""


class Resolved(Part):
    """Effective values after defaults were applied."""

    type: str | None = None
    """Canonical accelerator type, such as v5litepod-16. For GPU jobs the model, such as nvidia-l4, or else the
    extended resource, such as nvidia.com/gpu. Absent for CPU jobs."""
    label: str | None = None
    """Value of the node label cloud.google.com/gke-tpu-accelerator."""
    topology: str | None = None
    """Chip topology of one slice."""
    hosts: int
    """Hosts (worker pods) of one slice."""
    chips_per_host: int = 0
    """TPU chips that each worker pod requests."""
    gpu_vendor: str | None = None
    """Vendor of the GPUs. Absent without GPUs."""
    gpu_resource: str | None = None
    """Extended resource of the GPUs, such as nvidia.com/gpu. Absent without GPUs."""
    gpus_per_host: int | None = None
    """GPUs that each worker pod requests. Absent without GPUs."""
    coordinator_port: int
    """Port of the coordinator."""
    schedule_seconds: int
    """Effective timeouts.scheduleSeconds."""
    start_seconds: int
    """Effective timeouts.startSeconds."""
    grace_period_seconds: int
    """Effective terminationGracePeriodSeconds."""
    template_hash: str
    """Hash of the spec without the fields that can change at any time."""
    defaults: tuple[DefaultValue, ...] | None = Field(default=None, max_length=512)
    """Fields of the spec that have a default of the site."""


class Result(Part):
    """Final result of the job. It is written once, with the final phase."""

    reason: str
    """Reason in one CamelCase word."""
    message: str
    """Sentence that names the exhausted budget, its limit and the charged attempts."""
    exit_code: int | None = None
    """Exit code of the host that decided the result. 0 on success."""


class SliceJobStatus(Part):
    """Observed state."""

    observed_generation: Annotated[int | None, BeforeValidator(lambda seen: None if seen == UNSEEN else seen)] = None
    """Generation of the spec from which this status was computed."""
    phase: Phase | None = None
    """State of the job in one word."""
    conditions: tuple[Condition, ...] = Field(default=(), json_schema_extra={"maxItems": 16})
    """Conditions of the job.
    Accepted, CapacityAvailable, Running, Finished, Complete, Failed, Suspended, CleanupPending, Reconciling, Stalled.
    Ray clusters with keepAlive also have Ready, jobs of an operator that may not read Nodes NodesVisible,
    jobs with spec.progress whose log cannot be read ProgressVisible."""
    attempt: int | None = None
    """Number of the current or last attempt."""
    failures: int = 0
    """Number of attempts charged to retries.maxFailures."""
    preemptions: int = 0
    """Number of attempts charged to retries.maxPreemptions, including infrastructure failures."""
    infrastructure_failures: int = 0
    """The part of preemptions that were infrastructure failures, such as a node that rejected pods."""
    uncharged: int = 0
    """Number of ended attempts that were charged to no budget, such as suspended ones."""
    capacity_look_time: Time | None = None
    """When the last check found too little capacity."""
    capacity_waits: int = 0
    """Number of checks that found too little capacity. They charge no budget."""
    waiting_since: Time | None = None
    """Start of the current wait for nodes. timeouts.scheduleSeconds counts from here."""
    queued_time: Time | None = None
    """Since when the job waits, or last waited, in its queue while no attempt is under way."""
    admitted_time: Time | None = None
    """When that wait was over. Absent while it lasts."""
    image_wait_since: Time | None = None
    """Since when no attempt could pull the image. timeouts.startSeconds counts from here."""
    succeeded_hosts: tuple[str, ...] = Field(default=(), json_schema_extra={"maxItems": 8192})
    """Hosts of the current attempt that exited 0, as slice:first-last intervals."""
    attempts: tuple[Attempt, ...] = Field(default=(), json_schema_extra={"maxItems": MAX_ATTEMPTS})
    """The last 20 attempts, newest first."""
    slices: SliceCounts | None = None
    """Numbers of requested, granted and ready slices."""
    ready_slices: str | None = None
    """Ready and requested slices, as `kubectl get` shows them."""
    hosts: tuple[HostState, ...] = Field(default=(), json_schema_extra={"maxItems": MAX_HOSTS})
    """Hosts that delay the job, at most 16."""
    coordinator: Coordinator | None = None
    """Coordinator address for multislice jobs."""
    ray: RayState | None = None
    """Addresses and token of the Ray cluster."""
    resolved: Resolved | None = None
    """Effective values after defaults were applied."""
    progress: ProgressState | None = None
    """Progress of the job as it prints it. Only with spec.progress."""
    ledger: Ledger | None = None
    """Where the time of the job went, and that of its chips."""
    result: Result | None = None
    """Final result of the job."""
    start_time: Time | None = None
    """When the first attempt started, or the first one since a suspension.
    spec.activeDeadlineSeconds count from here."""
    completion_time: Time | None = None
    """When the job reached its final phase."""

    @property
    def newest(self) -> Attempt | None:
        """The newest attempt; None before the first."""
        return self.attempts[0] if self.attempts else None

    @property
    def unsettled(self) -> Attempt | None:
        """The newest attempt until it has succeeded or its end is charged: it may be running."""
        newest = self.newest
        return newest if newest is not None and newest.cause is None and not self.final else None

    @property
    def attempt_ended(self) -> bool:
        """Whether the newest attempt has ended."""
        return self.newest is not None and self.newest.end_time is not None

    def condition(self, kind: ConditionType) -> Condition | None:
        """The condition of that type."""
        return next((condition for condition in self.conditions if condition.type == kind), None)

    @property
    def final(self) -> bool:
        """Whether the job has ended. With a phase that this version does not know, the record of the end says so."""
        if self.phase is None or self.phase.known:
            return self.phase is not None and self.phase.final
        return self.result is not None or self.completion_time is not None


def suspended_since(status: SliceJobStatus) -> datetime | None:
    """Since when the job is suspended and no pod of it runs; None when it is not."""
    condition = status.condition(ConditionType.SUSPENDED)
    return condition.last_transition_time if condition is not None and condition.status == "True" else None

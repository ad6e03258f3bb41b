"""What Slipway answers: the status of a SliceJob.

`phase` is one word for people, `conditions` are for machines, `attempts` is the story. The object stays small
however many hosts a job has: lists are bounded and hosts are written as intervals.
"""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field, PlainSerializer

from slipway.api.base import Model

MAX_ATTEMPTS: Final = 20
MAX_HOSTS: Final = 16
MAX_LOG_CHARACTERS: Final = 2048


def rfc3339(moment: datetime) -> str:
    """The moment in UTC with milliseconds, as it stands in status."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


Time = Annotated[datetime, PlainSerializer(rfc3339, return_type=str)]


class Phase(StrEnum):
    """Where a job stands, in one word."""

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
    def final(self) -> bool:
        """Whether the phase never changes again (Invalid may: a corrected spec starts the job)."""
        return self in FINAL_PHASES


BAD_PHASES: Final = frozenset({Phase.FAILED, Phase.PREEMPTED, Phase.INVALID})
"""Phases whose Event is a warning."""

FINAL_PHASES: Final = frozenset({Phase.SUCCEEDED, Phase.FAILED, Phase.PREEMPTED, Phase.CANCELLED})


class Cause(StrEnum):
    """Why an attempt ended, and so which budget it is charged to."""

    FAILURE = "failure"
    PREEMPTION = "preemption"
    INFRASTRUCTURE = "infrastructure"
    UNCHARGED = "uncharged"


class ConditionType(StrEnum):
    """Conditions of a SliceJob; `Reconciling` and `Stalled` are the ones kstatus reads."""

    ACCEPTED = "Accepted"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    RUNNING = "Running"
    READY = "Ready"
    COMPLETE = "Complete"
    FAILED = "Failed"
    SUSPENDED = "Suspended"
    CLEANUP_PENDING = "CleanupPending"
    RECONCILING = "Reconciling"
    STALLED = "Stalled"


class Condition(Model):
    """A Kubernetes condition."""

    type: str = Field(max_length=316)
    """What the condition is about."""
    status: str = Field(pattern="^(True|False|Unknown)$")
    """True, False or Unknown."""
    reason: str = Field(max_length=1024)
    """Why, in one CamelCase word."""
    message: str = Field(default="", max_length=32768)
    """Why, in a sentence."""
    last_transition_time: Time
    """When status last changed."""
    observed_generation: int | None = None
    """Generation of the spec this was computed from."""


class Root(Model):
    """The first thing that went wrong in an attempt, and where."""

    time: Time | None = None
    """When it happened, as far as the cluster told."""
    slice: int | None = None
    """Slice index; absent for a Ray head."""
    host: int | None = None
    """Host index within the slice; absent for a Ray head."""
    pod: str | None = None
    """Pod name."""
    node: str | None = None
    """Node the pod was on."""
    exit_code: int | None = None
    """Exit code of the worker container, or of a Ray head's entrypoint."""
    signal: int | None = None
    """Signal that ended the worker container, when the exit code says so."""
    log: str | None = None
    """Last lines it wrote; at most 2 KiB, secrets redacted."""


class Attempt(Model):
    """One try to run the whole job."""

    number: int = Field(ge=0)
    """Attempt number, from 0, never used twice."""
    cause: Cause | None = None
    """What the ended attempt was charged to; absent while it runs, while it is judged, and on success."""
    reason: str | None = None
    """Why it ended, in one CamelCase word."""
    message: str | None = None
    """Why it ended, in a sentence."""
    start_time: Time
    """When its pods were first created."""
    running_time: Time | None = None
    """Since when every host ran."""
    end_time: Time | None = None
    """When it ended."""
    root: Root | None = None
    """Where the cause lies; absent on success."""


class SliceCounts(Model):
    """How many slices the job asked for, was granted, and has running."""

    requested: int
    """Slices asked for."""
    granted: int
    """Slices of the current attempt."""
    ready: int = 0
    """Slices of which every host runs or has succeeded."""


class HostState(Model):
    """A host that holds the job up."""

    slice: int | None = None
    """Slice index; absent for a Ray head."""
    host: int | None = None
    """Host index within the slice; absent for a Ray head."""
    pod: str
    """Pod name."""
    node: str | None = None
    """Node the pod is on."""
    reason: str
    """Why it is not running, in one word."""
    message: str | None = None
    """Why it is not running, in the words of the scheduler or the kubelet."""


class Coordinator(Model):
    """Where the hosts of a multislice job find each other."""

    address: str
    """DNS name of host 0 of slice 0."""
    port: int
    """TCP port."""


class RayState(Model):
    """How clients reach the Ray cluster."""

    service: str
    """Service of the head: 6379 (GCS), 8265 (dashboard and jobs), 10001 (client)."""
    token_secret: str
    """Secret whose key `token` holds the cluster's authentication token."""


class Resolved(Model):
    """What is really used once every default has been applied."""

    type: str | None = None
    """Canonical accelerator type, such as v5litepod-16; absent for CPU jobs."""
    label: str | None = None
    """Value of the node label cloud.google.com/gke-tpu-accelerator."""
    topology: str | None = None
    """Chip topology of one slice."""
    hosts: int
    """Hosts (worker pods) of one slice."""
    chips_per_host: int = 0
    """TPU chips each worker pod requests."""
    coordinator_port: int
    """Port of the coordinator."""
    schedule_seconds: int
    """Longest wait for all pods of an attempt to be scheduled."""
    start_seconds: int
    """Longest wait from scheduled to running."""
    grace_period_seconds: int
    """Grace that pods get on cancel, suspend and preemption notice."""
    template_hash: str
    """Hash of everything in spec that may not change after creation."""


class Result(Model):
    """How the job ended; written once, with the final phase."""

    reason: str
    """One CamelCase word."""
    message: str
    """A sentence that names the budget that ran out, its limit and the attempts that used it."""
    exit_code: int | None = None
    """Exit code of the host that decided; 0 on success."""


class SliceJobStatus(Model):
    """What became of the job."""

    observed_generation: int | None = None
    """Generation of the spec that this status answers."""
    phase: Phase | None = None
    """Where the job stands, in one word."""
    conditions: tuple[Condition, ...] = Field(default=(), max_length=16)
    """Conditions: Accepted, CapacityAvailable, Running, Ready (kept Ray clusters), Complete, Failed, Suspended,
    CleanupPending, Reconciling, Stalled."""
    attempt: int | None = None
    """Number of the current or last attempt."""
    failures: int = 0
    """Attempts charged to retries.maxFailures."""
    preemptions: int = 0
    """Attempts charged to retries.maxPreemptions, infrastructure failures included."""
    infrastructure_failures: int = 0
    """The part of preemptions that was infrastructure, such as a repaired host that refuses pods."""
    uncharged: int = 0
    """Ended attempts that were charged to no budget (suspend, release of partly granted capacity)."""
    capacity_look_time: Time | None = None
    """When capacity was last looked for in vain."""
    capacity_waits: int = 0
    """How many times the job looked for capacity and did not find it; charges nothing."""
    succeeded_hosts: tuple[str, ...] = Field(default=(), max_length=4096)
    """Hosts of the current attempt that exited 0, as slice:first-last intervals."""
    attempts: tuple[Attempt, ...] = Field(default=(), max_length=MAX_ATTEMPTS)
    """The last attempts, newest first."""
    slices: SliceCounts | None = None
    """Slices requested, granted and ready."""
    ready_slices: str | None = None
    """Ready and requested slices, for `kubectl get`."""
    hosts: tuple[HostState, ...] = Field(default=(), max_length=MAX_HOSTS)
    """Hosts that hold the job up, at most 16."""
    coordinator: Coordinator | None = None
    """Where the hosts of a multislice job find each other."""
    ray: RayState | None = None
    """How clients reach the Ray cluster."""
    resolved: Resolved | None = None
    """Effective values."""
    result: Result | None = None
    """How the job ended."""
    start_time: Time | None = None
    """When the first attempt began."""
    completion_time: Time | None = None
    """When the job reached its final phase."""

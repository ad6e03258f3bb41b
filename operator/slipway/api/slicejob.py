"""What may be asked: the spec of a SliceJob.

Kubernetes' own words keep Kubernetes' own meanings. Bounds stand here once: the CRD is generated from these
models, and the API server, the command line and the operator refuse with the same sentences.
"""

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field, StringConstraints

from slipway.api.base import Model, Passthrough, rule, rules
from slipway.api.names import MAX_NAME_LENGTH, RESERVED_ENV
from slipway.api.ray import SPEC_RULES as RAY_RULES
from slipway.api.ray import Ray
from slipway.api.resources import Labels, NonEmpty, Quantity, Resources
from slipway.api.status import SliceJobStatus

_REPOSITORY: Final = "[a-z0-9]+([._-]+[a-z0-9]+)*"
IMAGE_PATTERN: Final = (
    f"^([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]+)?/)?{_REPOSITORY}(/{_REPOSITORY})*"
    "(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(@[a-z0-9]+:[a-fA-F0-9]{32,})?$"
)


def _list_map(*keys: str) -> dict[str, Any]:
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class LocalObjectReference(Model):
    """Name of an object in the job's namespace."""

    name: NonEmpty
    """Object name."""


class EnvVar(Model):
    """One environment variable; `$(NAME)` in a value is expanded as in any pod, `$$(NAME)` is not."""

    name: str = Field(
        max_length=256,
        json_schema_extra=rules(
            rule(
                "self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",
                computed="'environment name ' + self + ' is not valid: letters, digits and _ are allowed, "
                "and the first may not be a digit'",
            ),
            rule(
                f"!(self in {list(RESERVED_ENV)!r})",
                computed="'environment name ' + self + ' is reserved: Slipway sets it for every host'",
            ),
        ),
    )
    """Variable name."""
    value: str | None = Field(default=None, max_length=131072)
    """Literal value."""
    value_from: Passthrough | None = None
    """Source of the value: fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef."""


class VolumeMount(Model):
    """Where a volume appears in the worker container."""

    name: NonEmpty
    """Name of a volume of the job."""
    mount_path: str = Field(
        max_length=1024,
        json_schema_extra=rules(
            rule(
                "self.startsWith('/') && !self.contains(':')",
                computed="'mountPath ' + self + ' is not valid: an absolute path without : is needed'",
            )
        ),
    )
    """Absolute path in the container."""
    read_only: bool | None = None
    """Mounted read-only."""
    recursive_read_only: str | None = Field(default=None, max_length=32)
    """Whether read-only mounts are read-only recursively."""
    sub_path: str | None = Field(default=None, max_length=1024)
    """Path within the volume."""
    sub_path_expr: str | None = Field(default=None, max_length=1024)
    """Path within the volume with $(VAR) expanded."""
    mount_propagation: str | None = Field(default=None, max_length=64)
    """How mounts propagate between host and container."""


class Volume(Passthrough):
    """A volume of the worker pods, as in a PodSpec."""

    name: NonEmpty
    """Volume name."""


class Toleration(Model):
    """A toleration, as in a PodSpec."""

    key: str | None = Field(default=None, max_length=317)
    """Taint key."""
    operator: str | None = Field(default=None, max_length=16)
    """Exists or Equal."""
    value: str | None = Field(default=None, max_length=63)
    """Taint value."""
    effect: str | None = Field(default=None, max_length=32)
    """NoSchedule, PreferNoSchedule or NoExecute."""
    toleration_seconds: int | None = None
    """How long a NoExecute taint is tolerated."""


class TemplateMetadata(Model):
    """Metadata added to every worker pod."""

    labels: Labels = Field(default={}, json_schema_extra={"maxProperties": 64})
    """Labels; those below slipway.dev/ belong to Slipway."""
    annotations: dict[Annotated[str, StringConstraints(max_length=317)], str] = Field(
        default={}, json_schema_extra={"maxProperties": 64}
    )
    """Annotations."""


class PodTemplate(Model):
    """Whatever else a pod can have, merged strategically over the pod Slipway makes."""

    metadata: TemplateMetadata | None = None
    """Labels and annotations of the pods."""
    spec: Passthrough | None = None
    """Partial PodSpec; the container that Slipway makes is named `worker`."""


class Accelerator(Model):
    """Which TPU slice each slice of the job is."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.type) != has(self.generation)",
                "give either type (such as v5litepod-16) or generation with topology (such as v5p and 2x2x2)",
            ),
            rule("!has(self.generation) || has(self.topology)", "generation needs topology beside it"),
        )
    )

    type: str | None = Field(default=None, min_length=2, max_length=64)
    """TPU type in any common spelling: v5litepod-16, v5e-16, v6e-4x8, tpu7x-128."""
    generation: str | None = Field(default=None, min_length=2, max_length=64)
    """TPU generation (v4, v5e, v5p, v6e, tpu7x) or the value of GKE's accelerator label; needs topology."""
    topology: str | None = Field(default=None, max_length=32, pattern=r"^[1-9][0-9]*(x[1-9][0-9]*){1,2}$")
    """Chip topology of one slice, such as 4x8 or 2x2x4."""
    chips_per_host: int | None = Field(default=None, ge=1, le=16)
    """Chips of one host; needed where the shape is ambiguous (2x4) or the generation is not known."""
    label: str | None = Field(default=None, min_length=1, max_length=63)
    """Value of the node label cloud.google.com/gke-tpu-accelerator; only for generations not known yet."""
    spot: bool = False
    """Run on spot nodes: selects them and tolerates their taint."""
    node_selector: Labels = Field(default={}, json_schema_extra={"maxProperties": 64})
    """Further node labels the slices need."""


class Coordination(Model):
    """Where the hosts of a multislice job meet."""

    port: int | None = Field(default=None, ge=1, le=65535)
    """TCP port of the coordinator; 8081 unless the operator was told otherwise."""


class Backoff(Model):
    """Pause before the attempt after a failure; doubles with each failure in a row."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "self.initialSeconds <= self.maxSeconds",
                "initialSeconds is greater than maxSeconds",
                path=".initialSeconds",
            )
        )
    )

    initial_seconds: int = Field(default=0, ge=0, le=86400)
    """First pause in seconds; 0 restarts at once."""
    max_seconds: int = Field(default=300, ge=0, le=86400)
    """Longest pause in seconds."""


ExitCode = Annotated[int, Field(ge=1, le=255)]


class OnExitCodes(Model):
    """What chosen exit codes of the worker container, or of ray.entrypoint, mean; every other non-zero code is a
    failure."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "!(has(self.fail) ? self.fail : []).exists(c, (has(self.preemption) && c in self.preemption)"
                " || (has(self.ignore) && c in self.ignore))"
                " && !(has(self.preemption) ? self.preemption : []).exists(c, has(self.ignore) && c in self.ignore)",
                "an exit code may stand in only one of fail, preemption and ignore",
            )
        )
    )

    fail: tuple[ExitCode, ...] = Field(default=(), max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"})
    """Codes that end the job at once."""
    preemption: tuple[ExitCode, ...] = Field(
        default=(), max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Codes charged to maxPreemptions."""
    ignore: tuple[ExitCode, ...] = Field(default=(), max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"})
    """Codes that restart the job and are charged to nothing."""


class Retries(Model):
    """How often, and how soon, the whole job is tried again."""

    enabled: bool = True
    """Whether the job is tried again at all."""
    grace_period_seconds: int = Field(default=5, ge=1, le=3600)
    """Seconds that peers of a broken attempt get to end; they cannot make progress any more. Not 0, which would take
    pods out of the API while their containers still run."""
    max_failures: int = Field(default=10, ge=0, le=1000000000)
    """The job ends when this many attempts have failed by themselves; 0 reads as 1."""
    max_preemptions: int = Field(default=1000000, ge=0, le=1000000000)
    """The job ends when this many attempts were preempted or lost to infrastructure; 0 reads as 1."""
    capacity_retry_seconds: int = Field(default=60, ge=1, le=86400)
    """Seconds between two looks for missing capacity."""
    backoff: Backoff = Backoff()
    """Pause after a failure."""
    on_exit_codes: OnExitCodes = OnExitCodes()
    """Exit codes with a meaning of their own."""


class Timeouts(Model):
    """How long the job may wait."""

    schedule_seconds: int | None = Field(default=None, ge=1, le=31536000)
    """Longest wait for capacity, from the attempt's start until all its pods are scheduled; 604800 by default."""
    start_seconds: int | None = Field(default=None, ge=1, le=31536000)
    """Longest wait from scheduled to running, image pull included; 1800 by default."""
    unsafe_silent_node_seconds: int | None = Field(default=None, ge=0, le=86400)
    """Unsafe: remove the pods of an ended attempt by force when their node has been silent for so many seconds. Their
    containers may still run and write beside the next attempt's. Never, when absent."""


class SliceJobSpec(Model):
    """What to run, on how many TPU slices, and how often to try again."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule("has(self.image) && self.image != ''", "no image: set spec.image to the container image to run"),
            rule(
                "!has(self.hosts) || !has(self.accelerator)",
                "hosts is for CPU jobs only: the accelerator's shape decides how many hosts a slice has",
                path=".hosts",
            ),
            rule(
                "!has(self.acceptableSlices) || self.slices == 1 || self.slices in self.acceptableSlices",
                "slices is not among acceptableSlices: leave slices out, or name one of them",
                path=".slices",
            ),
            rule(
                "!has(self.command) || self.command.size() == 0 || self.command[0] != ''",
                "command[0] is empty: name the program to run, or leave command out to run the image's entrypoint",
                path=".command",
            ),
            *RAY_RULES,
        )
    )

    accelerator: Accelerator | None = None
    """TPU slice to run on; without it the job runs on CPU nodes."""
    hosts: int | None = Field(default=None, ge=1, le=4096)
    """Worker pods of one slice, for CPU jobs only; 1 by default. The accelerator decides it otherwise."""
    slices: int = Field(default=1, ge=1, le=1024)
    """Number of slices; all of them run, or none."""
    acceptable_slices: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = Field(
        default=(), max_length=16, json_schema_extra={"x-kubernetes-list-type": "set", "minItems": 1}
    )
    """Numbers of slices the job can run on instead: each attempt asks for the most, and takes the most that fits
    when capacityRetrySeconds have passed."""
    image: str | None = Field(
        default=None,
        max_length=512,
        json_schema_extra=rules(
            rule(
                f"self == '' || self.matches('{IMAGE_PATTERN}')",
                computed="'image ' + self + ' is not an image reference: [registry/]repository[:tag][@digest], "
                "repository in lower case'",
            )
        ),
    )
    """Container image."""
    image_pull_policy: str | None = Field(default=None, json_schema_extra={"enum": ["Always", "IfNotPresent", "Never"]})
    """When the kubelet pulls the image."""
    image_pull_secrets: tuple[LocalObjectReference, ...] = Field(
        default=(), max_length=16, json_schema_extra=_list_map("name")
    )
    """Secrets for pulling the image."""
    command: tuple[Annotated[str, StringConstraints(max_length=32768)], ...] = Field(default=(), max_length=256)
    """Entrypoint; the image's own when empty."""
    args: tuple[Annotated[str, StringConstraints(max_length=32768)], ...] = Field(default=(), max_length=256)
    """Arguments of the entrypoint."""
    env: tuple[EnvVar, ...] = Field(default=(), max_length=256, json_schema_extra=_list_map("name"))
    """Environment of the worker container."""
    env_from: tuple[Passthrough, ...] = Field(default=(), max_length=64)
    """ConfigMaps and Secrets whose keys become environment."""
    working_dir: str | None = Field(
        default=None,
        max_length=1024,
        json_schema_extra=rules(
            rule("self.startsWith('/')", computed="'workingDir ' + self + ' is not an absolute path'")
        ),
    )
    """Working directory, an absolute path."""
    resources: Resources = Resources()
    """Compute resources of the worker container; TPU chips are added by Slipway."""
    volumes: tuple[Volume, ...] = Field(default=(), max_length=64, json_schema_extra=_list_map("name"))
    """Volumes of the worker pods."""
    volume_mounts: tuple[VolumeMount, ...] = Field(default=(), max_length=64, json_schema_extra=_list_map("mountPath"))
    """Where the volumes appear in the worker container."""
    shm_size: Quantity | None = None
    """Size of /dev/shm, a Memory emptyDir, such as 16Gi."""
    security_context: Passthrough | None = None
    """Security context of the worker container."""
    host_network: bool | None = None
    """Run in the node's network; false by default."""
    service_account_name: str | None = Field(default=None, max_length=253)
    """Service account of the pods; its token is mounted only when named here."""
    node_selector: Labels = Field(default={}, json_schema_extra={"maxProperties": 64})
    """Node labels the pods need."""
    tolerations: tuple[Toleration, ...] = Field(default=(), max_length=64)
    """Tolerations of the pods; those for TPU and spot taints are added by Slipway."""
    priority_class_name: str | None = Field(default=None, max_length=253)
    """Priority class of the pods."""
    termination_grace_period_seconds: int | None = Field(default=None, ge=1, le=86400)
    """Seconds between SIGTERM and SIGKILL; 30 by default. Not 0, which would take pods out of the API while their
    containers still run."""
    pod_template: PodTemplate | None = None
    """Whatever else a pod can have."""
    ray: Ray | None = None
    """Run a Ray cluster on the slices instead of a container on each host: its head, its workers, one entrypoint."""
    coordinator: Coordination | None = None
    """Where the hosts of a multislice job meet."""
    retries: Retries = Retries()
    """How often, and how soon, the whole job is tried again."""
    timeouts: Timeouts = Timeouts()
    """How long the job may wait."""
    active_deadline_seconds: int | None = Field(default=None, ge=1, le=31536000)
    """Longest life of the job, from its first attempt on, suspension excluded."""
    ttl_seconds_after_finished: int | None = Field(default=None, ge=0, le=31536000)
    """Seconds after which a finished job is deleted; kept when absent."""
    suspend: bool = False
    """Stop the pods and give the capacity back; charges nothing. False again resumes with a new attempt."""
    cancel: bool = False
    """Stop for good and keep the record; cannot be taken back."""

    @property
    def most_slices(self) -> int:
        """The number of slices an attempt asks for at first."""
        return max(self.acceptable_slices, default=self.slices)


class ObjectMeta(Passthrough):
    """The metadata that Slipway reads."""

    name: str
    """Name of the job, at most 40 characters."""
    namespace: str = "default"
    """Namespace of the job."""
    uid: str = ""
    """UID of the job."""
    generation: int = 0
    """Generation of the spec."""
    resource_version: str = ""
    """Version of the object."""
    creation_timestamp: str | None = None
    """When the job was created."""
    deletion_timestamp: str | None = None
    """When the job was asked to go."""


class SliceJob(Model):
    """Runs one container job on TPU slices, restarts it as a whole, and keeps the account of why."""

    api_version: str = "slipway.dev/v1alpha1"
    """slipway.dev/v1alpha1."""
    kind: str = "SliceJob"
    """SliceJob."""
    metadata: ObjectMeta
    """Standard object metadata."""
    spec: SliceJobSpec
    """What to run, on how many TPU slices, and how often to try again."""
    status: SliceJobStatus = SliceJobStatus()
    """What became of the job."""


NAME_RULE: Final = rule(
    f"self.metadata.name.size() <= {MAX_NAME_LENGTH} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
    computed="'metadata.name ' + self.metadata.name + ' is not valid: at most "
    f"{MAX_NAME_LENGTH} lower-case letters, digits and -, beginning with a letter and not ending with -'",
)

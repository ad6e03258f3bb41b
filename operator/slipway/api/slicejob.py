"""The spec of a SliceJob.

Fields that a PodSpec has keep its names and meanings. These models are the only source of bounds and messages: the CRD
is generated from them, so the API server, the command line and the operator reject with the same messages.
"""

from typing import Annotated, Final

from pydantic import ConfigDict, Field, StringConstraints

from slipway.api.base import Model, Passthrough, rule, rules
from slipway.api.gpus import DEFAULT_RESOURCES, Gpu, cel_is_gpu
from slipway.api.names import MAX_NAME_LENGTH, MAX_PODS, MULTIKUEUE, NAME_PATTERN, NAME_WORDS
from slipway.api.pod_parts import EnvVar, LocalObjectReference, PodTemplate, Toleration, Volume, VolumeMount, list_map
from slipway.api.progress import Progress
from slipway.api.ray import SPEC_RULES as RAY_RULES
from slipway.api.ray import Ray
from slipway.api.resources import Labels, Resources, ShmSize
from slipway.api.status import SliceJobStatus
from slipway.api.workspace import SPEC_RULES as WORKSPACE_RULES
from slipway.api.workspace import Output, PythonModule, StudyName, Workspace

_REPOSITORY: Final = "[a-z0-9]+([._-]+[a-z0-9]+)*"
IMAGE_PATTERN: Final = (
    f"^([a-zA-Z0-9]([a-zA-Z0-9.-]*[a-zA-Z0-9])?(:[0-9]+)?/)?{_REPOSITORY}(/{_REPOSITORY})*"
    "(:[a-zA-Z0-9_][a-zA-Z0-9_.-]{0,127})?(@[a-z0-9]+:[a-fA-F0-9]{32,})?$"
)
LOCAL_IMAGE: Final = "^(sha256:.*|[0-9a-f]{12}|[0-9a-f]{64})$"
"""A digest alone, or the id that an engine gives an image of its own."""
LONGEST_GRACE_SECONDS: Final = 86400

CHANGEABLE: Final = frozenset(
    {"suspend", "cancel", "cancelGracePeriodSeconds", "retries", "timeouts", "ttlSecondsAfterFinished", "progress"}
)
"""Fields of the spec that may change at any time."""
CHANGEABLE_WHILE_SUSPENDED: Final = frozenset({"nodeSelector", "tolerations", "podTemplate"})
"""Fields of the spec that queues may fill in while the job is suspended."""

DEFAULTABLE: Final = frozenset(
    {
        *("accelerator", "image", "imagePullPolicy", "imagePullSecrets", "env", "envFrom", "workingDir", "resources"),
        *("volumes", "volumeMounts", "output", "shmSize", "securityContext", "podSecurityContext", "hostNetwork"),
        *("serviceAccountName", "nodeSelector", "tolerations", "priorityClassName", "terminationGracePeriodSeconds"),
        *("cancelGracePeriodSeconds", "coordinator", "retries", "timeouts", "activeDeadlineSeconds"),
        "ttlSecondsAfterFinished",
    }
)
"""Fields of the spec that a SliceJobProfile may give a default."""

_HOSTS: Final = "(has(self.hosts) ? self.hosts : 1)"
_MOST_SLICES: Final = "(has(self.acceptableSlices) ? self.acceptableSlices.max() : self.slices)"


_ON_TPUS: Final = "(has(self.accelerator) && !has(self.accelerator.gpu))"

HOSTS_OF_TPUS: Final = (
    "hosts is for CPU and GPU jobs only: the accelerator's shape decides how many hosts a TPU slice has"
)
ALWAYS_ALONE: Final = "oneHostPerNode is for CPU and GPU jobs only: a host of a TPU slice always has its node to itself"
ONE_HARDWARE: Final = "give exactly one of type, generation or gpu"
WORDS_OF_TPUS: Final = "topology, chipsPerHost and label are words for TPUs and mean nothing beside gpu: remove them"
NO_SPOT_RESERVATION: Final = (
    "reservation and spot exclude each other: spot machines are never taken from a reservation: remove one of them"
)
"""What both the API server and the operator say."""


def _gpus(kind: str) -> str:
    """In CEL, whether the limits or requests of the worker have GPUs."""
    given = f"self.resources.{kind}"
    return f"(has({given}) && {given}.exists(name, {cel_is_gpu('name')}))"


def _as_many_gpus(kind: str) -> str:
    """In CEL, whether the GPUs among the limits or requests are as many as `count`, where it is a plain number.

    Over all names of resources the API server takes the rule for too costly.
    """
    given, count = f"self.resources.{kind}", "self.accelerator.gpu.count"
    found = ((f"'{name}' in {given}", f"{given}['{name}']") for name in DEFAULT_RESOURCES.values())
    same = (
        f"(!({there}) || (type({value}) == int ? {value} == {count} : "
        f"!{value}.matches('^[0-9]+$') || {value} == string({count})))"
        for there, value in found
    )
    return f"(!has({given}) || ({' && '.join(same)}))"


class Accelerator(Model):
    """TPU type of each slice, or GPUs of each host."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.gpu) || has(self.type) != has(self.generation)",
                "give either type (such as v5litepod-16) or generation with topology (such as v5p and 2x2x2)",
            ),
            rule("!has(self.gpu) || !(has(self.type) || has(self.generation))", ONE_HARDWARE, path=".gpu"),
            rule("!has(self.generation) || has(self.topology)", "generation needs topology beside it"),
            rule(
                "!has(self.gpu) || !(has(self.topology) || has(self.chipsPerHost) || has(self.label))",
                WORDS_OF_TPUS,
                path=".gpu",
            ),
            rule("!has(self.reservation) || !has(self.spot) || !self.spot", NO_SPOT_RESERVATION, path=".reservation"),
        )
    )

    type: str | None = Field(default=None, min_length=2, max_length=64)
    """TPU type in a common spelling: v5litepod-16, v5e-16, v6e-4x8, tpu7x-128."""
    generation: str | None = Field(default=None, min_length=2, max_length=64)
    """TPU generation (v4, v5e, v5p, v6e, tpu7x) or a value of GKE's accelerator label. Needs topology."""
    topology: str | None = Field(default=None, max_length=32, pattern=r"^[1-9][0-9]*(x[1-9][0-9]*){1,2}$")
    """Chip topology of one slice, such as 4x8 or 2x2x4."""
    chips_per_host: int | None = Field(default=None, ge=1, le=16)
    """TPU chips of one host. Needed for an ambiguous shape (2x4) or an unknown generation."""
    label: str | None = Field(default=None, min_length=1, max_length=63)
    """Value of the node label cloud.google.com/gke-tpu-accelerator. Only for unknown generations."""
    gpu: Gpu | None = None
    """GPUs of each host, in the place of a TPU type or generation."""
    spot: bool = False
    """Whether to run on spot nodes. If true, pods select spot nodes and tolerate their taint."""
    reservation: str | None = Field(default=None, max_length=63, pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$")
    """Compute Engine reservation that the nodes are taken from: the pods select
    cloud.google.com/reservation-name. Not with spot."""
    node_selector: Labels = Field(default={}, json_schema_extra={"maxProperties": 64})
    """Additional node labels that the pods select."""


class Coordination(Model):
    """Coordinator address for multislice jobs."""

    port: int | None = Field(default=None, ge=1, le=65535)
    """TCP port of the coordinator. Default 8081, or the operator's --coordinator-port."""


_MAX_BACKOFF_SECONDS: Final = 300


class Backoff(Model):
    """Delay before the next attempt after a failure. It doubles with each consecutive failure."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                # In a profile the API server sets no defaults.
                "!has(self.initialSeconds)"
                f" || self.initialSeconds <= (has(self.maxSeconds) ? self.maxSeconds : {_MAX_BACKOFF_SECONDS})",
                "initialSeconds is greater than maxSeconds",
                path=".initialSeconds",
            )
        )
    )

    initial_seconds: int = Field(default=0, ge=0, le=86400)
    """First delay in seconds. With 0 the next attempt starts immediately."""
    max_seconds: int = Field(default=_MAX_BACKOFF_SECONDS, ge=0, le=86400)
    """Longest delay in seconds."""


ExitCode = Annotated[int, Field(ge=1, le=255)]


class OnExitCodes(Model):
    """Meaning of chosen exit codes of the worker container or of ray.entrypoint.
    All other non-zero codes are failures."""

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
    """Exit codes that end the job immediately."""
    preemption: tuple[ExitCode, ...] = Field(
        default=(), max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"}
    )
    """Exit codes that are charged to maxPreemptions."""
    ignore: tuple[ExitCode, ...] = Field(default=(), max_length=64, json_schema_extra={"x-kubernetes-list-type": "set"})
    """Exit codes that restart the job and are charged to no budget."""


class Retries(Model):
    """How often and how soon Slipway starts another attempt."""

    enabled: bool = True
    """Whether Slipway starts another attempt after a charged one.
    False has the effect of maxFailures 1 and maxPreemptions 1."""
    grace_period_seconds: int = Field(default=5, ge=1, le=3600)
    """Grace period in seconds for the other pods when one pod of an attempt has failed.
    At least 1: with 0 the API server removes pods while their containers still run."""
    max_failures: int = Field(default=10, ge=0, le=1000000000)
    """Number of failed attempts that ends the job. 0 means 1."""
    max_preemptions: int = Field(default=1000000, ge=0, le=1000000000)
    """Number of attempts lost to preemption or infrastructure that ends the job. 0 means 1."""
    max_start_failures: int = Field(default=3, ge=1, le=20)
    """Number of consecutive attempts that ends the job when the program could start in none of them."""
    capacity_retry_seconds: int = Field(default=60, ge=1, le=86400)
    """Seconds between two checks for missing capacity."""
    backoff: Backoff = Backoff()
    """Delay before the next attempt after a failure."""
    on_exit_codes: OnExitCodes = OnExitCodes()
    """Exit codes with a special meaning."""


class Timeouts(Model):
    """Limits for waiting."""

    schedule_seconds: int | None = Field(default=None, ge=1, le=31536000)
    """Seconds that the job may wait until all its pods are scheduled. Default 604800.
    Attempts that only wait count together: for nodes, for missing objects, for pods that are refused.
    The job fails after that time."""
    start_seconds: int | None = Field(default=None, ge=0, le=31536000)
    """Seconds from scheduled to running, image pull included. Default 1800. 0 means no limit.
    The attempt fails after that time. Time in which objects of the user are missing does not count."""
    unsafe_silent_node_seconds: int | None = Field(default=None, ge=0, le=86400)
    """Unsafe. Force-delete the pods of an ended attempt after their node was NotReady for this many seconds.
    Their containers may still run and write beside those of the next attempt. Default: never."""


class SliceJobSpec(Model):
    """What to run, on how many TPU slices, with which retry budgets.

    Fields are immutable after creation, except as follows.
    suspend, cancelGracePeriodSeconds, retries, timeouts, progress and ttlSecondsAfterFinished can change at any time.
    cancel can change to true only.
    nodeSelector, tolerations and podTemplate can change while the phase is Suspended.
    Before the first attempt every field can change while the phase is Invalid or Suspended.
    """

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!has(self.hosts) || !{_ON_TPUS}",
                HOSTS_OF_TPUS,
                path=".hosts",
            ),
            rule(f"!has(self.oneHostPerNode) || !{_ON_TPUS}", ALWAYS_ALONE, path=".oneHostPerNode"),
            rule(
                "!has(self.acceptableSlices) || self.slices == 1 || self.slices in self.acceptableSlices",
                "slices is not among acceptableSlices: leave slices out, or name one of them",
                path=".slices",
            ),
            rule(
                "!has(self.acceptableSlices) || !has(self.managedBy)",
                "MultiKueue does not change the number of slices: give slices, and remove acceptableSlices",
                path=".acceptableSlices",
            ),
            rule(
                "!has(self.command) || self.command.size() == 0 || self.command[0] != ''",
                "command[0] is empty: name the program to run, or leave command out to run the image's entrypoint",
                path=".command",
            ),
            rule(
                f"{_ON_TPUS} || {_HOSTS} * {_MOST_SLICES} <= {MAX_PODS}",
                f"hosts x slices is above {MAX_PODS}, the most pods of a SliceJob: take fewer hosts or fewer slices",
                path=".slices",
            ),
            rule(
                f"!{_ON_TPUS} || !has(self.resources) || !({_gpus('limits')} || {_gpus('requests')})",
                "resources has GPUs, and the nodes of an accelerator have TPUs and no GPUs: remove them, or remove "
                "accelerator",
                path=".resources",
            ),
            rule(
                "!(has(self.accelerator) && has(self.accelerator.gpu) && has(self.accelerator.gpu.count))"
                f" || !has(self.resources) || ({_as_many_gpus('limits')} && {_as_many_gpus('requests')})",
                "resources has another number of GPUs than accelerator.gpu.count: remove them from resources",
                path=".resources",
            ),
            *RAY_RULES,
            *WORKSPACE_RULES,
        )
    )

    profile: str | None = Field(default=None, min_length=1, max_length=253)
    """SliceJobProfile of this namespace with defaults and limits of the job. Default: the one named default, if any."""
    managed_by: str | None = Field(default=None, json_schema_extra={"enum": [MULTIKUEUE]})
    """Controller that runs the job in another cluster: kueue.x-k8s.io/multikueue. Here the job has no pods then.
    Default: the job runs in this cluster."""
    accelerator: Accelerator | None = None
    """TPU type of each slice, or GPUs of each host. Without it the job runs on CPU nodes."""
    hosts: int | None = Field(default=None, ge=1, le=4096)
    """Worker pods in each slice, for CPU and GPU jobs only. Default 1. For TPU jobs accelerator determines it."""
    one_host_per_node: bool | None = None
    """Whether no two hosts of the job share a node, for CPU and GPU jobs only. Default false: hosts prefer a node each.
    A host of a TPU slice always has its node to itself."""
    slices: int = Field(default=1, ge=1, le=1024)
    """Number of slices. The job is Running only when every host of every slice runs."""
    acceptable_slices: tuple[Annotated[int, Field(ge=1, le=1024)], ...] = Field(
        default=(), max_length=16, json_schema_extra={"x-kubernetes-list-type": "set", "minItems": 1}
    )
    """Numbers of slices on which the job can run instead of slices.
    Each attempt requests the largest. After capacityRetrySeconds it takes the largest with nodes, or with quota of its
    queue."""
    image: str | None = Field(
        default=None,
        max_length=512,
        json_schema_extra=rules(
            rule(
                f"self == '' || self.matches('{IMAGE_PATTERN}')",
                computed="self.matches('^[ \\t\\n]*$') "
                "? 'image is empty: set spec.image to the container image to run' : "
                "'image ' + self + ' is not an image reference: [registry/]repository[:tag][@digest], "
                "repository in lower case'",
            ),
            rule(
                f"!self.matches('{LOCAL_IMAGE}')",
                computed="'image ' + self + ' names no registry or repository that a node could pull it from: push the "
                "image, and write [registry/]repository:tag or [registry/]repository@digest'",
            ),
        ),
    )
    """Container image. Required, unless the profile has one."""
    image_pull_policy: str | None = Field(default=None, json_schema_extra={"enum": ["Always", "IfNotPresent", "Never"]})
    """When the kubelet pulls the image: Always, IfNotPresent or Never. Default as in any pod."""
    image_pull_secrets: tuple[LocalObjectReference, ...] = Field(
        default=(), max_length=16, json_schema_extra=list_map("name")
    )
    """Secrets for pulling the image."""
    command: tuple[Annotated[str, StringConstraints(max_length=32768)], ...] = Field(default=(), max_length=256)
    """Entrypoint of the container. Default: the entrypoint of the image."""
    args: tuple[Annotated[str, StringConstraints(max_length=32768)], ...] = Field(default=(), max_length=256)
    """Arguments of the entrypoint."""
    python_module: PythonModule | None = None
    """Python module that the container runs, instead of command and args."""
    env: tuple[EnvVar, ...] = Field(default=(), max_length=256, json_schema_extra=list_map("name"))
    """Environment variables of the worker container."""
    env_from: tuple[Passthrough, ...] = Field(default=(), max_length=64)
    """ConfigMaps and Secrets whose keys become environment variables."""
    working_dir: str | None = Field(
        default=None,
        max_length=1024,
        json_schema_extra=rules(
            rule("self.startsWith('/')", computed="'workingDir ' + self + ' is not an absolute path'")
        ),
    )
    """Working directory, an absolute path. Default: the working directory of the image."""
    resources: Resources = Resources()
    """Compute resources of the worker container. Slipway adds the TPU chips or the GPUs."""
    volumes: tuple[Volume, ...] = Field(default=(), max_length=64, json_schema_extra=list_map("name"))
    """Volumes of the worker pods."""
    volume_mounts: tuple[VolumeMount, ...] = Field(default=(), max_length=64, json_schema_extra=list_map("mountPath"))
    """Volume mounts of the worker container."""
    workspace: Workspace | None = None
    """Directory of the job's own in a volume that jobs share."""
    study: StudyName | None = None
    """Study of the site whose data sets are mounted at /data/STUDY/DATA-SET."""
    output: Output | None = None
    """Directory of a volume for what the job produces."""
    shm_size: ShmSize | None = None
    """Size of /dev/shm, a Memory emptyDir, such as 16Gi."""
    security_context: Passthrough | None = None
    """Security context of the worker container."""
    pod_security_context: Passthrough | None = None
    """Security context of the pods: runAsUser, runAsGroup, fsGroup, supplementalGroups and others."""
    host_network: bool | None = None
    """Whether the pods use the node's network. Default false."""
    service_account_name: str | None = Field(default=None, max_length=253)
    """Service account of the pods. Its token is mounted only when it is named here."""
    node_selector: Labels = Field(default={}, json_schema_extra={"maxProperties": 64})
    """Node labels that the pods select."""
    tolerations: tuple[Toleration, ...] = Field(default=(), max_length=64)
    """Tolerations of the pods. Slipway adds those for TPU, GPU and spot taints."""
    priority_class_name: str | None = Field(default=None, max_length=253)
    """Priority class of the pods."""
    termination_grace_period_seconds: int | None = Field(default=None, ge=1, le=LONGEST_GRACE_SECONDS)
    """Seconds between SIGTERM and SIGKILL on suspend, cancel and preemption notice. Default 30.
    At least 1: with 0 the API server removes pods while their containers still run."""
    pod_template: PodTemplate | None = None
    """Any other pod fields, merged strategically into Slipway's pods."""
    ray: Ray | None = None
    """Ray cluster on the slices: one head, one worker on each host, one entrypoint. It replaces command."""
    coordinator: Coordination | None = None
    """Coordinator address for multislice jobs."""
    retries: Retries = Retries()
    """How often and how soon Slipway starts another attempt."""
    timeouts: Timeouts = Timeouts()
    """Limits for waiting."""
    progress: Progress | None = None
    """How to read the progress of the job in the log of rank 0 (slice 0, host 0), or of ray.entrypoint.
    Default: no log is read. The operator needs the right to read logs: the chart value readLogs."""
    active_deadline_seconds: int | None = Field(default=None, ge=1, le=31536000)
    """Longest time of the job in seconds, from status.startTime on.
    It counts anew after a suspension, as for a Job of Kubernetes."""
    ttl_seconds_after_finished: int | None = Field(default=None, ge=0, le=31536000)
    """Seconds until a finished job is deleted. Default: never."""
    suspend: bool = False
    """Whether to delete the pods and release the nodes. Charges no budget.
    False starts a new attempt."""
    cancel: bool = False
    """Whether to end the job and keep the SliceJob."""
    cancel_grace_period_seconds: int | None = Field(default=None, ge=1, le=86400)
    """Seconds between SIGTERM and SIGKILL when the job is cancelled. Default: terminationGracePeriodSeconds."""

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
    """When the deletion of the job was requested."""


class SliceJob(Model):
    """Runs one container job on TPU slices and restarts it as a whole. The status records why each attempt ended."""

    api_version: str = "slipway.dev/v1alpha1"
    """slipway.dev/v1alpha1."""
    kind: str = "SliceJob"
    """SliceJob."""
    metadata: ObjectMeta
    """Standard object metadata."""
    spec: SliceJobSpec
    """What to run, on how many TPU slices, with which retry budgets."""
    status: SliceJobStatus = SliceJobStatus()
    """Observed state."""


NAME_RULE: Final = rule(
    f"self.metadata.name.size() <= {MAX_NAME_LENGTH} && self.metadata.name.matches('^{NAME_PATTERN}$')",
    computed=f"'metadata.name ' + self.metadata.name + ' {NAME_WORDS}'",
)

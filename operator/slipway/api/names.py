"""Names that are public API: group, labels, environment, reserved names.

Everything a user, a dashboard or another controller may select on or read stands here and nowhere else.
"""

import re
from typing import Final

GROUP: Final = "slipway.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "SliceJob"
PLURAL: Final = "slicejobs"

MANAGER: Final = "slipway"
"""Field manager and `app.kubernetes.io/managed-by` of every object Slipway writes."""

LABEL_JOB_NAME: Final = "slipway.dev/job-name"
LABEL_JOB_UID: Final = "slipway.dev/job-uid"
LABEL_ATTEMPT: Final = "slipway.dev/attempt"
LABEL_SLICE: Final = "slipway.dev/slice"
LABEL_HOST: Final = "slipway.dev/host"
LABEL_ROLE: Final = "slipway.dev/role"
LABEL_SLICE_KEY: Final = "slipway.dev/slice-key"
"""One value for each (job uid, slice): what placement gathers in, and keeps out of, a node pool."""
LABEL_POD_SETS: Final = "slipway.dev/pod-sets"
"""On a Workload: a digest of the pods that it asks for."""
LABEL_NODE_POOL: Final = "slipway.dev/node-pool"
"""The node pool that a pod is pinned to; absent where affinity finds one."""
LABEL_SERVICE: Final = "slipway.dev/service"
"""On a worker of a job with several Services: which of them has its address."""
LABEL_RAY_CLIENT: Final = "slipway.dev/ray-client"
"""On a pod of anybody's: the job whose Ray cluster its network policy lets it reach."""
LABEL_OPERATOR_ID: Final = "slipway.dev/operator-id"
"""On a SliceJob: the operator that serves it; absent for the one without an id. Its pods and Services have it, too."""
LABEL_APP_NAME: Final = "app.kubernetes.io/name"
LABEL_APP_INSTANCE: Final = "app.kubernetes.io/instance"
APP_NAME: Final = "slicejob"
"""The application that the pods of every job are; the operator itself is `slipway`, and selectors of it match none."""
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"

QUEUE_LABEL: Final = "kueue.x-k8s.io/queue-name"
"""On a SliceJob that Kueue is to admit: the LocalQueue."""
QUEUE_PRIORITY_LABEL: Final = "kueue.x-k8s.io/priority-class"
"""Beside it: the WorkloadPriorityClass."""
QUEUE_WORKLOAD: Final = "kueue.x-k8s.io/workload"
"""The annotation of a pod that names the Workload by whose topology its node is chosen."""
MULTIKUEUE: Final = "kueue.x-k8s.io/multikueue"
"""In spec.managedBy: MultiKueue runs the job in another cluster."""
ORIGIN_LABEL: Final = "kueue.x-k8s.io/multikueue-origin"
"""On a SliceJob and its Workload that MultiKueue has copied from another cluster."""
PRIORITY_BOOST: Final = "kueue.x-k8s.io/priority-boost"
"""On a Workload: what Kueue adds to its priority."""
PRIORITY_BOOST_TIME: Final = "slipway.dev/priority-boost-time"
"""On a Workload: when Slipway last wrote that."""
LEASE: Final = "slipway-operator"
"""The Lease of the operator without an id, unless it is told another."""
SERVED_NAMESPACES: Final = f"{GROUP}/namespaces"
"""Annotation of an operator's Lease: the namespaces that its holder serves, separated by commas; none for all."""
LABEL_LIMITS: Final = f"{GROUP}/limits"
"""On a namespace: with the value enforced the API server applies the limits."""

ROLE_WORKER: Final = "worker"
WORKER_CONTAINER: Final = "worker"

ROLE_HEAD: Final = "head"
RAY_CONTAINER: Final = "ray-head"
"""The container of the head pod that Ray itself runs in."""
DRIVER_CONTAINER: Final = "driver"
"""The container of the head pod whose end is the entrypoint's end."""
RAY_GCS_PORT: Final = 6379
RAY_DASHBOARD_PORT: Final = 8265
RAY_CLIENT_PORT: Final = 10001

WORKSPACE_CONTAINER: Final = "slipway-workspace"
"""The init container that makes the directories of a job, and refuses links in their place."""
EXIT_LINK: Final = 3
"""Its exit code for a link where a directory is needed."""
EXIT_UNUSABLE: Final = 4
"""Its exit code for a directory that is missing, or that cannot be made or used."""

MAX_NAME_LENGTH: Final = 40
"""`<job>-<attempt>-<slice>-<host>` then stays within a DNS label of 63 characters."""
NAME_PATTERN: Final = "[a-z]([-a-z0-9]*[a-z0-9])?"
"""What the whole name of a SliceJob is; RE2 and Python share it."""
NAME_WORDS: Final = (
    f"is not valid: at most {MAX_NAME_LENGTH} lower-case letters, digits and -, "
    "beginning with a letter and not ending with -"
)
"""What is wrong with a name that is none, after the field and its value."""

_DNS_LABEL: Final = re.compile("[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_DNS_SUBDOMAIN: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MAX_SUBDOMAIN_LENGTH: Final = 253

MAX_PODS: Final = 16384
"""Worker pods of one SliceJob, unless the site says otherwise: what one job can take of the API server."""

DEFAULT_COORDINATOR_PORT: Final = 8081

TPU_RESOURCE: Final = "google.com/tpu"
NODE_ACCELERATOR: Final = "cloud.google.com/gke-tpu-accelerator"
NODE_TOPOLOGY: Final = "cloud.google.com/gke-tpu-topology"
NODE_CHIPS: Final = "cloud.google.com/gke-accelerator-count"
NODE_POOL: Final = "cloud.google.com/gke-nodepool"
NODE_SPOT: Final = "cloud.google.com/gke-spot"
NODE_RESERVATION: Final = "cloud.google.com/reservation-name"
"""Name of the Compute Engine reservation that a node was taken from."""

TAINT_IMPENDING_TERMINATION: Final = "cloud.google.com/impending-node-termination"
TAINT_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"
TAINTS_OF_LOSS: Final = (TAINT_IMPENDING_TERMINATION, TAINT_OUT_OF_SERVICE)
"""What a node has whose machine goes, or is gone."""

RESERVED_ENV: Final = (
    "EXECUTOR_CALL_INDEX",
    "EXECUTOR_CALL_SLICE",
    "MEGASCALE_COORDINATOR_ADDRESS",
    "MEGASCALE_NUM_SLICES",
    "MEGASCALE_PORT",
    "MEGASCALE_SLICE_ID",
    "SLIPWAY_ARGS",
    "SLIPWAY_ATTEMPT",
    "SLIPWAY_COORDINATOR_ADDRESS",
    "SLIPWAY_HOST",
    "SLIPWAY_JOB",
    "SLIPWAY_OUTPUT_DIR",
    "SLIPWAY_RANK",
    "SLIPWAY_SLICE",
    "SLIPWAY_WORLD_SIZE",
    "TPU_HOST_ID",
    "TPU_NUM_DEVICES",
    "TPU_POD_COUNT",
    "TPU_SLICE_NAME",
    "TPU_VERSION",
    "TPU_WORKER_HOSTNAMES",
    "TPU_WORKER_ID",
)
"""Environment that only Slipway sets; a job that names one of these is refused."""


RESERVED_RAY_ENV: Final = ("RAY_ADDRESS", "RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH")
"""Environment that only Slipway sets in the Ray runtime."""


def is_job_name(text: object) -> bool:
    """Whether a SliceJob may have that name; so it is the name of a folder and part of a host name, too."""
    short = isinstance(text, str) and len(text) <= MAX_NAME_LENGTH
    return short and re.fullmatch(NAME_PATTERN, str(text)) is not None


def name_problem(text: object) -> str:
    """What is wrong with the name of a SliceJob; empty when nothing is."""
    return "" if is_job_name(text) else f"metadata.name {text!r} {NAME_WORDS}"


def is_dns_label(text: object) -> bool:
    """Whether that is a DNS label as RFC 1123 has it, which is what a namespace is named."""
    return isinstance(text, str) and _DNS_LABEL.fullmatch(text) is not None


def is_dns_subdomain(text: object) -> bool:
    """Whether that is labels with dots between them, which is what most objects of Kubernetes are named."""
    if not isinstance(text, str) or len(text) > _MAX_SUBDOMAIN_LENGTH:
        return False
    return _DNS_SUBDOMAIN.fullmatch(text) is not None


def namespace_problem(text: object, field: str = "namespace") -> str:
    """What is wrong with the name of a namespace; empty when nothing is."""
    if is_dns_label(text):
        return ""
    words = "at most 63 lower-case letters, digits and -, beginning and ending with a letter or a digit"
    return f"{field} {text!r} is not valid: {words}"


def lease_of(operator_id: str) -> str:
    """Name of an operator's Lease, unless it is told another."""
    return f"{LEASE}-{operator_id}" if operator_id else LEASE


def operator_of(lease: str) -> str | None:
    """The id of the operator whose Lease has that name, empty for the one without; None for other Leases."""
    if lease == LEASE:
        return ""
    return lease.removeprefix(f"{LEASE}-") if lease.startswith(f"{LEASE}-") else None


def hostname(attempt: int, slice_index: int, host: int) -> str:
    """Host name of a worker below the job's subdomain; new in each attempt, so no resolver cache is stale."""
    return f"{attempt}-{slice_index}-{host}"


def slice_name(job: str, slice_index: int) -> str:
    """Name of a slice as programs see it (`TPU_NAME`, `TPU_SLICE_NAME`); the same in every attempt."""
    return f"{job}-s{slice_index}"


def service_of_several(job: str, index: int) -> str:
    """Name of one of the Services of a large job's workers."""
    return f"{job}-g{index}"


def head_service(job: str) -> str:
    """Name of the Service of the Ray head, and subdomain of its host names."""
    return f"{job}-head"


def head_hostname(attempt: int) -> str:
    """Host name of the Ray head below its Service; new in each attempt, so no resolver cache is stale."""
    return f"{attempt}-head"


def ray_token_secret(job: str, uid: str) -> str:
    """Name of the Secret with the token of a job's Ray cluster.

    The UID makes it new for each job, so that creating it suffices and no Secret ever has to be read.
    """
    return f"{job}-ray-{uid[:8]}"


def ray_network_policy(job: str) -> str:
    """Name of the NetworkPolicy around a job's Ray cluster."""
    return f"{job}-ray"


def head_resource(accelerator_type: str) -> str:
    """Ray resource by which programs find host 0 of a TPU slice, spelt as Ray spells the type."""
    kind = accelerator_type
    return f"TPU-{'v' + kind.removeprefix('tpu') if kind.startswith('tpu') else kind}-head"

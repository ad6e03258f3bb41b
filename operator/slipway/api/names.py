"""Names that are public API: group, labels, environment, reserved names.

Everything a user, a dashboard or another controller may select on or read stands here and nowhere else.
"""

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
LABEL_MANAGED_BY: Final = "app.kubernetes.io/managed-by"

ROLE_WORKER: Final = "worker"
WORKER_CONTAINER: Final = "worker"

MAX_NAME_LENGTH: Final = 40
"""`<job>-<attempt>-<slice>-<host>` then stays within a DNS label of 63 characters."""

DEFAULT_COORDINATOR_PORT: Final = 8081

TPU_RESOURCE: Final = "google.com/tpu"
NODE_ACCELERATOR: Final = "cloud.google.com/gke-tpu-accelerator"
NODE_TOPOLOGY: Final = "cloud.google.com/gke-tpu-topology"
NODE_CHIPS: Final = "cloud.google.com/gke-accelerator-count"
NODE_POOL: Final = "cloud.google.com/gke-nodepool"
NODE_SPOT: Final = "cloud.google.com/gke-spot"

TAINT_IMPENDING_TERMINATION: Final = "cloud.google.com/impending-node-termination"
TAINT_OUT_OF_SERVICE: Final = "node.kubernetes.io/out-of-service"

RESERVED_ENV: Final = (
    "EXECUTOR_CALL_INDEX",
    "EXECUTOR_CALL_SLICE",
    "MEGASCALE_COORDINATOR_ADDRESS",
    "MEGASCALE_NUM_SLICES",
    "MEGASCALE_PORT",
    "MEGASCALE_SLICE_ID",
    "SLIPWAY_ATTEMPT",
    "SLIPWAY_HOST",
    "SLIPWAY_JOB",
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


def pod_name(job: str, attempt: int, slice_index: int, host: int) -> str:
    """Name of a worker pod: a pure function of its place, so creating twice cannot duplicate it."""
    return f"{job}-{attempt}-{slice_index}-{host}"


def hostname(attempt: int, slice_index: int, host: int) -> str:
    """Host name of a worker below the job's subdomain; new in each attempt, so no resolver cache is stale."""
    return f"{attempt}-{slice_index}-{host}"


def slice_name(job: str, slice_index: int) -> str:
    """Name of a slice as programs see it (`TPU_NAME`, `TPU_SLICE_NAME`); the same in every attempt."""
    return f"{job}-s{slice_index}"

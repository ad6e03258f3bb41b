"""The variables that Slipway sets, one row for each, as the page about the environment lists them."""

from typing import Final, NamedTuple

from slipway.api import names


class Known(NamedTuple):
    """A variable that Slipway sets."""

    name: str
    value: str
    """What it holds, in words."""
    where: str
    """The containers that have it."""

    @property
    def reserved(self) -> bool:
        """Whether a job that sets it is refused."""
        return self.name in (*names.RESERVED_ENV, *names.RESERVED_RAY_ENV)


_ALL: Final = "every worker"
_TPU: Final = "TPU workers"
_TPU7X: Final = "tpu7x workers"
_MANY: Final = "every worker, with more than one slice"
_RAY: Final = "Ray workers and the Ray head"
_WITH_HEAD: Final = "every worker, and the Ray head"
_WORKSPACE: Final = "every worker, and the Ray head, with `workspace`"
_HOST_0: Final = "host 0 of slice 0"

VARIABLES: Final = (
    Known("SLIPWAY_JOB", "name of the SliceJob", _WITH_HEAD),
    Known("SLIPWAY_ATTEMPT", "number of the attempt, from 0", _WITH_HEAD),
    Known("SLIPWAY_SLICE", "index of the slice", _ALL),
    Known("SLIPWAY_HOST", "index of the host in its slice", _ALL),
    Known("SLIPWAY_RANK", "index of the host in the job: slice after slice", _ALL),
    Known("SLIPWAY_WORLD_SIZE", "hosts of the job", _WITH_HEAD),
    Known("SLIPWAY_COORDINATOR_ADDRESS", f"{_HOST_0} and `coordinator.port`", _ALL),
    Known("SLIPWAY_OUTPUT_DIR", "`output.path`", "every worker, and the Ray head, with `output`"),
    Known("SLIPWAY_ARGS", "`ray.args` as JSON, if set", "the Ray head"),
    Known("JAX_COORDINATOR_ADDRESS", f"{_HOST_0} and port 8482", "every worker, but not on several TPU slices"),
    Known("JAX_NUM_PROCESSES", "as SLIPWAY_WORLD_SIZE", _ALL),
    Known("JAX_PROCESS_ID", "as SLIPWAY_RANK", _ALL),
    Known("MASTER_ADDR", _HOST_0, _ALL),
    Known("MASTER_PORT", "29500", _ALL),
    Known("WORLD_SIZE", "as SLIPWAY_WORLD_SIZE", _ALL),
    Known("RANK", "as SLIPWAY_RANK", _ALL),
    Known("NODE_RANK", "as SLIPWAY_RANK", _ALL),
    Known("MEGASCALE_COORDINATOR_ADDRESS", f"{_HOST_0} and `coordinator.port`", _MANY),
    Known("MEGASCALE_PORT", "`coordinator.port`", _MANY),
    Known("MEGASCALE_NUM_SLICES", "slices of the attempt", _MANY),
    Known("MEGASCALE_SLICE_ID", "index of the slice", _MANY),
    Known("TPU_WORKER_ID", "index of the host in its slice", _ALL),
    Known("TPU_WORKER_HOSTNAMES", "hosts of the slice, separated by commas", _ALL),
    Known("TPU_HOST_ID", "index of the host in its slice", _ALL),
    Known("TPU_SLICE_NAME", "`NAME-sSLICE`", _ALL),
    Known("TPU_NAME", "`NAME-sSLICE`", _TPU),
    Known("TPU_ZONE", "`EMPTY`", _TPU),
    Known("TPU_VERSION", "type of the slices, such as `v5p-16`", f"{_TPU}, and the Ray head"),
    Known("TPU_POD_COUNT", "slices of the attempt", f"{_TPU}, and the Ray head"),
    Known("TPU_NUM_DEVICES", "chips of the host", _TPU),
    Known("TPU_PROCESS_ADDRESSES", "hosts of the slice, each with port 8471", _TPU7X),
    Known("TPU_PROCESS_PORT", "8471", _TPU7X),
    Known("TPU_ACCELERATOR_TYPE", "type of the slices", "Ray workers on TPUs"),
    Known("TPU_TOPOLOGY", "topology of the slices", "Ray workers on TPUs"),
    Known("EXECUTOR_CALL_SLICE", "index of the slice", _ALL),
    Known("EXECUTOR_CALL_INDEX", "index of the host in its slice", _ALL),
    Known("RAY_ADDRESS", "address of the Ray head, with port 6379", _RAY),
    Known("RAY_IP", "address of the Ray head", _RAY),
    Known("FQ_RAY_IP", "address of the Ray head", _RAY),
    Known("RAY_PORT", "6379", _RAY),
    Known("RAY_AUTH_MODE", "`token`", _RAY),
    Known("RAY_AUTH_TOKEN_PATH", "file with the token of the cluster", _RAY),
    Known("RAY_CLUSTER_NAME", "name of the SliceJob", _RAY),
    Known("RAY_CLUSTER_NAMESPACE", "namespace of the SliceJob", _RAY),
    Known("RAY_NODE_TYPE_NAME", "`NAME-sSLICE`, or `headgroup`", _RAY),
    Known("RAY_CLOUD_INSTANCE_ID", "name of the pod", _RAY),
    Known("USER", "`slicejob`", _WORKSPACE),
    Known("HOME", "`/tmp`", _WORKSPACE),
    Known("PYTHONPATH", "`workspace.pythonPaths`, separated by colons, if set", _WORKSPACE),
)

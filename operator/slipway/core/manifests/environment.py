"""The environment variables of a worker: its place, its peers, the coordinator.

Slice-wide values are the same on all hosts of a slice, host values differ. Names and conditions follow GKE's TPU
plug-ins, libtpu, JAX and Ray, so that programs written for any of them find what they look for.
"""

from collections.abc import Collection, Mapping
from itertools import count
from typing import Final

from slipway.api import names
from slipway.api.places import Place
from slipway.core.manifests.hardware import Hardware, Variable, literal
from slipway.core.manifests.peers import (
    HOSTNAMES_KEY,
    PROCESS_ADDRESSES_KEY,
    TPU_PROCESS_PORT,
    Peers,
    process_addresses,
)

JAX_PORT: Final = 8482
"""The port that JAX chooses on TPUs when it is told none."""
JAX_PORT_VARIABLE: Final = "JAX_COORDINATOR_PORT"
"""By which a job tells JAX another one."""
TORCH_PORT: Final = 29500
"""The port of torchrun."""


def slice_variables(peers: Peers, slice_index: int, hardware: Hardware) -> list[Variable]:
    """Variables that all hosts of the slice of that rank share."""
    meeting, slice_name = peers.coordinator, names.slice_name(peers.job.name, slice_index)
    variables = [
        literal("SLIPWAY_JOB", peers.job.name),
        literal("SLIPWAY_ATTEMPT", peers.attempt),
        literal("SLIPWAY_SLICE", slice_index),
        literal("SLIPWAY_WORLD_SIZE", peers.count),
        literal("SLIPWAY_COORDINATOR_ADDRESS", f"{meeting.address}:{meeting.port}"),
        literal("EXECUTOR_CALL_SLICE", slice_index),
        literal("TPU_SLICE_NAME", slice_name),
        *_of_slice(peers, slice_index, hardware),
    ]
    if peers.slices > 1:
        variables += [
            literal("MEGASCALE_COORDINATOR_ADDRESS", f"{meeting.address}:{meeting.port}"),
            literal("MEGASCALE_NUM_SLICES", peers.slices),
            literal("MEGASCALE_PORT", meeting.port),
            literal("MEGASCALE_SLICE_ID", slice_index),
        ]
    return variables + hardware.slice_variables(slice_name, peers.slices)


def group_variables(
    peers: Peers, given: Mapping[str, Variable], taken: Collection[int], *, megascale: bool
) -> list[Variable]:
    """What JAX and torch read about the processes, one on each host. None of these is reserved.

    They follow the variables of the host: the kubelet replaces $(SLIPWAY_RANK), so all hosts share them.

    Args:
        peers: the workers.
        given: the variables that the job sets itself, by name.
        taken: ports that something else in the pod listens on.
        megascale: whether JAX finds host 0 by the variables of several TPU slices. It then waits for a slice that
            comes late as long as it takes; with an address it asks for the name ever more rarely, and gives up.
    """
    rank, meeting = "$(SLIPWAY_RANK)", peers.coordinator.address
    jax_port = given.get(JAX_PORT_VARIABLE, {}).get("value") or _free_port(JAX_PORT, taken)
    address = {} if megascale else {"JAX_COORDINATOR_ADDRESS": f"{meeting}:{jax_port}"}
    values = address | {
        "JAX_NUM_PROCESSES": peers.count,
        "JAX_PROCESS_ID": rank,
        "MASTER_ADDR": meeting,
        "MASTER_PORT": _free_port(TORCH_PORT, taken),
        "WORLD_SIZE": peers.count,
        "RANK": rank,
        "NODE_RANK": rank,
    }
    return [{"name": name, "value": str(value)} for name, value in values.items()]


def _free_port(wanted: int, taken: Collection[int]) -> int:
    return next(port for port in count(wanted) if port not in taken)


def host_variables(peers: Peers, place: Place) -> list[Variable]:
    """Variables that differ from host to host."""
    rank = peers.rank(place)
    return [
        literal("SLIPWAY_HOST", rank.host),
        literal("SLIPWAY_RANK", peers.index(rank)),
        literal("EXECUTOR_CALL_INDEX", rank.host),
        literal("TPU_HOST_ID", rank.host),
        literal("TPU_WORKER_ID", rank.host),
    ]


def _of_slice(peers: Peers, slice_index: int, hardware: Hardware) -> list[Variable]:
    hosts = peers.host_names(slice_index) if not peers.have_host_lists else []

    def variable(name: str, key: str, value: str) -> Variable:
        if not peers.have_host_lists:
            return literal(name, value)
        return {"name": name, "valueFrom": {"configMapKeyRef": {"name": peers.host_list(slice_index), "key": key}}}

    variables = [variable("TPU_WORKER_HOSTNAMES", HOSTNAMES_KEY, ",".join(hosts))]
    if hardware.process_addresses:
        variables.append(variable("TPU_PROCESS_ADDRESSES", PROCESS_ADDRESSES_KEY, process_addresses(hosts)))
        variables.append(literal("TPU_PROCESS_PORT", TPU_PROCESS_PORT))
    return variables

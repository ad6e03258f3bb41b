"""The environment variables of a worker: its place, its peers, the coordinator.

Slice-wide values are the same on all hosts of a slice, host values differ. Names and conditions follow GKE's TPU
plug-ins, libtpu, JAX and Ray, so that programs written for any of them find what they look for.
"""

from collections.abc import Collection, Mapping
from itertools import count
from typing import Final

from slipway.api import names
from slipway.api.places import Place
from slipway.api.status import Coordinator, Resolved
from slipway.planner.hardware import Hardware, Variable, literal
from slipway.planner.snapshot import Job
from slipway.planner.subdomains import has_several, subdomain

LONGEST_INLINE_LIST: Final = 32
"""Up to this number of hosts the host list is in each pod; a longer one is in a ConfigMap."""

HOSTNAMES_KEY: Final = "hostnames"
PROCESS_ADDRESSES_KEY: Final = "processAddresses"
TPU_PROCESS_PORT: Final = 8471
JAX_PORT: Final = 8482
"""The port that JAX chooses on TPUs when it is told none."""
JAX_PORT_VARIABLE: Final = "JAX_COORDINATOR_PORT"
"""By which a job tells JAX another one."""
TORCH_PORT: Final = 29500
"""The port of torchrun."""


def coordinator(job: Job, attempt: int, slices: int, resolved: Resolved) -> Coordinator:
    """The coordinator of this attempt: host 0 of slice 0, by a DNS name that is known before any pod exists."""
    address = f"{names.hostname(attempt, 0, 0)}.{subdomain(job, slices, resolved.hosts, 0)}.{job.namespace}.svc"
    return Coordinator(address=address, port=resolved.coordinator_port)


def recorded_coordinator(job: Job, attempt: int, slices: int, resolved: Resolved) -> Coordinator | None:
    """The coordinator as the status has it: that of several slices, and any that tells of several Services."""
    told = slices > 1 or has_several(job, slices, resolved.hosts)
    return coordinator(job, attempt, slices, resolved) if told else None


def host_names(job: Job, attempt: int, slices: int, slice_index: int, hosts: int) -> list[str]:
    """Names of the hosts of one slice in host order, as they resolve within the namespace."""
    below = subdomain(job, slices, hosts, slice_index)
    return [f"{names.hostname(attempt, slice_index, host)}.{below}" for host in range(hosts)]


def config_map_name(job: Job, attempt: int, slice_index: int) -> str:
    """Name of the ConfigMap that holds a long host list."""
    return f"{job.name}-{attempt}-{slice_index}"


def config_map_data(job: Job, attempt: int, slices: int, slice_index: int, hosts: int) -> dict[str, str]:
    """Content of that ConfigMap."""
    peers = host_names(job, attempt, slices, slice_index, hosts)
    return {HOSTNAMES_KEY: ",".join(peers), PROCESS_ADDRESSES_KEY: _process_addresses(peers)}


def slice_variables(
    job: Job, attempt: int, slice_index: int, slices: int, resolved: Resolved, hardware: Hardware
) -> list[Variable]:
    """Variables that all hosts of one slice share."""
    meeting = coordinator(job, attempt, slices, resolved)
    variables = [
        literal("SLIPWAY_JOB", job.name),
        literal("SLIPWAY_ATTEMPT", attempt),
        literal("SLIPWAY_SLICE", slice_index),
        literal("SLIPWAY_WORLD_SIZE", slices * resolved.hosts),
        literal("SLIPWAY_COORDINATOR_ADDRESS", f"{meeting.address}:{meeting.port}"),
        literal("EXECUTOR_CALL_SLICE", slice_index),
        literal("TPU_SLICE_NAME", names.slice_name(job.name, slice_index)),
        *_peers(job, attempt, slices, slice_index, hardware),
    ]
    if slices > 1:
        variables += [
            literal("MEGASCALE_COORDINATOR_ADDRESS", f"{meeting.address}:{meeting.port}"),
            literal("MEGASCALE_NUM_SLICES", slices),
            literal("MEGASCALE_PORT", meeting.port),
            literal("MEGASCALE_SLICE_ID", slice_index),
        ]
    return variables + hardware.slice_variables(names.slice_name(job.name, slice_index), slices)


def group_variables(
    meeting: Coordinator, processes: int, given: Mapping[str, Variable], taken: Collection[int], *, megascale: bool
) -> list[Variable]:
    """What JAX and torch read about the processes, one on each host. None of these is reserved.

    They follow the variables of the host: the kubelet replaces $(SLIPWAY_RANK), so all hosts share them.

    Args:
        meeting: where host 0 of slice 0 is.
        processes: how many there are.
        given: the variables that the job sets itself, by name.
        taken: ports that something else in the pod listens on.
        megascale: whether JAX finds host 0 by the variables of several TPU slices. It then waits for a slice that
            comes late as long as it takes; with an address it asks for the name ever more rarely, and gives up.
    """
    rank = "$(SLIPWAY_RANK)"
    jax_port = given.get(JAX_PORT_VARIABLE, {}).get("value") or _free_port(JAX_PORT, taken)
    address = {} if megascale else {"JAX_COORDINATOR_ADDRESS": f"{meeting.address}:{jax_port}"}
    values = address | {
        "JAX_NUM_PROCESSES": processes,
        "JAX_PROCESS_ID": rank,
        "MASTER_ADDR": meeting.address,
        "MASTER_PORT": _free_port(TORCH_PORT, taken),
        "WORLD_SIZE": processes,
        "RANK": rank,
        "NODE_RANK": rank,
    }
    return [{"name": name, "value": str(value)} for name, value in values.items()]


def _free_port(wanted: int, taken: Collection[int]) -> int:
    return next(port for port in count(wanted) if port not in taken)


def rank(place: Place, hosts: int) -> int:
    """The rank of a worker among all of its job: slice after slice, host after host."""
    return place.slice * hosts + place.host


def host_variables(place: Place, resolved: Resolved) -> list[Variable]:
    """Variables that differ from host to host."""
    return [
        literal("SLIPWAY_HOST", place.host),
        literal("SLIPWAY_RANK", rank(place, resolved.hosts)),
        literal("EXECUTOR_CALL_INDEX", place.host),
        literal("TPU_HOST_ID", place.host),
        literal("TPU_WORKER_ID", place.host),
    ]


def _peers(job: Job, attempt: int, slices: int, slice_index: int, hardware: Hardware) -> list[Variable]:
    long = hardware.hosts > LONGEST_INLINE_LIST
    peers = host_names(job, attempt, slices, slice_index, hardware.hosts) if not long else []
    config_map = config_map_name(job, attempt, slice_index)

    def variable(name: str, key: str, value: str) -> Variable:
        if not long:
            return literal(name, value)
        return {"name": name, "valueFrom": {"configMapKeyRef": {"name": config_map, "key": key}}}

    variables = [variable("TPU_WORKER_HOSTNAMES", HOSTNAMES_KEY, ",".join(peers))]
    if hardware.process_addresses:
        variables.append(variable("TPU_PROCESS_ADDRESSES", PROCESS_ADDRESSES_KEY, _process_addresses(peers)))
        variables.append(literal("TPU_PROCESS_PORT", TPU_PROCESS_PORT))
    return variables


def _process_addresses(peers: list[str]) -> str:
    return ",".join(f"{peer}:{TPU_PROCESS_PORT}" for peer in peers)

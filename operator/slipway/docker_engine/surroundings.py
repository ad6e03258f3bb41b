"""What the containers of an attempt are made for, from the job and from what is said of it on this machine."""

from slipway.api.status import Resolved
from slipway.docker_engine.conversion.convert import Surroundings
from slipway.docker_engine.options import Options
from slipway.planner import environment
from slipway.planner.pods import config_maps
from slipway.planner.snapshot import Job


def surroundings(job: Job, resolved: Resolved | None, options: Options, network: str) -> Surroundings:
    """What all hosts of the job's attempt have in common; their devices come besides.

    Args:
        job: the job.
        resolved: what it comes to; None where nothing is known of it yet.
        options: how its containers are made on this machine.
        network: name of its network.
    """
    attempt, slices = job.status.attempt or 0, job.granted
    lists = config_maps(job, attempt, slices, resolved) if resolved is not None else ()
    hosts = resolved.hosts if resolved is not None else 1
    peers = [name for one in range(slices) for name in environment.host_names(job, attempt, slices, one, hosts)]
    meeting = environment.coordinator(job, attempt, slices, resolved).address if resolved is not None else None
    return Surroundings(
        network=network,
        peers=(*peers, *([meeting] if meeting else [])),
        images=options.images,
        config_maps={one["metadata"]["name"]: one["data"] for one in lists},
        ulimits=options.ulimits,
        extra_devices=options.devices,
    )

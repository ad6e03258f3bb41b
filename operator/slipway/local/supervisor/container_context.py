"""What the containers of an attempt are made for, from the job and from what is said of it on this machine."""

from slipway.api.status import Resolved
from slipway.core.manifests.peers import Peers
from slipway.core.manifests.runtime import workers
from slipway.core.model.job import Job
from slipway.local.conversion.convert import Surroundings
from slipway.local.jobs.options import Options


def surroundings(job: Job, resolved: Resolved, options: Options, network: str) -> Surroundings:
    """What all hosts of the job's attempt have in common; their devices come besides.

    Args:
        job: the job.
        resolved: what it comes to.
        options: how its containers are made on this machine.
        network: name of its network.
    """
    peers = Peers(job, job.status.attempt or 0, job.granted, resolved)
    hosts = [name for index in range(peers.slices) for name in peers.host_names(index)]
    lists = peers.host_lists(workers(peers.slices, peers.hosts))
    return Surroundings(
        network=network,
        peers=(*hosts, peers.coordinator.address),
        images=options.images,
        config_maps={one["metadata"]["name"]: one["data"] for one in lists},
        ulimits=options.ulimits,
        extra_devices=options.devices,
    )

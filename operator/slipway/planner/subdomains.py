"""The Services that give the workers of a job their DNS names.

Whenever pods get their addresses, the control plane writes the Endpoints and EndpointSlices of their Service again. One
Service for thousands of pods would cost it more than the pods do, so a large job has several.
"""

from typing import Final

from slipway.api import names
from slipway.planner.actions import Body
from slipway.planner.metadata import metadata
from slipway.planner.snapshot import Job

HOSTS_OF_A_SERVICE: Final = 64
"""Most hosts that share a Service, unless they are of one slice."""


def subdomain(job: Job, slices: int, hosts: int, slice_index: int) -> str:
    """Name of the Service of the workers of a slice, which is the subdomain of their host names.

    Args:
        job: the job.
        slices: slices of the attempt.
        hosts: hosts of a slice.
        slice_index: index of the slice.
    """
    if not has_several(job, slices, hosts):
        return job.name
    return names.service_of_several(job.name, slice_index // max(1, HOSTS_OF_A_SERVICE // hosts))


def has_several(job: Job, slices: int, hosts: int) -> bool:
    """Whether the workers have several Services: those of all attempts as those of the first.

    Pods of an attempt that another version of Slipway has begun must be found by the names that its other pods know.
    """
    if job.status.attempt is None:
        return slices > 1 and slices * hosts > HOSTS_OF_A_SERVICE
    meeting = job.status.coordinator
    return meeting is not None and f".{names.service_of_several(job.name, 0)}." in meeting.address


def service_label(job: Job, name: str) -> dict[str, str]:
    """The label by which the Service of that name selects its workers; none where there is one Service."""
    return {} if name == job.name else {names.LABEL_SERVICE: name}


def services(job: Job, slices: int, hosts: int) -> tuple[Body, ...]:
    """The headless Services of all workers; never changed."""
    found = dict.fromkeys(subdomain(job, slices, hosts, index) for index in range(slices))
    return tuple(_service(job, name) for name in found)


def _service(job: Job, name: str) -> Body:
    selector = {names.LABEL_JOB_UID: job.uid, names.LABEL_ROLE: names.ROLE_WORKER, **service_label(job, name)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata(job, name, {}),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": selector},
    }

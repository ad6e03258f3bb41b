"""Reads the position of a job in its queue from Kueue's visibility API."""

import asyncio
from typing import Final

import msgspec

from slipway.api import names
from slipway.api.status import Phase
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import NO_RESOURCE, SlipwayClusterError
from slipway.client.model import JobState
from slipway.core.model.parts import Named, Part
from slipway.core.model.workload import workload_name

ANSWER_SECONDS: Final = 5.0
"""How long Kueue may take to tell; what else there is to say of the job waits for it."""
_ALL: Final = 100_000
"""As many Workloads as Kueue lists at most; without a limit it lists 1,000."""
_VERSIONS: Final = ("visibility.kueue.x-k8s.io/v1beta2", "visibility.kueue.x-k8s.io/v1beta1")


class _Pending(Part, frozen=True):
    metadata: Named
    position_in_local_queue: int
    position_in_cluster_queue: int


class _Summary(msgspec.Struct):
    items: tuple[_Pending, ...] = ()


async def position(api: ApiConnection, job: JobState) -> str:
    """How many Workloads are before that of a job, in words; empty where it does not wait, or Kueue does not tell."""
    queue = job.stored.metadata.labels.get(names.QUEUE_LABEL)
    if not queue or job.phase != Phase.QUEUED:
        return ""
    for version in _VERSIONS:
        path = f"{paths.of_kueue(version, 'localqueues', job.namespace)}/{queue}/pendingworkloads?limit={_ALL}"
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                summary = await api.get(path, _Summary)
        except NO_RESOURCE:
            continue
        except (SlipwayClusterError, TimeoutError):
            # Few people may ask, and the job waits whether they may or not.
            return ""
        own = next((item for item in summary.items if item.metadata.name == workload_name(job.name)), None)
        if own is None:
            return ""
        places = own.position_in_local_queue + 1, own.position_in_cluster_queue + 1
        return f"number {places[0]} in LocalQueue {queue}, number {places[1]} in its ClusterQueue"
    return ""

"""Jobs on this machine's engine without asyncio."""

from dataclasses import dataclass

from slipway.client.blocking import BlockingVerbs
from slipway.local.client.target import LocalTarget


@dataclass(frozen=True)
class LocalClient(BlockingVerbs, LocalTarget):
    """SliceJobs on the Docker engine that the docker command would use; made without any call.

    The verbs are those of `Client`. Methods raise the tree of `slipway.client.errors`.
    """

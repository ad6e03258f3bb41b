"""Looks for Secrets that the pods of a job name, where the operator may do so. What they hold is never read."""

import logging
from collections.abc import Iterable
from typing import Final

from slipway.api import names
from slipway.cluster import paths
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import Forbidden, NotFound
from slipway.cluster.log_fields import log_fields
from slipway.cluster.secret_references import required_secrets
from slipway.cluster.wire import JsonObject
from slipway.core.model.job import Job
from slipway.core.model.parts import Body

log = logging.getLogger(__name__)

_METADATA: Final = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
"""With this in Accept no data leaves the API server."""


async def missing_secrets(api: ApiConnection, job: Job, bodies: Iterable[Body]) -> tuple[str, ...]:
    """Names of the Secrets that the job's pods need and that its namespace does not have, sorted.

    None is missing as far as is known where the operator's role lacks `get` on secrets.
    """
    named = frozenset().union(*(required_secrets(body) for body in bodies if body["kind"] == "Pod"))
    # Slipway creates the token of a Ray cluster with the first pods.
    wanted = named - {names.ray_token_secret(job.name, job.uid)}
    found: list[str] = []
    for name in sorted(wanted):
        try:
            await api.get(f"{paths.secrets(job.namespace)}/{name}", JsonObject, accept=_METADATA)
        except NotFound:
            found.append(name)
        except Forbidden as error:
            log.warning("Secrets are not looked for: %s", error, extra=log_fields(job))
            return ()
    return tuple(found)

"""Looks for Secrets that the pods of a job name, where the operator may do so. What they hold is never read."""

import logging
from collections.abc import Iterable, Iterator
from typing import Final

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import Forbidden, NotFound
from slipway.apiserver.wire import JsonObject
from slipway.controller.observability.log_fields import log_fields
from slipway.core.manifests.containers import objects, part
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


def required_secrets(pod: Body) -> frozenset[str]:
    """Names of the Secrets that the containers and volumes of a pod name and that are not optional.

    The kubelet pulls images without the Secrets of imagePullSecrets that are missing, so these are not among them.
    """
    spec = part(pod, "spec")
    containers = (*objects(spec, "initContainers"), *objects(spec, "containers"))
    named = (*(one for container in containers for one in _of_container(container)), *_of_volumes(spec))
    return frozenset(name for source, name in named if name and not source.get("optional"))


def _of_container(container: Body) -> Iterator[tuple[Body, str]]:
    references = [part(part(one, "valueFrom"), "secretKeyRef") for one in objects(container, "env")]
    references += [part(one, "secretRef") for one in objects(container, "envFrom")]
    yield from ((reference, reference.get("name", "")) for reference in references)


def _of_volumes(spec: Body) -> Iterator[tuple[Body, str]]:
    for volume in objects(spec, "volumes"):
        secret = part(volume, "secret")
        yield secret, secret.get("secretName", "")
        projected = [part(one, "secret") for one in objects(part(volume, "projected"), "sources")]
        yield from ((one, one.get("name", "")) for one in projected)

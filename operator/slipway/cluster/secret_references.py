"""The Secrets that a pod cannot start without."""

from collections.abc import Iterator

from slipway.core.manifests.containers import objects, part
from slipway.core.model.parts import Body


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
    yield from ((one, one.get("name", "")) for one in references)


def _of_volumes(spec: Body) -> Iterator[tuple[Body, str]]:
    for volume in objects(spec, "volumes"):
        secret = part(volume, "secret")
        yield secret, secret.get("secretName", "")
        projected = [part(one, "secret") for one in objects(part(volume, "projected"), "sources")]
        yield from ((one, one.get("name", "")) for one in projected)

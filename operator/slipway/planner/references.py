"""The Secrets that a pod cannot start without."""

from collections.abc import Iterator
from typing import Any

from slipway.planner.actions import Body


def required_secrets(pod: Body) -> frozenset[str]:
    """Names of the Secrets that the containers and volumes of a pod name and that are not optional.

    The kubelet pulls images without the Secrets of imagePullSecrets that are missing, so these are not among them.
    """
    spec = pod.get("spec", {})
    containers = (*spec.get("initContainers", ()), *spec.get("containers", ()))
    named = (*(one for container in containers for one in _of_container(container)), *_of_volumes(spec))
    return frozenset(name for source, name in named if name and not source.get("optional"))


def _of_container(container: Any) -> Iterator[tuple[Any, str]]:
    sources = [one.get("valueFrom") or {} for one in container.get("env", ())]
    references = [one.get("secretKeyRef") for one in sources] + [
        one.get("secretRef") for one in container.get("envFrom", ())
    ]
    yield from ((one, one.get("name", "")) for one in references if one)


def _of_volumes(spec: Any) -> Iterator[tuple[Any, str]]:
    for volume in spec.get("volumes", ()):
        if secret := volume.get("secret"):
            yield secret, secret.get("secretName", "")
        projected = (volume.get("projected") or {}).get("sources", ())
        yield from ((one["secret"], one["secret"].get("name", "")) for one in projected if one.get("secret"))

"""Parts of the spec that a pod has as well: environment, volumes, tolerations, the pod template."""

from typing import Annotated, Any

from pydantic import Field, StringConstraints

from slipway.api.base import Model, Passthrough, rule, rules
from slipway.api.names import RESERVED_ENV
from slipway.api.resources import Labels, NonEmpty


def list_map(*keys: str) -> dict[str, Any]:
    """`json_schema_extra` of a list whose items are known by these keys."""
    return {"x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": list(keys)}


class LocalObjectReference(Model):
    """Name of an object in the job's namespace."""

    name: NonEmpty
    """Object name."""


class EnvVar(Model):
    """One environment variable; `$(NAME)` in a value is expanded as in any pod, `$$(NAME)` is not."""

    name: str = Field(
        max_length=256,
        json_schema_extra=rules(
            rule(
                "self.matches('^[A-Za-z_][A-Za-z0-9_]*$')",
                computed="'environment name ' + self + ' is not valid: letters, digits and _ are allowed, "
                "and the first may not be a digit'",
            ),
            rule(
                f"!(self in {list(RESERVED_ENV)!r})",
                computed="'environment name ' + self + ' is reserved: Slipway sets it for every host'",
            ),
        ),
    )
    """Variable name."""
    value: str | None = Field(default=None, max_length=131072)
    """Literal value."""
    value_from: Passthrough | None = None
    """Source of the value: fieldRef, resourceFieldRef, configMapKeyRef or secretKeyRef."""


class VolumeMount(Model):
    """Where a volume appears in the worker container."""

    name: NonEmpty
    """Name of a volume of the job."""
    mount_path: str = Field(
        max_length=1024,
        json_schema_extra=rules(
            rule(
                "self.startsWith('/') && !self.contains(':')",
                computed="'mountPath ' + self + ' is not valid: an absolute path without : is needed'",
            )
        ),
    )
    """Absolute path in the container."""
    read_only: bool | None = None
    """Mounted read-only."""
    recursive_read_only: str | None = Field(default=None, max_length=32)
    """Whether read-only mounts are read-only recursively."""
    sub_path: str | None = Field(default=None, max_length=1024)
    """Path within the volume."""
    sub_path_expr: str | None = Field(default=None, max_length=1024)
    """Path within the volume with $(VAR) expanded."""
    mount_propagation: str | None = Field(default=None, max_length=64)
    """How mounts propagate between host and container."""


class Volume(Passthrough):
    """A volume of the worker pods, as in a PodSpec."""

    name: NonEmpty
    """Volume name."""


class Toleration(Model):
    """A toleration, as in a PodSpec."""

    key: str | None = Field(default=None, max_length=317)
    """Taint key."""
    operator: str | None = Field(default=None, max_length=16)
    """Exists or Equal."""
    value: str | None = Field(default=None, max_length=63)
    """Taint value."""
    effect: str | None = Field(default=None, max_length=32)
    """NoSchedule, PreferNoSchedule or NoExecute."""
    toleration_seconds: int | None = None
    """How long a NoExecute taint is tolerated."""


class TemplateMetadata(Model):
    """Metadata added to every worker pod."""

    labels: Labels = Field(default={}, json_schema_extra={"maxProperties": 64})
    """Labels; those below slipway.dev/ belong to Slipway."""
    annotations: dict[Annotated[str, StringConstraints(max_length=317)], str] = Field(
        default={}, json_schema_extra={"maxProperties": 64}
    )
    """Annotations."""


class ContainerPort(Passthrough):
    """A port of a container of the template."""

    container_port: int = Field(ge=1, le=65535)
    """Port number."""


class TemplateEnvVar(Passthrough):
    """An environment variable of a container of the template."""

    name: NonEmpty
    """Variable name."""


class TemplateContainer(Passthrough):
    """A container of the template: the worker's, which is merged into Slipway's, or a sidecar."""

    name: NonEmpty
    """Container name; `worker` is the one that Slipway makes."""
    ports: tuple[ContainerPort, ...] = Field(default=(), max_length=256)
    """Ports."""
    env: tuple[TemplateEnvVar, ...] = Field(default=(), max_length=256, json_schema_extra=list_map("name"))
    """Environment."""


class PartialPodSpec(Passthrough):
    """Part of a PodSpec."""

    containers: tuple[TemplateContainer, ...] = Field(default=(), max_length=32, json_schema_extra=list_map("name"))
    """Containers; those with new names run beside the worker."""


class PodTemplate(Model):
    """Whatever else a pod can have, merged strategically over the pod Slipway makes."""

    metadata: TemplateMetadata | None = None
    """Labels and annotations of the pods."""
    spec: PartialPodSpec | None = None
    """Partial PodSpec; the container that Slipway makes is named `worker`."""

"""Whether a job can be run at all, and with which effective values.

The API server has refused what the schema and its CEL rules can see. What is left needs the accelerator catalogue
or a look into the preserved pod template.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from slipway.api import accelerators
from slipway.api.names import GROUP, RESERVED_ENV, WORKER_CONTAINER
from slipway.api.slicejob import Accelerator, SliceJobSpec
from slipway.api.status import Phase, Resolved
from slipway.planner import ray
from slipway.planner.snapshot import Job, Settings

DEFAULT_SCHEDULE_SECONDS: Final = 604800
DEFAULT_START_SECONDS: Final = 1800
DEFAULT_GRACE_SECONDS: Final = 30

_SLIPWAYS: Final = ("restartPolicy", "hostname", "subdomain", "nodeName")
_CHANGEABLE: Final = {"suspend", "cancel", "retries", "timeouts", "ttl_seconds_after_finished"}
_CHANGEABLE_WHILE_SUSPENDED: Final = {"node_selector", "tolerations", "pod_template"}


@dataclass(frozen=True, slots=True)
class Unacceptable(Exception):
    """The job cannot be run as it is written."""

    reason: str
    message: str


def resolve(spec: SliceJobSpec, settings: Settings) -> Resolved:
    """The effective values of a spec.

    Raises:
        Unacceptable: naming the field, its value and what is allowed.
    """
    shape = shape_of(spec.accelerator) if spec.accelerator is not None else None
    port = (spec.coordinator.port if spec.coordinator else None) or settings.coordinator_port
    _refuse_taken_port(spec, port)
    _refuse_what_is_slipways(spec)
    if spec.ray is not None and (problem := ray.problem(spec.ray, template_spec(spec), port)) is not None:
        raise Unacceptable(*problem)
    grace = spec.termination_grace_period_seconds
    return Resolved(
        type=shape.type if shape else None,
        label=shape.label if shape else None,
        topology=shape.topology if shape else None,
        hosts=shape.hosts if shape else spec.hosts or 1,
        chips_per_host=shape.chips_per_host if shape else 0,
        coordinator_port=port,
        schedule_seconds=spec.timeouts.schedule_seconds or DEFAULT_SCHEDULE_SECONDS,
        start_seconds=spec.timeouts.start_seconds or DEFAULT_START_SECONDS,
        grace_period_seconds=DEFAULT_GRACE_SECONDS if grace is None else grace,
        template_hash=template_hash(spec),
    )


def shape_of(accelerator: Accelerator) -> accelerators.Shape:
    """The slice shape an accelerator names.

    Raises:
        Unacceptable: with the nearest valid values.
    """
    asked = accelerator
    return _shape(asked.type, asked.generation, asked.topology, asked.chips_per_host, asked.label)


@lru_cache(maxsize=1024)
def _shape(
    kind: str | None, generation: str | None, topology: str | None, chips_per_host: int | None, label: str | None
) -> accelerators.Shape:
    try:
        return accelerators.resolve(
            kind, generation=generation, topology=topology, chips_per_host=chips_per_host, label=label
        )
    except accelerators.AcceleratorError as error:
        raise Unacceptable("InvalidAccelerator", f"spec.accelerator: {error}") from error


def _refuse_taken_port(spec: SliceJobSpec, port: int) -> None:
    for container in template_spec(spec).get("containers") or ():
        for declared in container.get("ports") or ():
            if declared.get("containerPort") == port:
                raise Unacceptable(
                    "PortTaken",
                    f"spec.coordinator.port {port} is also a port of container {container.get('name')!r} in "
                    "spec.podTemplate: choose another for one of them",
                )


def _refuse_what_is_slipways(spec: SliceJobSpec) -> None:
    template = template_spec(spec)
    for field in _SLIPWAYS:
        if field in template:
            raise Unacceptable(
                "ReservedField", f"spec.podTemplate.spec.{field} is set by Slipway for every pod: remove it"
            )
    if template.get("terminationGracePeriodSeconds") == 0:
        raise Unacceptable(
            "UnsafeGrace",
            "spec.podTemplate.spec.terminationGracePeriodSeconds 0 would take pods out of the API while their "
            "containers still run: use 1 or more",
        )
    for container in template.get("containers") or ():
        for variable in container.get("env") or ():
            if container.get("name") == WORKER_CONTAINER and variable.get("name") in RESERVED_ENV:
                raise Unacceptable(
                    "ReservedEnvironment",
                    f"spec.podTemplate.spec.containers[worker].env {variable['name']} is reserved: "
                    "Slipway sets it for every host",
                )
    metadata = spec.pod_template.metadata if spec.pod_template else None
    for label in metadata.labels if metadata else ():
        if label.startswith(f"{GROUP}/"):
            raise Unacceptable(
                "ReservedLabel", f"spec.podTemplate.metadata.labels {label}: labels below {GROUP}/ are Slipway's"
            )


def template_spec(spec: SliceJobSpec) -> dict[str, Any]:
    """The partial PodSpec of the pod template as JSON."""
    if spec.pod_template is None or spec.pod_template.spec is None:
        return {}
    return spec.pod_template.spec.model_dump(by_alias=True, exclude_none=True)


def template_hash(spec: SliceJobSpec) -> str:
    """Hash of what may not change after creation: catches changes below preserved fields that CEL cannot see.

    Two parts: what may never change, and what queues may inject while the job is suspended.
    """
    injectable = _digest(spec, include=_CHANGEABLE_WHILE_SUSPENDED)
    return f"{_digest(spec, exclude=_CHANGEABLE | _CHANGEABLE_WHILE_SUSPENDED)}-{injectable}"


def _digest(spec: SliceJobSpec, **choice: set[str]) -> str:
    content = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, **choice)  # type: ignore[arg-type]
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:12]


def changed_since(job: Job, resolved: Resolved) -> bool:
    """Whether the spec differs from the one the job was accepted with, in what may not change now."""
    accepted = job.status.resolved
    if accepted is None or accepted.template_hash == resolved.template_hash:
        return False
    core, _, _ = accepted.template_hash.partition("-")
    return job.status.phase is not Phase.SUSPENDED or not resolved.template_hash.startswith(f"{core}-")

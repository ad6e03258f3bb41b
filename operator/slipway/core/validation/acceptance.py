"""Whether a job can be run at all, and with which effective values.

The API server has refused what the schema and its CEL rules can see. What is left needs the accelerator catalogue
or a look into the preserved pod template.
"""

import hashlib
import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from slipway.api import accelerators, slicejob
from slipway.api.gpus import ANY_SITE, MODEL_OF_NONE, Gpu, GpuError, Gpus, GpuSite
from slipway.api.gpus import resolve as resolve_gpus
from slipway.api.names import GROUP
from slipway.api.ray import HEAD_WORKERS_NEED_A_NAME
from slipway.api.slicejob import CHANGEABLE_WHILE_SUSPENDED, LONGEST_GRACE_SECONDS, Accelerator, SliceJobSpec
from slipway.api.status import Phase, Resolved
from slipway.core.manifests.accepted import Effective, InvalidSpec, effective, hardware_of, runtime_of
from slipway.core.manifests.containers import template_spec
from slipway.core.manifests.merge import malformed, without_nulls
from slipway.core.manifests.pods import PodFactory
from slipway.core.manifests.redact import printable
from slipway.core.model.job import Job, Settings
from slipway.core.model.parts import Body
from slipway.core.validation.limits import FORBIDDEN, forbidden
from slipway.core.validation.refusals import refusals, refusals_of_new
from slipway.core.validation.workspace import missing, problems

DEFAULT_SCHEDULE_SECONDS: Final = 604800
DEFAULT_START_SECONDS: Final = 1800
DEFAULT_GRACE_SECONDS: Final = 30

_SLIPWAYS: Final = ("restartPolicy", "hostname", "subdomain", "nodeName")
HASH_VERSION: Final = "v2:"
"""Of what the template hash is made; goes up whenever another Slipway would make another hash of the same spec."""

OPAQUE: Final = {
    *("env", "env_from", "pod_security_context", "pod_template", "ray", "resources", "security_context", "volumes")
}
"""Fields with parts that no CEL rule can compare."""

_NO_IMAGE: Final = (
    "no image: set spec.image to the container image to run, or defaults.image of a SliceJobProfile, or the chart "
    "value site.defaults.image"
)

_LATE: Final = {name for name, field in SliceJobSpec.model_fields.items() if field.alias in CHANGEABLE_WHILE_SUSPENDED}


_SPEC_CHANGED: Final = (
    "SpecChanged",
    "fields that cannot change after creation were changed (podTemplate, volumes, resources, env or "
    "securityContext): restore them, or delete the SliceJob and create it again",
)
_CHANGED_TOO_SOON: Final = (
    "SpecChanged",
    "podTemplate was changed while the phase of the job was not Suspended: set spec.suspend to true, wait for that "
    "phase, in which the change is accepted, and set it to false; or restore podTemplate",
)


def accept(job: Job, settings: Settings) -> Effective:
    """What a job's spec comes to; once for each generation, of which labels are no part.

    Raises:
        InvalidSpec: naming the field, its value and what is allowed.
    """
    if job.spec is None or job.problem:
        raise InvalidSpec("InvalidSpec", job.problem)
    if job.in_attempt and job.defaults_unknown and job.status.resolved is not None:
        return effective(job.spec, job.status.resolved, job.site)
    if job.site.choice.problem is not None and not job.in_attempt:
        raise InvalidSpec(*job.site.choice.problem)
    known: Effective | None = job.accepted.get(settings)
    if known is None:
        resolved = _resolved(job, job.spec, settings)
        if not job.spec.image and job.site.known:
            raise InvalidSpec("InvalidSpec", _NO_IMAGE)
        template = template_spec(job.spec)
        begun = job.status.attempt is not None or job.is_as_accepted
        later = () if begun else refusals_of_new(job.spec, template)
        for refusal in (*missing(job, job.spec, settings), *later):
            raise InvalidSpec(*refusal)
        kept = begun and _keeps_network(job, job.spec, resolved)
        refused = forbidden(job.spec, template, job.site, resolved.type, resolved.hosts, keeps_network=kept)
        known = job.accepted[settings] = effective(job.spec, resolved, job.site, refused)
    if known.forbidden is not None and not job.in_attempt:
        raise InvalidSpec(FORBIDDEN, known.forbidden)
    return known


def pod_factory(job: Job, settings: Settings, pools: Mapping[int, str] | None = None) -> PodFactory:
    """What makes the pods of a job, whose slices have these node pools.

    Raises:
        InvalidSpec: as `accept`.
    """
    return PodFactory(job, accept(job, settings), settings, pools)


def _keeps_network(job: Job, spec: SliceJobSpec, resolved: Resolved) -> bool:
    """Whether the job was accepted with what it asks of the network of the nodes now."""
    accepted = job.status.resolved
    if accepted is not None and _is_of_another_template(accepted, resolved):
        return False
    own = job.written is not None and job.written.host_network is not None
    values = () if accepted is None else accepted.defaults or ()
    return own or not spec.host_network or any(value.field == "spec.hostNetwork" for value in values)


def _resolved(job: Job, spec: SliceJobSpec, settings: Settings) -> Resolved:
    """The effective values; what an older version accepted is not refused between two attempts of a job."""
    written, values = job.written or spec, job.site.values or None
    try:
        resolved = resolve(spec, settings, job.site.gpus)
    except InvalidSpec:
        accepted = job.status.resolved
        if accepted is None or job.status.attempt is None or accepted.template_hash != template_hash(written):
            raise
        if job.defaults_unknown:
            raise
        return accepted
    if spec is written:
        return resolved
    return resolved.model_copy(update={"template_hash": template_hash(written), "defaults": values})


def resolve(spec: SliceJobSpec, settings: Settings, site: GpuSite = ANY_SITE) -> Resolved:
    """The effective values of a spec.

    Args:
        spec: the spec.
        settings: the operator's.
        site: what is said of the GPUs of the nodes.

    Raises:
        InvalidSpec: naming the field, its value and what is allowed.
    """
    shape, gpus = _devices(spec, site)
    port = (spec.coordinator.port if spec.coordinator else None) or settings.coordinator_port
    hosts = shape.hosts if shape else spec.hosts or 1
    if shape is None and (site.known or spec.accelerator is not None):
        _refuse_nameless_head_workers(spec)
    _refuse_too_many_pods(hosts, spec.most_slices, settings.max_pods)
    template = template_spec(spec)
    if (fault := malformed(template)) is not None:
        raise InvalidSpec("InvalidPodTemplate", f"spec.podTemplate.spec.{fault}")
    _refuse_taken_port(template, port)
    _refuse_what_is_slipways(spec, template)
    for refusal in (
        *refusals(spec, template, shape, gpus, images_by_id=settings.images_by_id),
        *problems(spec, template),
    ):
        raise InvalidSpec(*refusal)
    start = spec.timeouts.start_seconds
    resolved = Resolved(
        type=shape.type if shape else gpus.type if gpus else None,
        label=shape.label if shape else None,
        topology=shape.topology if shape else None,
        hosts=hosts,
        chips_per_host=shape.chips_per_host if shape else 0,
        gpu_vendor=gpus.vendor if gpus else None,
        gpu_resource=gpus.resource if gpus else None,
        gpus_per_host=gpus.count if gpus else None,
        coordinator_port=port,
        schedule_seconds=spec.timeouts.schedule_seconds or DEFAULT_SCHEDULE_SECONDS,
        start_seconds=DEFAULT_START_SECONDS if start is None else start,
        grace_period_seconds=_grace_seconds(spec, template),
        template_hash=template_hash(spec),
    )
    _refuse_other_nodes(spec, template, hardware_of(spec, resolved, site).labels())
    if (problem := runtime_of(spec).problem(template, port)) is not None:
        raise InvalidSpec(*problem)
    return resolved


def _devices(spec: SliceJobSpec, site: GpuSite) -> tuple[accelerators.Shape | None, Gpus | None]:
    """The slice shape or the GPUs that the accelerator stands for; neither for CPU jobs."""
    asked = spec.accelerator
    if asked is None:
        return None, None
    if asked.reservation is not None and asked.spot:
        raise InvalidSpec("InvalidAccelerator", f"spec.accelerator.reservation: {slicejob.NO_SPOT_RESERVATION}")
    if asked.gpu is not None:
        return None, _gpus_of(asked, asked.gpu, site)
    if spec.hosts is not None:
        raise InvalidSpec("InvalidSpec", f"spec.hosts {spec.hosts}: {slicejob.HOSTS_OF_TPUS}")
    if spec.one_host_per_node is not None:
        raise InvalidSpec("InvalidSpec", f"spec.oneHostPerNode: {slicejob.ALWAYS_ALONE}")
    return _shape(asked.type, asked.generation, asked.topology, asked.chips_per_host, asked.label), None


def _gpus_of(accelerator: Accelerator, asked: Gpu, site: GpuSite) -> Gpus | None:
    if accelerator.type is not None or accelerator.generation is not None:
        raise InvalidSpec("InvalidAccelerator", f"spec.accelerator.gpu: {slicejob.ONE_HARDWARE}")
    if any(one is not None for one in (accelerator.topology, accelerator.chips_per_host, accelerator.label)):
        raise InvalidSpec("InvalidAccelerator", f"spec.accelerator.gpu: {slicejob.WORDS_OF_TPUS}")
    if asked.model is not None and asked.count == 0:
        raise InvalidSpec("InvalidAccelerator", f"spec.accelerator.gpu.model {asked.model}: {MODEL_OF_NONE}")
    try:
        return resolve_gpus(asked, site)
    except GpuError as error:
        raise InvalidSpec("InvalidAccelerator", f"spec.accelerator.gpu.{error}") from error


@lru_cache(maxsize=1024)
def _shape(
    kind: str | None, generation: str | None, topology: str | None, chips_per_host: int | None, label: str | None
) -> accelerators.Shape:
    try:
        return accelerators.resolve(
            kind, generation=generation, topology=topology, chips_per_host=chips_per_host, label=label
        )
    except accelerators.AcceleratorError as error:
        raise InvalidSpec("InvalidAccelerator", f"spec.accelerator: {error}") from error


def _refuse_too_many_pods(hosts: int, slices: int, allowed: int) -> None:
    if hosts * slices > allowed:
        raise InvalidSpec(
            "TooManyPods",
            f"spec.slices {slices} x {hosts} hosts of a slice = {hosts * slices} pods: a SliceJob has at most "
            f"{allowed} pods",
        )


def _refuse_nameless_head_workers(spec: SliceJobSpec) -> None:
    """Without TPUs no Ray resource is there of its own for them to be an amount of."""
    asked = spec.ray
    if asked is not None and asked.head_workers is not None and asked.head_resource_name is None:
        raise InvalidSpec("InvalidSpec", f"spec.ray.headWorkers {asked.head_workers}: {HEAD_WORKERS_NEED_A_NAME}")


def _refuse_taken_port(template: Body, port: int) -> None:
    for container in template.get("containers", ()):
        if any(declared["containerPort"] == port for declared in container.get("ports", ())):
            raise InvalidSpec(
                "PortTaken",
                f"spec.coordinator.port {port} is also a port of container {container['name']!r} in "
                "spec.podTemplate: choose another for one of them",
            )


def _grace_seconds(spec: SliceJobSpec, template: Body) -> int:
    """Within how many seconds the containers of a pod terminate; the template wins, as in the pod itself."""
    given = template.get("terminationGracePeriodSeconds")
    if not isinstance(given, int) or isinstance(given, bool):
        given = spec.termination_grace_period_seconds
        return DEFAULT_GRACE_SECONDS if given is None else given
    field = f"spec.podTemplate.spec.terminationGracePeriodSeconds {given}"
    if given < 1:
        raise InvalidSpec(
            "UnsafeGrace",
            f"{field} would take pods out of the API while their containers still run: use 1 or more",
        )
    if given > LONGEST_GRACE_SECONDS:
        raise InvalidSpec("InvalidPodTemplate", f"{field}: at most {LONGEST_GRACE_SECONDS} is allowed")
    return given


def _refuse_what_is_slipways(spec: SliceJobSpec, template: Body) -> None:
    for field in _SLIPWAYS:
        if field in template:
            raise InvalidSpec(
                "ReservedField", f"spec.podTemplate.spec.{field} is set by Slipway for every pod: remove it"
            )
    metadata = spec.pod_template.metadata if spec.pod_template else None
    for label in metadata.labels if metadata else ():
        if label.startswith(f"{GROUP}/"):
            raise InvalidSpec(
                "ReservedLabel", f"spec.podTemplate.metadata.labels {label}: labels below {GROUP}/ are Slipway's"
            )


def _refuse_other_nodes(spec: SliceJobSpec, template: Body, own: Mapping[str, str]) -> None:
    """No pod may select nodes on which its slice cannot be: it would wait for ever."""
    given = {
        "accelerator.nodeSelector": spec.accelerator.node_selector if spec.accelerator is not None else {},
        "nodeSelector": spec.node_selector,
        "podTemplate.spec.nodeSelector": template.get("nodeSelector", {}),
    }
    for field, selector in given.items():
        for label in own.keys() & selector.keys():
            if selector[label] != own[label]:
                raise InvalidSpec(
                    "InvalidNodeSelector",
                    f"spec.{field} {label}: {printable(str(selector[label]))!r} contradicts spec.accelerator, which "
                    f"selects {own[label]!r}: remove it",
                )


def template_hash(spec: SliceJobSpec) -> str:
    """Hash of what CEL cannot compare: catches changes below preserved fields after creation.

    Two parts: what may never change, and what queues may inject while the job is suspended.
    """
    return f"{HASH_VERSION}{_digest(spec, OPAQUE - _LATE)}-{_digest(spec, OPAQUE & _LATE)}"


def _digest(spec: SliceJobSpec, fields: set[str]) -> str:
    content = spec.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True, include=fields)
    return hashlib.sha256(json.dumps(without_nulls(content), sort_keys=True).encode()).hexdigest()[:12]


def _is_of_another_template(accepted: Resolved, resolved: Resolved) -> bool:
    """Whether the hashes say that the spec has changed. The hash of another version of Slipway says nothing."""
    return accepted.template_hash.startswith(HASH_VERSION) and accepted.template_hash != resolved.template_hash


def changed_since(job: Job, resolved: Resolved) -> InvalidSpec | None:
    """What is wrong with a spec that differs from the one the job was accepted with, in what may not change now."""
    accepted = job.status.resolved
    if accepted is None or not _is_of_another_template(accepted, resolved):
        return None
    core, _, _ = accepted.template_hash.partition("-")
    if not resolved.template_hash.startswith(f"{core}-"):
        return InvalidSpec(*_SPEC_CHANGED)
    return None if job.status.phase is Phase.SUSPENDED else InvalidSpec(*_CHANGED_TOO_SOON)

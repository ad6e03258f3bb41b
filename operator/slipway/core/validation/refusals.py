"""What a job may not ask for, and no rule of the schema can see: parts of pods that the API server stores unread.

Each check yields the reason and the message of what it refuses. A message names the field as it stands in the
SliceJob; of the environment it names variables and never values.
"""

import posixpath
import re
from collections.abc import Iterator
from typing import Any, Final

from slipway.api import names
from slipway.api.accelerators import Shape
from slipway.api.gpus import Gpus, is_gpu
from slipway.api.progress import PatternError, compiled
from slipway.api.ray import NO_TPUS_ON_HEAD
from slipway.api.resources import NO_SIZE, amount, is_size, is_whole
from slipway.api.slicejob import LOCAL_IMAGE, SliceJobSpec
from slipway.api.words import shown
from slipway.core.manifests.containers import Container, containers, objects, part, volumes
from slipway.core.manifests.redact import printable
from slipway.core.model.parts import Body

Refusal = tuple[str, str]
"""Reason and message."""

_IN_RUN: Final = (
    *("docker.sock", "docker", "containerd", "k3s/containerd", "crio", "podman", "buildkit"),
    *("cri-dockerd.sock", "dockershim.sock"),
)
_ENGINE_PLACES: Final = tuple(f"{run}/{name}" for run in ("/var/run", "/run") for name in _IN_RUN)
"""Where container engines have their sockets: files, and folders of such files."""
_ENGINE_SOCKETS: Final = frozenset(
    {"docker.sock", "containerd.sock", "crio.sock", "podman.sock", "cri-dockerd.sock", "dockershim.sock"}
)
_PROCESSES: Final = "/proc"
"""Every process shows its root there, so that it leads to every folder of the node."""
_RAY_AUTHENTICATION: Final = tuple(name for name in names.RESERVED_RAY_ENV if name.startswith("RAY_AUTH_"))
_REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
_OWN_VOLUMES: Final = ("slipway-data", "slipway-ray", "slipway-shm", "slipway-workspace")
_RESTARTS_ALL: Final = "RestartAllContainers"


def refusals(
    spec: SliceJobSpec, template: Body, shape: Shape | None, gpus: Gpus | None, *, images_by_id: bool = False
) -> Iterator[Refusal]:
    """What is refused in a spec and in the PodSpec of its template, which has the lists that a PodSpec has.

    Args:
        spec: the spec.
        template: the PodSpec of its template.
        shape: the slice shape that its accelerator stands for.
        gpus: the GPUs that it stands for.
    """
    given = tuple(containers(spec, template))
    yield from _engine_sockets(spec, template)
    yield from _reserved_volumes(spec, template)
    yield from _restarts(template)
    if not images_by_id:
        yield from _local_images(given)
    yield from _reserved_variables(spec, given)
    yield from _queue_of_pods(spec)
    yield from _unusable_pattern(spec)
    yield from _tpus_of_head(given)
    on_hosts = tuple(container for container in given if container.on_host)
    if shape is not None:
        yield from _other_devices(on_hosts, shape)
    elif spec.accelerator is not None and spec.accelerator.gpu is not None:
        yield from _other_gpus(on_hosts, gpus)
    if spec.one_host_per_node:
        yield from _lost_anti_affinity(template)


def refusals_of_new(spec: SliceJobSpec, template: Body) -> Iterator[Refusal]:
    """What is refused only in a spec that has not been accepted yet: earlier versions took it, and jobs have it."""
    given = [("spec.shmSize", "memory", spec.shm_size)] if spec.shm_size is not None else []
    for container in containers(spec, template):
        given += [(f"{path}[{resource}]", resource, value) for path, resource, value in _resources(container)]
    for field, resource, value in given:
        if is_size(resource) and amount(value) is not None and not is_whole(value):
            yield "InvalidSpec", f"{field} {_shown(value)} {NO_SIZE}"


def _engine_sockets(spec: SliceJobSpec, template: Body) -> Iterator[Refusal]:
    given = [*volumes(spec, template)]
    if spec.workspace is not None:
        given.append(("spec.workspace", spec.workspace.model_dump(by_alias=True)))
    for path, volume in given:
        folder = part(volume, "hostPath").get("path")
        if isinstance(folder, str) and (place := engine_place(folder)) is not None:
            yield (
                "InvalidSpec",
                f"{path}.hostPath.path {_shown(folder)} gives the pods the socket of the node's "
                f"container engine ({place}): no path that is, holds, lies in or leads to the place of such a "
                "socket is allowed; mount another folder, or remove the volume",
            )


def engine_place(path: str) -> str | None:
    """The place of an engine's socket that a path of the node is, holds, lies in or leads to."""
    path = posixpath.normpath("/" + path.lstrip("/"))
    if (path + "/").startswith(_PROCESSES + "/"):
        return f"through {_PROCESSES}/1/root, which is the node's /"
    if posixpath.basename(path) in _ENGINE_SOCKETS:
        return path
    inside, held = path + "/", path.rstrip("/") + "/"
    return next((place for place in _ENGINE_PLACES if inside.startswith(place + "/") or place.startswith(held)), None)


def _reserved_volumes(spec: SliceJobSpec, template: Body) -> Iterator[Refusal]:
    """Volumes that Slipway makes are mounted where it mounts them, and as it does."""
    named = [(f"spec.volumes[{index}].name", volume.name) for index, volume in enumerate(spec.volumes)]
    named += [(f"spec.volumeMounts[{mount.mount_path}].name", mount.name) for mount in spec.volume_mounts]
    parts = [("volumes", template.get("volumes", ()))]
    for kind in ("containers", "initContainers"):
        for at, container in enumerate(template.get(kind, ())):
            parts.append((f"{kind}[{at}].volumeMounts", container.get("volumeMounts", ())))
    named += [
        (f"spec.podTemplate.spec.{path}[{index}].name", str(one.get("name")))
        for path, ones in parts
        for index, one in enumerate(ones)
    ]
    for field, name in named:
        if name.startswith(_OWN_VOLUMES):
            yield (
                "ReservedField",
                f"{field} {_shown(name)}: names that begin with {', '.join(_OWN_VOLUMES)} are those of Slipway's own "
                "volumes: choose another",
            )


def _restarts(template: Body) -> Iterator[Refusal]:
    """Containers that the kubelet would start again: a second run of a worker is the sign of a rebooted machine."""
    for index, container in enumerate(template.get("containers", ())):
        path = f"spec.podTemplate.spec.containers[{index}]"
        if (policy := container.get("restartPolicy", "Never")) != "Never":
            yield _started_once(f"{path}.restartPolicy", policy)
        if "restartPolicyRules" in container:
            yield _started_once(f"{path}.restartPolicyRules", container["restartPolicyRules"])
    for index, container in enumerate(template.get("initContainers", ())):
        if any(rule.get("action") == _RESTARTS_ALL for rule in objects(container, "restartPolicyRules")):
            path = f"spec.podTemplate.spec.initContainers[{index}].restartPolicyRules"
            yield _started_once(path, _RESTARTS_ALL)


def _started_once(field: str, value: Any) -> Refusal:
    return (
        "ReservedField",
        f"{field} {_shown(value)}: the containers of a host start once, and spec.retries says how often Slipway starts "
        "all hosts anew: remove it",
    )


def _local_images(given: tuple[Container, ...]) -> Iterator[Refusal]:
    for container in given:
        image = container.fields.get("image")
        if isinstance(image, str) and re.match(LOCAL_IMAGE, image):
            yield (
                "InvalidSpec",
                f"{container.path}.image {_shown(image)} names no registry or repository that a node could pull it from"
                ": push the image, and write [registry/]repository:tag or [registry/]repository@digest",
            )


def _reserved_variables(spec: SliceJobSpec, given: tuple[Container, ...]) -> Iterator[Refusal]:
    of_ray = names.RESERVED_RAY_ENV if spec.ray is not None else ()
    reserved = frozenset((*names.RESERVED_ENV, *of_ray))
    for container in given:
        taken = reserved if container.is_worker else frozenset(_RAY_AUTHENTICATION if of_ray else ())
        yield from _taken(
            f"{container.path}.env", [variable["name"] for variable in container.fields.get("env", ())], taken
        )
    if spec.ray is not None and spec.ray.runtime_env is not None:
        yield from _taken("spec.ray.runtimeEnv.env_vars", list(spec.ray.runtime_env.env_vars), reserved)


def _taken(path: str, variables: list[str], reserved: frozenset[str]) -> Iterator[Refusal]:
    for name in variables:
        if name in reserved:
            sets = "in every container of a Ray cluster" if name in names.RESERVED_RAY_ENV else "for every host"
            yield "ReservedEnvironment", f"{path}[{name}] is reserved: Slipway sets it {sets}; remove it"


def _queue_of_pods(spec: SliceJobSpec) -> Iterator[Refusal]:
    metadata = spec.pod_template.metadata if spec.pod_template is not None else None
    if metadata is not None and names.QUEUE_LABEL in metadata.labels:
        yield (
            "QueueNotSupported",
            f"spec.podTemplate.metadata.labels[{names.QUEUE_LABEL}] "
            f"{_shown(metadata.labels[names.QUEUE_LABEL])}: Kueue admits the SliceJob as a whole, not its pods: put "
            "the label into metadata.labels of the SliceJob",
        )


def _unusable_pattern(spec: SliceJobSpec) -> Iterator[Refusal]:
    if spec.progress is None:
        return
    try:
        compiled(spec.progress.pattern)
    except PatternError as error:
        yield "InvalidSpec", f"spec.progress.pattern {_shown(spec.progress.pattern)}: {error}"


def _tpus_of_head(given: tuple[Container, ...]) -> Iterator[Refusal]:
    for container in given:
        for path, resource, value in _resources(container):
            if not container.on_host and resource == names.TPU_RESOURCE:
                yield "InvalidSpec", f"{path}[{resource}] {_shown(value)}: {NO_TPUS_ON_HEAD}"


def _other_devices(given: tuple[Container, ...], shape: Shape) -> Iterator[Refusal]:
    """GPUs that TPU nodes do not have, and another number of chips than their hosts have."""
    for container in given:
        for path, resource, value in _resources(container):
            if is_gpu(resource):
                yield (
                    "InvalidSpec",
                    f"{path}[{printable(resource)}] {_shown(value)}: the nodes of accelerator {shape.type} have TPUs "
                    "and no GPUs: remove it, or remove spec.accelerator",
                )
            elif container.is_worker and resource == names.TPU_RESOURCE and amount(value) != shape.chips_per_host:
                yield (
                    "InvalidSpec",
                    f"{path}[{resource}] {_shown(value)}: a host of accelerator {shape.type} has "
                    f"{shape.chips_per_host} chips, and Slipway requests them all: leave the field out",
                )


def _other_gpus(given: tuple[Container, ...], gpus: Gpus | None) -> Iterator[Refusal]:
    """Devices that the nodes of `accelerator.gpu` do not have, and another number of GPUs than a host has (K-13)."""
    for container in given:
        for path, resource, value in _resources(container):
            if problem := _gpu_problem(container, resource, value, gpus):
                yield "InvalidSpec", f"{path}[{printable(resource)}] {_shown(value)}: {problem}"


def _gpu_problem(container: Container, resource: str, value: Any, gpus: Gpus | None) -> str:
    """What is wrong with a device among the resources of a container; empty when nothing is."""
    if gpus is None:
        return "spec.accelerator.gpu.count is 0, so no host has GPUs: remove one of them" if is_gpu(resource) else ""
    if resource == gpus.resource:
        if not container.is_worker or amount(value) == gpus.count:
            return ""
        return f"by spec.accelerator.gpu.count a host has {gpus.count}, and Slipway requests them all: remove this"
    if is_gpu(resource) or resource == names.TPU_RESOURCE:
        return f"the hosts of spec.accelerator.gpu have {gpus.resource}: remove it, or remove spec.accelerator.gpu"
    return ""


def _lost_anti_affinity(template: Body) -> Iterator[Refusal]:
    if _REQUIRED in part(part(template, "affinity"), "podAntiAffinity"):
        yield (
            "InvalidPodTemplate",
            f"spec.podTemplate.spec.affinity.podAntiAffinity.{_REQUIRED} would replace the rule of "
            "spec.oneHostPerNode: remove one of them",
        )


def _resources(container: Container) -> Iterator[tuple[str, str, Any]]:
    """Path, resource and quantity of what a container asks for."""
    for kind in ("limits", "requests"):
        for resource, value in part(part(container.fields, "resources"), kind).items():
            yield f"{container.path}.resources.{kind}", resource, value


def _shown(value: Any) -> str:
    return shown(str(value) if isinstance(value, int | float) else value)

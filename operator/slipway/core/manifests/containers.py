"""The containers of the pods as a SliceJob describes them: in the spec itself, and in its pod template."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from slipway.api import names
from slipway.api.slicejob import SliceJobSpec
from slipway.api.workspace import PythonModule
from slipway.core.manifests.merge import without_nulls
from slipway.core.model.parts import Body
from slipway.core.model.site import Site


@dataclass(frozen=True, slots=True)
class Container:
    """A container, or the part of one, that stands at one place of a SliceJob."""

    path: str
    """That place, as its user knows it."""
    fields: Body
    is_worker: bool
    """Whether the user's program, or Ray, runs in it."""
    on_host: bool = True
    """Whether it is on a host of a slice, which the Ray head is not."""


def part(whole: Body, name: str) -> Body:
    """The object of that name below another; empty where there is none: the API server stores parts of pods unread."""
    found = whole.get(name)
    return found if isinstance(found, dict) else {}


def objects(whole: Body, name: str) -> list[Body]:
    """The objects in the list of that name below another object, which may be no list, and may hold anything else."""
    return [item for item in _items(whole, name) if isinstance(item, dict)]


def texts(whole: Body, name: str) -> list[str]:
    """The texts in such a list."""
    return [item for item in _items(whole, name) if isinstance(item, str)]


def _items(whole: Body, name: str) -> list[Any]:
    found = whole.get(name)
    return found if isinstance(found, list) else []


def volumes(spec: SliceJobSpec, template: Body) -> Iterator[tuple[str, Body]]:
    """The volumes of the spec and those of the template, each with its place."""
    own = [volume.model_dump(by_alias=True) for volume in spec.volumes]
    for path, given in ("spec", own), ("spec.podTemplate.spec", template.get("volumes", ())):
        yield from ((f"{path}.volumes[{index}]", volume) for index, volume in enumerate(given))


def template_spec(spec: SliceJobSpec) -> Body:
    """The partial PodSpec of the pod template as JSON."""
    if spec.pod_template is None or spec.pod_template.spec is None:
        return {}
    content: Body = without_nulls(spec.pod_template.spec.model_dump(mode="json", by_alias=True, exclude_unset=True))
    return content


def memory_limit(spec: SliceJobSpec) -> str | int | None:
    """The most memory that the worker may use; the template wins, as in the pod itself."""
    given: object = spec.resources.limits.get("memory")
    for container in objects(template_spec(spec), "containers"):
        if container.get("name") == names.WORKER_CONTAINER:
            given = part(part(container, "resources"), "limits").get("memory", given)
    return given if isinstance(given, str | int) else None


def containers(spec: SliceJobSpec, template: Body) -> Iterator[Container]:
    """The worker and the Ray head as the spec has them, then the containers of the template.

    The template has the lists that a PodSpec has.
    """
    own = spec.model_dump(by_alias=True, exclude_none=True, include={"image", "env", "resources", "security_context"})
    yield Container("spec", own, is_worker=True)
    if spec.ray is not None:
        head = spec.ray.head.model_dump(by_alias=True, exclude_none=True, include={"env", "resources"})
        yield Container("spec.ray.head", head, is_worker=True, on_host=False)
    for kind in ("containers", "initContainers"):
        for index, fields in enumerate(template.get(kind, ())):
            is_worker = kind == "containers" and fields["name"] == names.WORKER_CONTAINER
            yield Container(f"spec.podTemplate.spec.{kind}[{index}]", fields, is_worker)


def program(spec: SliceJobSpec, site: Site) -> Body:
    """Command and arguments of the worker container."""
    if spec.python_module is None:
        return {"command": list(spec.command), "args": list(spec.args)}
    module = spec.python_module
    return {"command": [module.python or site.python, "-u", "-m", module.module], "args": _arguments(module)}


def _arguments(module: PythonModule) -> list[str]:
    pairs = [(argument.name, str(argument.value)) for argument in module.args if argument.value is not None]
    return [word for pair in pairs for word in pair] + (["--set", *module.set] if module.set else [])

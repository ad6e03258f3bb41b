"""The containers of the workers as a SliceJob describes them: in the spec itself, and in its pod template."""

from collections.abc import Iterator
from dataclasses import dataclass

from slipway.api import names
from slipway.api.slicejob import SliceJobSpec
from slipway.planner.actions import Body


@dataclass(frozen=True, slots=True)
class Container:
    """A container, or the part of one, that stands at one place of a SliceJob."""

    path: str
    """That place, as its user knows it."""
    fields: Body
    is_worker: bool
    """Whether the user's program, or Ray, runs in it."""


def containers(spec: SliceJobSpec, template: Body) -> Iterator[Container]:
    """The worker as the spec has it, then the containers of the template, which has the lists that a PodSpec has."""
    own = spec.model_dump(by_alias=True, exclude_none=True, include={"image", "env", "resources"})
    yield Container("spec", own, is_worker=True)
    for kind in ("containers", "initContainers"):
        for index, fields in enumerate(template.get(kind, ())):
            is_worker = kind == "containers" and fields["name"] == names.WORKER_CONTAINER
            yield Container(f"spec.podTemplate.spec.{kind}[{index}]", fields, is_worker)

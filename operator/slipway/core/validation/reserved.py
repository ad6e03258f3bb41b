"""The fields of a spec that its workspace decides on, and a spec without them."""

import posixpath
from collections.abc import Iterator
from typing import Any, Final, TypeVar

from slipway.api import names
from slipway.api.base import Passthrough
from slipway.api.pod_parts import TemplateContainer
from slipway.api.slicejob import SliceJobSpec
from slipway.api.workspace import Workspace
from slipway.core.manifests.containers import part, template_spec
from slipway.core.manifests.merge import malformed
from slipway.core.model.parts import Body

_FIELDS: Final = ("working_dir", "security_context", "volume_mounts")
_USER: Final = "runAsUser"
P = TypeVar("P", bound=Passthrough)


def reserved_keys(spec: SliceJobSpec, template: Body) -> tuple[str, ...]:
    """The fields of a spec, below `spec`, that its workspace decides on; sorted.

    Args:
        template: the PodSpec of the pod template, with the lists that a PodSpec has.
    """
    if spec.workspace is None:
        return ()
    fields = spec.model_dump(by_alias=True, exclude_none=True, include=set(_FIELDS))
    found = set(_reserved("", fields, spec.workspace))
    for container in template.get("containers", ()):
        if container["name"] == names.WORKER_CONTAINER:
            path = f"podTemplate.spec.containers[{names.WORKER_CONTAINER}]."
            found.update(_reserved(path, container, spec.workspace))
    return tuple(sorted(found))


def without_reserved(spec: SliceJobSpec) -> tuple[SliceJobSpec, tuple[str, ...]]:
    """The spec without the fields that its workspace decides on, and these fields below `spec`, sorted."""
    if spec.workspace is None or malformed(template := template_spec(spec)) is not None:
        return spec, ()
    keys = reserved_keys(spec, template)
    if not keys:
        return spec, ()
    changes: dict[str, Any] = {"working_dir": None} if spec.working_dir else {}
    if spec.security_context is not None:
        changes["security_context"] = _without_user(spec.security_context)
    if spec.volume_mounts:
        free = (mount for mount in spec.volume_mounts if not lies_in(mount.mount_path, spec.workspace.mount_path))
        changes["volume_mounts"] = tuple(free)
    if spec.pod_template is not None and (pod := spec.pod_template.spec) is not None:
        workspace = spec.workspace
        free_of = tuple(_freed(container, workspace) for container in pod.containers)
        inner = pod.model_copy(update={"containers": free_of}) if pod.containers else pod
        changes["pod_template"] = spec.pod_template.model_copy(update={"spec": inner})
    return spec.model_copy(update=changes), keys


def lies_in(path: str, folder: str) -> bool:
    """Whether a path of a container is a folder or lies below it."""
    return f"{posixpath.normpath(path)}/".startswith(f"{folder}/")


def _reserved(path: str, container: Body, workspace: Workspace) -> Iterator[str]:
    if container.get("workingDir"):
        yield f"{path}workingDir"
    if part(container, "securityContext").get(_USER) is not None:
        yield f"{path}securityContext.{_USER}"
    for mount in container.get("volumeMounts", ()):
        if lies_in(mount["mountPath"], workspace.mount_path):
            yield f"{path}volumeMounts[{mount['mountPath']}]"


def _freed(container: TemplateContainer, workspace: Workspace) -> TemplateContainer:
    if container.name != names.WORKER_CONTAINER:
        return container
    fields = container.model_dump(by_alias=True, exclude_unset=True)
    fields.pop("workingDir", None)
    if isinstance(context := fields.get("securityContext"), dict):
        fields["securityContext"] = {key: value for key, value in context.items() if key != _USER}
    if mounts := fields.get("volumeMounts"):
        fields["volumeMounts"] = [mount for mount in mounts if not lies_in(mount["mountPath"], workspace.mount_path)]
    return TemplateContainer.model_validate(fields)


def _without_user(context: P) -> P:
    content = context.model_dump(by_alias=True, exclude_unset=True)
    return type(context).model_validate({key: value for key, value in content.items() if key != _USER})

"""What the directories of a job add to its pods: its workspace, the data sets of its study, its output.

The root of a workspace is in memory and ends with the pod. Below it the kubelet mounts the job's own directory of the
volume, and no other job's. An init container makes the directories first, and refuses links in their place.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from slipway.api import names
from slipway.api.slicejob import SliceJobSpec
from slipway.api.workspace import (
    Output,
    Workspace,
    WorkspaceVolume,
)
from slipway.core.manifests import datasets
from slipway.core.manifests.hardware import Variable, literal
from slipway.core.model.job import Job, Settings
from slipway.core.model.parts import Body
from slipway.core.model.site import Site

OUTPUT_VARIABLE: Final = "SLIPWAY_OUTPUT_DIR"
DEFAULT_USER: Final = "slicejob"
DEFAULT_HOME: Final = "/tmp"

_ROOT: Final = "slipway-workspace-root"
_VOLUME: Final = "slipway-workspace"
_PROGRAM: Final = "slipway.workspace_check"
_SEEN_AT: Final = "/volumes"
"""Where the init container has the volumes."""
_CHECK_RESOURCES: Final = {"cpu": "100m", "memory": "64Mi"}


@dataclass(frozen=True, slots=True)
class Directories:
    """What the directories of a job add to its pods."""

    volumes: tuple[Body, ...] = ()
    mounts: tuple[Body, ...] = ()
    """In the containers that run the user's program."""
    init_containers: tuple[Body, ...] = ()
    working_dir: str | None = None
    variables: tuple[Variable, ...] = ()
    """Variables of the containers that run the user's program."""


_NONE: Final = Directories()


def directories(job: Job, spec: SliceJobSpec, template: Body, attempt: int, settings: Settings) -> Directories:
    """The directories of a job in one attempt.

    Args:
        template: the PodSpec of the pod template, with the lists that a PodSpec has.
    """
    if spec.workspace is None and spec.study is None and spec.output is None:
        return _NONE
    site, own, root = job.site, spec.workspace, volume_source(spec.workspace, job.site)
    volumes, mounts = datasets.volumes(spec.study, site.data_sets), datasets.mounts(spec.study, site.data_sets)
    if own is not None and root is not None:
        volumes = [{"name": _ROOT, "emptyDir": {"medium": "Memory"}}, {"name": _VOLUME, **root}, *volumes]
        mounts = [*_workspace_mounts(own, _subdir(job, own)), *mounts]
    if spec.output is not None:
        mounts.append(
            {"name": spec.output.volume, "mountPath": spec.output.path, "subPath": _kept_in(job, spec.output, attempt)}
        )
    return Directories(
        volumes=tuple(volumes),
        mounts=tuple(mounts),
        init_containers=tuple(_check(job, spec, attempt, settings, _user(spec, template))),
        working_dir=f"{own.mount_path}/{_subdir(job, own)}" if own is not None else None,
        variables=tuple(_variables(spec)),
    )


def fields_that_ask(spec: SliceJobSpec) -> list[str]:
    """The fields of a spec for which directories have to be made."""
    return [name for name, part in (("workspace", spec.workspace), ("output", spec.output)) if part is not None]


def volume_source(workspace: Workspace | None, site: Site) -> Body | None:
    """The volume of the workspace: the job's own, or else the site's."""
    volumes: tuple[WorkspaceVolume | None, ...] = (workspace, site.workspace) if workspace is not None else ()
    return next((found for volume in volumes if volume is not None and (found := volume.source()) is not None), None)


def _subdir(job: Job, workspace: Workspace) -> str:
    return workspace.subdir or job.name


def _shared_folders(workspace: Workspace) -> list[str]:
    asked = {"startup": workspace.startup, "local": workspace.local}
    return [name for name, wanted in asked.items() if wanted]


def _workspace_mounts(workspace: Workspace, subdir: str) -> Iterator[Body]:
    at = workspace.mount_path
    yield {"name": _ROOT, "mountPath": at}
    for name in _shared_folders(workspace):
        yield {"name": _VOLUME, "mountPath": f"{at}/{name}", "subPath": name, "readOnly": True}
    yield {"name": _VOLUME, "mountPath": f"{at}/{subdir}", "subPath": subdir}


def _kept_in(job: Job, output: Output, attempt: int) -> str:
    """The directory of the output in its volume."""
    return f"{job.name}/{attempt}" if output.per_attempt else job.name


def _variables(spec: SliceJobSpec) -> Iterator[Variable]:
    if (own := spec.workspace) is not None:
        # A user without an entry in the image's /etc/passwd has neither name nor home, and libraries ask for them.
        yield literal("USER", DEFAULT_USER)
        yield literal("HOME", DEFAULT_HOME)
        if own.python_paths:
            yield literal("PYTHONPATH", ":".join(f"{own.mount_path}/{path}" for path in own.python_paths))
    if spec.output is not None:
        yield literal(OUTPUT_VARIABLE, spec.output.path)


def _check(job: Job, spec: SliceJobSpec, attempt: int, settings: Settings, user: int | None) -> Iterator[Body]:
    """The init container, where there are directories to make."""
    orders: list[dict[str, Any]] = []
    mounts: list[Body] = []

    def add(volume: str, field: str, make: str, need: list[str]) -> None:
        root = f"{_SEEN_AT}/{field}"
        mounts.append({"name": volume, "mountPath": root})
        asked = {"root": root, "field": f"spec.{field}", "make": make, "need": need}
        orders.append(asked | {"mine": user is not None})

    if (own := spec.workspace) is not None:
        add(_VOLUME, "workspace", _subdir(job, own), _shared_folders(own))
    if spec.output is not None:
        add(spec.output.volume, "output", _kept_in(job, spec.output, attempt), [])
    if orders:
        yield {
            "name": names.WORKSPACE_CONTAINER,
            "image": settings.operator_image,
            "command": ["python3", "-I", "-m", _PROGRAM, json.dumps(orders)],
            "volumeMounts": mounts,
            # Limits that are requests too leave the pod in the class of its other containers.
            "resources": {"requests": dict(_CHECK_RESOURCES), "limits": dict(_CHECK_RESOURCES)},
            "securityContext": _restricted(user),
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }


def _user(spec: SliceJobSpec, template: Body) -> int | None:
    """The user that the worker runs as; None where its image decides."""
    workers = [container for container in template.get("containers", ()) if container["name"] == names.WORKER_CONTAINER]
    given = (spec.security_context, spec.pod_security_context)
    own, of_pod = (variable.model_dump(by_alias=True) if variable is not None else None for variable in given)
    contexts = [*(worker.get("securityContext") for worker in workers), own, template.get("securityContext"), of_pod]
    users = (context.get("runAsUser") for context in contexts if isinstance(context, dict))
    return next((user for user in users if isinstance(user, int)), None)


def _restricted(user: int | None) -> Body:
    """What the Pod Security Standard `restricted` asks of a container; it is root only where the worker is."""
    context = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    as_user = {} if user is None else {"runAsUser": user}
    return context | as_user | ({"runAsNonRoot": True} if user != 0 else {})

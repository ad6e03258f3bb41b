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
    ARGS_AND_MODULE,
    COMMAND_AND_MODULE,
    NAME_IS_RESERVED,
    OUTPUT_IN_WORKSPACE,
    OUTPUT_MOUNTED,
    RAY_AND_MODULE,
    RESERVED_FOLDERS,
    Output,
    Workspace,
    WorkspaceVolume,
)
from slipway.planner import datasets
from slipway.planner.actions import Body
from slipway.planner.hardware import Variable, literal
from slipway.planner.refusals import Refusal
from slipway.planner.reserved import lies_in, reserved_keys
from slipway.planner.site import Site
from slipway.planner.snapshot import Job, Settings

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
    site, own, root = job.site, spec.workspace, _source(spec.workspace, job.site)
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


def problems(spec: SliceJobSpec, template: Body) -> Iterator[Refusal]:
    """What is wrong with the directories that a spec asks for, and with its Python module."""
    yield from _contradictions(spec)
    if keys := reserved_keys(spec, template):
        yield (
            "ReservedField",
            f"{', '.join(f'spec.{key}' for key in keys)} cannot be set beside spec.workspace: it gives the job its "
            "working directory, all that is mounted at and below mountPath, and one user for the whole pod "
            "(spec.podSecurityContext), to whom its directory belongs",
        )
    if _asks(spec) and any(one["name"] == names.WORKSPACE_CONTAINER for one in template.get("initContainers", ())):
        yield (
            "ReservedField",
            f"spec.podTemplate.spec.initContainers[{names.WORKSPACE_CONTAINER}] has the name of the container that "
            "makes the directories of the job: choose another",
        )


def missing(job: Job, spec: SliceJobSpec, settings: Settings) -> Iterator[Refusal]:
    """What a job asks for that its site and its name do not allow."""
    own, site = spec.workspace, job.site
    if own is not None and own.subdir is None and job.name in RESERVED_FOLDERS:
        yield "InvalidSpec", f"spec.workspace: {NAME_IS_RESERVED}"
    if (asks := _asks(spec)) and not settings.operator_image:
        yield (
            "InvalidSpec",
            f"spec.{asks[0]} needs the image of the operator, which makes the directories of the job on its nodes: "
            "start the operator with --image, or set SLIPWAY_IMAGE",
        )
    if not site.known:
        return
    if own is not None and _source(own, site) is None:
        yield (
            "InvalidSpec",
            "spec.workspace names no volume, and the site has none for the workspaces of its jobs: set "
            "spec.workspace.persistentVolumeClaim or spec.workspace.hostPath, or defaults.workspace of the "
            "SliceJobProfile",
        )
    if (unknown := datasets.unknown_study(spec.study, site.data_sets)) is not None:
        yield "UnknownStudy", unknown


def _asks(spec: SliceJobSpec) -> list[str]:
    """The fields of a spec for which directories have to be made."""
    return [name for name, part in (("workspace", spec.workspace), ("output", spec.output)) if part is not None]


def _contradictions(spec: SliceJobSpec) -> Iterator[Refusal]:
    """What the API server's rules refuse, for those who read a spec before it does."""
    if spec.python_module is not None:
        given = ((spec.command, COMMAND_AND_MODULE), (spec.args, ARGS_AND_MODULE), (spec.ray, RAY_AND_MODULE))
        yield from (("InvalidSpec", f"spec.pythonModule: {words}") for other, words in given if other)
    output = spec.output
    if output is None:
        return
    if all(one.name != output.volume for one in spec.volumes):
        yield "InvalidSpec", f"spec.output.volume: output.volume {output.volume} is not the name of one of spec.volumes"
    if any(one.mount_path == output.path for one in spec.volume_mounts):
        yield "InvalidSpec", f"spec.output.path: {OUTPUT_MOUNTED}"
    if spec.workspace is not None and lies_in(output.path, spec.workspace.mount_path):
        yield "InvalidSpec", f"spec.output.path: {OUTPUT_IN_WORKSPACE}"


def _source(workspace: Workspace | None, site: Site) -> Body | None:
    """The volume of the workspace: the job's own, or else the site's."""
    given: tuple[WorkspaceVolume | None, ...] = (workspace, site.workspace) if workspace is not None else ()
    return next((found for one in given if one is not None and (found := one.source()) is not None), None)


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
    workers = [one for one in template.get("containers", ()) if one["name"] == names.WORKER_CONTAINER]
    given = (spec.security_context, spec.pod_security_context)
    own, of_pod = (one.model_dump(by_alias=True) if one is not None else None for one in given)
    contexts = [*(one.get("securityContext") for one in workers), own, template.get("securityContext"), of_pod]
    users = (one.get("runAsUser") for one in contexts if isinstance(one, dict))
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

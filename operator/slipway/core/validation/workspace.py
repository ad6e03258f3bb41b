"""What is wrong with the directories that a spec asks for."""

from collections.abc import Iterator

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
)
from slipway.core.manifests import datasets
from slipway.core.manifests.directories import fields_that_ask, volume_source
from slipway.core.model.job import Job, Settings
from slipway.core.model.parts import Body
from slipway.core.validation.refusals import Refusal
from slipway.core.validation.reserved import lies_in, reserved_keys


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
    if fields_that_ask(spec) and any(
        container["name"] == names.WORKSPACE_CONTAINER for container in template.get("initContainers", ())
    ):
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
    if (asks := fields_that_ask(spec)) and not settings.operator_image:
        yield (
            "InvalidSpec",
            f"spec.{asks[0]} needs the image of the operator, which makes the directories of the job on its nodes: "
            "start the operator with --image, or set SLIPWAY_IMAGE",
        )
    if not site.known:
        return
    if own is not None and volume_source(own, site) is None:
        yield (
            "InvalidSpec",
            "spec.workspace names no volume, and the site has none for the workspaces of its jobs: set "
            "spec.workspace.persistentVolumeClaim or spec.workspace.hostPath, or defaults.workspace of the "
            "SliceJobProfile",
        )
    if (unknown := datasets.unknown_study(spec.study, site.data_sets)) is not None:
        yield "UnknownStudy", unknown


def _contradictions(spec: SliceJobSpec) -> Iterator[Refusal]:
    """What the API server's rules refuse, for those who read a spec before it does."""
    if spec.python_module is not None:
        given = ((spec.command, COMMAND_AND_MODULE), (spec.args, ARGS_AND_MODULE), (spec.ray, RAY_AND_MODULE))
        yield from (("InvalidSpec", f"spec.pythonModule: {words}") for other, words in given if other)
    output = spec.output
    if output is None:
        return
    if all(volume.name != output.volume for volume in spec.volumes):
        yield "InvalidSpec", f"spec.output.volume: output.volume {output.volume} is not the name of one of spec.volumes"
    if any(mount.mount_path == output.path for mount in spec.volume_mounts):
        yield "InvalidSpec", f"spec.output.path: {OUTPUT_MOUNTED}"
    if spec.workspace is not None and lies_in(output.path, spec.workspace.mount_path):
        yield "InvalidSpec", f"spec.output.path: {OUTPUT_IN_WORKSPACE}"

"""The directories of a job, and the Python module that runs in them: workspace, data sets, output.

The site's data sets have the same models; they stand in the site's defaults and never in a SliceJob.
"""

from typing import Annotated, Any, Final, Literal, Self

from pydantic import ConfigDict, Field, StrictInt, StrictStr, StringConstraints, model_validator

from slipway.api.base import Model, Passthrough, rule, rules
from slipway.api.resources import NonEmpty
from slipway.api.words import Valid

RESERVED_FOLDERS: Final = ("local", "startup")
"""Folders of a workspace that no job may have for its own."""

_DOTS: Final = "(^|/)[.][.]?(/|$)"
_ABSOLUTE: Final = "^(/[^/:]+)+$"
_RELATIVE: Final = "^[^/:]+(/[^/:]+)*$"
_NAME: Final = "^[a-z0-9]([a-z0-9_-]{0,61}[a-z0-9])?$"
_MODULE: Final = "^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*)*$"

_NO_FOLDER: Final = (
    "is not the name of one folder: letters, digits, ., _ and - are allowed, and it may be neither . nor .."
)
_SHARED: Final = f"{' and '.join(RESERVED_FOLDERS)} are folders that all jobs of a workspace read"
_NO_ABSOLUTE: Final = "is not valid: an absolute path is needed, without :, . and .. and with no / at its end"
_NO_RELATIVE: Final = "is not valid: a path below mountPath is needed, without :, . and .. and with no / at its ends"
_NO_STUDY: Final = "is not valid: 1 to 63 of a-z, 0-9, _ and - are allowed, and _ and - not at the ends"
_NO_MODULE: Final = "is not the name of a Python module: give it as for python -m, such as train.main"
_BLANK: Final = "is blank: name the Python executable of the image, such as /usr/local/bin/python"

TWO_VOLUMES: Final = "give either persistentVolumeClaim or hostPath, not both"
ONE_SOURCE: Final = "a data set needs exactly one source: persistentVolumeClaim, hostPath, csi or image"
IMAGE_IS_READ_ONLY: Final = "a data set from an image is read-only: leave mode out"


Folder = Annotated[
    str,
    StringConstraints(max_length=253),
    Valid("subdir", _NO_FOLDER, matches="^[A-Za-z0-9._-]+$", never=_DOTS),
    Valid("subdir", f"is reserved: {_SHARED}", never=f"^({'|'.join(RESERVED_FOLDERS)})$"),
]
MountPath = Annotated[str, StringConstraints(max_length=1024), Valid("mountPath", _NO_ABSOLUTE, _ABSOLUTE, _DOTS)]
OutputPath = Annotated[str, StringConstraints(max_length=1024), Valid("path", _NO_ABSOLUTE, _ABSOLUTE, _DOTS)]
NodePath = Annotated[str, StringConstraints(max_length=4096), Valid("path", "is not an absolute path", "^/")]
PythonPath = Annotated[str, StringConstraints(max_length=1024), Valid("pythonPaths", _NO_RELATIVE, _RELATIVE, _DOTS)]
StudyName = Annotated[str, StringConstraints(max_length=253), Valid("study", _NO_STUDY, _NAME)]
DataSetName = Annotated[str, StringConstraints(max_length=253), Valid("data set", _NO_STUDY, _NAME)]
ModuleName = Annotated[str, StringConstraints(max_length=1024), Valid("module", _NO_MODULE, _MODULE)]
Executable = Annotated[str, StringConstraints(max_length=4096), Valid("python", _BLANK, r"[^ \t\n]")]


class ClaimSource(Model):
    """A PersistentVolumeClaim of the job's namespace."""

    claim_name: NonEmpty
    """Name of the PersistentVolumeClaim."""


class HostPathSource(Model):
    """A folder of the nodes."""

    path: NodePath
    """Absolute path on the nodes. The folder must exist on every node that runs the job."""


class WorkspaceVolume(Model):
    """The volume that all jobs of a workspace share."""

    model_config = ConfigDict(
        json_schema_extra=rules(rule("!has(self.persistentVolumeClaim) || !has(self.hostPath)", TWO_VOLUMES))
    )

    persistent_volume_claim: ClaimSource | None = None
    """PersistentVolumeClaim with the workspace. Several hosts need one that several nodes can mount."""
    host_path: HostPathSource | None = None
    """Folder of the nodes with the workspace, such as one of a shared file system."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.persistent_volume_claim is not None and self.host_path is not None:
            raise ValueError(TWO_VOLUMES)
        return self

    def source(self) -> dict[str, Any] | None:
        """The volume as a PodSpec has it, without its name; None where the job leaves it to the site."""
        if self.host_path is not None:
            # Never made: an empty folder on one node would look like a workspace that has lost its files.
            return {"hostPath": {"path": self.host_path.path, "type": "Directory"}}
        if self.persistent_volume_claim is not None:
            return {"persistentVolumeClaim": {"claimName": self.persistent_volume_claim.claim_name}}
        return None


class Workspace(WorkspaceVolume):
    """A directory of the job's own in a volume that jobs share. Directories of other jobs are not visible.

    The job runs in its directory, which outlives it. The folder above it is in memory and ends with the pod.
    """

    mount_path: MountPath = "/var/tmp/slicejob/workspace"
    """Where the workspace is mounted in the container. Writable; its content is kept in memory only."""
    subdir: Folder | None = None
    """Folder of the volume that is the job's directory. Created when missing. Default: the name of the job."""
    startup: bool = False
    """Whether to mount the folder startup of the volume, read-only, beside the job's directory."""
    local: bool = False
    """Whether to mount the folder local of the volume, read-only, beside the job's directory."""
    python_paths: tuple[PythonPath, ...] = Field(default=(), max_length=32)
    """Folders below mountPath that PYTHONPATH lists."""


class ModuleArgument(Model):
    """One option of a Python module and its value."""

    name: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    """Option, such as --epochs."""
    value: StrictInt | StrictStr | None = Field(
        json_schema_extra={"x-kubernetes-int-or-string": True, "nullable": True, "anyOf": None}
    )
    """Value. With null the option is left out. `$(NAME)` is expanded as in args."""


class PythonModule(Model):
    """Python module that the container runs: `python -u -m MODULE` with arguments."""

    module: ModuleName
    """Module, as for `python -m`."""
    args: tuple[ModuleArgument, ...] = Field(default=(), max_length=128)
    """Options with their values, in this order."""
    set: tuple[Annotated[str, StringConstraints(max_length=4096)], ...] = Field(default=(), max_length=128)
    """Items that follow the option --set at the end of the arguments."""
    python: Executable | None = None
    """Python executable in the image. Default /usr/local/bin/python."""


class Output(Model):
    """A directory of a volume for what the job produces. Its path is in SLIPWAY_OUTPUT_DIR."""

    volume: NonEmpty
    """Name of one of spec.volumes. All hosts need to be able to mount it."""
    path: OutputPath
    """Absolute path of the directory in the container."""
    per_attempt: bool = False
    """Whether each attempt has a directory of its own: JOB/ATTEMPT of the volume instead of JOB."""


class DataSet(Model):
    """A volume with data that jobs of a study read."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "[has(self.persistentVolumeClaim), has(self.hostPath), has(self.csi), has(self.image)]"
                ".filter(given, given).size() == 1",
                ONE_SOURCE,
            ),
            rule("!has(self.image) || !has(self.mode) || self.mode == 'ro'", IMAGE_IS_READ_ONLY, path=".mode"),
        ),
    )

    persistent_volume_claim: ClaimSource | None = None
    """PersistentVolumeClaim in the namespace of the jobs."""
    host_path: HostPathSource | None = None
    """Folder of the nodes."""
    csi: Passthrough | None = None
    """Volume of a CSI driver, as in a PodSpec, such as a bucket by gcsfuse.csi.storage.gke.io."""
    image: Passthrough | None = None
    """OCI image or artifact, as in a PodSpec. Always read-only."""
    mode: Literal["ro", "rw"] = "ro"
    """ro for read-only, rw for writable."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        given = (self.persistent_volume_claim, self.host_path, self.csi, self.image)
        if sum(one is not None for one in given) != 1:
            raise ValueError(ONE_SOURCE)
        if self.image is not None and self.mode != "ro":
            raise ValueError(IMAGE_IS_READ_ONLY)
        return self


DataSets = Annotated[
    dict[StudyName, Annotated[dict[DataSetName, DataSet], Field(max_length=64)]],
    Field(max_length=64),
]
"""The data sets of a site: study, data set, volume."""


def _excludes(other: str, why: str) -> dict[str, str]:
    return rule(f"!has(self.pythonModule) || !has(self.{other}) || self.{other}.size() == 0", why, path=".pythonModule")


COMMAND_AND_MODULE: Final = "command and pythonModule exclude each other: both say what the container runs"
ARGS_AND_MODULE: Final = "args and pythonModule exclude each other: use pythonModule.args"
RAY_AND_MODULE: Final = (
    "pythonModule means nothing beside ray, whose containers run Ray: use ray.entrypoint, such as python -m MODULE"
)
OUTPUT_MOUNTED: Final = "output.path is also the mountPath of a volume mount: choose another for one of them"
OUTPUT_IN_WORKSPACE: Final = "output.path is in workspace.mountPath, which holds the workspace alone: choose another"

SPEC_RULES: Final = (
    _excludes("command", COMMAND_AND_MODULE),
    _excludes("args", ARGS_AND_MODULE),
    rule("!has(self.pythonModule) || !has(self.ray)", RAY_AND_MODULE, path=".pythonModule"),
    rule(
        # Without volumes of its own the job has those of its profile.
        "!has(self.output) || !has(self.volumes) || self.volumes.exists(one, one.name == self.output.volume)",
        computed="'output.volume ' + self.output.volume + ' is not the name of one of spec.volumes'",
        path=".output.volume",
    ),
    rule(
        "!has(self.output) || !has(self.volumeMounts)"
        " || !self.volumeMounts.exists(one, one.mountPath == self.output.path)",
        OUTPUT_MOUNTED,
        path=".output.path",
    ),
    rule(
        "!has(self.output) || !has(self.workspace)"
        " || !(self.output.path + '/').startsWith(self.workspace.mountPath + '/')",
        OUTPUT_IN_WORKSPACE,
        path=".output.path",
    ),
)
"""Rules about fields that exclude each other."""

NAME_IS_RESERVED: Final = (
    f"a job named {' or '.join(RESERVED_FOLDERS)} cannot have the folder of its name in a workspace: {_SHARED}; "
    "set spec.workspace.subdir, or choose another name"
)
NAME_RULE: Final = rule(
    "!has(self.spec.workspace) || has(self.spec.workspace.subdir)"
    f" || !(self.metadata.name in {list(RESERVED_FOLDERS)!r})",
    NAME_IS_RESERVED,
    path=".spec.workspace",
)

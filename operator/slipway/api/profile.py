"""A SliceJobProfile: what a site sets once for the SliceJobs of a namespace, and what it does not let them have.

The defaults are fields of a SliceJob's spec with their types and bounds, so they are written in the same words.
"""

from typing import Annotated, Any, Final, Literal, get_args

from pydantic import Field, StringConstraints, create_model

from slipway.api.base import Model
from slipway.api.gpus import GpuVendor
from slipway.api.pod_parts import EnvVar, list_map
from slipway.api.resources import NonEmpty
from slipway.api.slicejob import DEFAULTABLE, ObjectMeta, SliceJobSpec
from slipway.api.workspace import DataSets, Executable, WorkspaceVolume

PROFILE_KIND: Final = "SliceJobProfile"
PROFILE_PLURAL: Final = "slicejobprofiles"
DEFAULT_PROFILE: Final = "default"
"""The profile of jobs that name none."""

_SET: Final[dict[str, Any]] = {"x-kubernetes-list-type": "set"}

Names = tuple[NonEmpty, ...]
Prefix = Annotated[str, StringConstraints(min_length=1, max_length=512)]
Folder = Annotated[str, StringConstraints(min_length=1, max_length=1024, pattern="^/")]


class DefaultEnvVar(EnvVar):
    """One environment variable of every job. One that Slipway sets itself has no effect."""

    name: str = Field(max_length=256, pattern="^[A-Za-z_][A-Za-z0-9_]*$")
    """Variable name."""


_FIELDS: Final[dict[str, Any]] = {
    name: (field.annotation, field) for name, field in SliceJobSpec.model_fields.items() if field.alias in DEFAULTABLE
}
_SpecFields: Any = create_model("_SpecFields", __base__=Model, **_FIELDS)


class Defaults(_SpecFields):  # type: ignore[misc]
    """Values of fields that a SliceJob leaves out.

    A field that the SliceJob has replaces the default as a whole; env is merged by the names of the variables.
    """

    env: tuple[DefaultEnvVar, ...] = Field(default=(), max_length=256, json_schema_extra=list_map("name"))
    """Environment variables of the worker container. A variable of the SliceJob replaces the one of its name."""
    registry_mirrors: dict[NonEmpty, Prefix] = Field(default={}, json_schema_extra={"maxProperties": 16})
    """Where images of a registry are pulled from instead, such as docker.io: mirror.example.com/hub."""
    workspace: WorkspaceVolume | None = None
    """Volume of the workspaces of jobs whose spec.workspace names none."""
    python: Executable | None = None
    """Python executable of jobs whose spec.pythonModule names none. Default /usr/local/bin/python."""


class GpuNodes(Model):
    """What the nodes with GPUs have."""

    resources: dict[GpuVendor, NonEmpty] = Field(
        default={}, json_schema_extra={"maxProperties": len(get_args(GpuVendor))}
    )
    """Extended resource of each vendor whose GPUs the site has, such as nvidia: nvidia.com/gpu.
    With one vendor, jobs need not name it. Default: those of the three vendors' device plugins."""
    per_node: int | None = Field(default=None, ge=1, le=64)
    """GPUs of a node, which jobs have that do not say how many. Default: such jobs are refused."""
    model_label: NonEmpty | None = None
    """Node label with the model of the GPUs. Default cloud.google.com/gke-accelerator."""


class Limits(Model):
    """What SliceJobs may not have. A limit that is absent here limits nothing here.

    Limits of the chart and of the profile both hold. Neither a SliceJob nor a profile can widen those of the chart.
    """

    accelerator_types: Names | None = Field(default=None, max_length=64, json_schema_extra=_SET)
    """Accelerator types that jobs may request, such as v5litepod-16. A final * stands for any ending."""
    max_slices: int | None = Field(default=None, ge=1, le=1024)
    """Most slices of a job."""
    max_hosts: int | None = Field(default=None, ge=1)
    """Most hosts of a job, those of all slices together."""
    host_paths: tuple[Folder, ...] | None = Field(default=None, max_length=64, json_schema_extra=_SET)
    """Folders of nodes that hostPath volumes may show, and all below them. The chart allows none by default."""
    host_network: bool | None = None
    """Whether pods may use the network of their node: its addresses, all its ports, and on a cloud its metadata server.
    The chart allows it by default for jobs on TPUs and GPUs only."""
    host_ports: bool | None = None
    """Whether containers may use single ports of their node. Default: as hostNetwork."""
    host_processes: bool | None = Field(default=None)
    """Whether pods may have hostPID or hostIPC. The chart forbids it by default."""
    privileged: bool | None = None
    """Whether containers may exceed what Pod Security calls baseline: privileged, added capabilities, an unmasked
    /proc, no seccomp or AppArmor profile, another SELinux user, role or type, unsafe sysctls, Windows host processes.
    The chart forbids it by default."""
    service_accounts: Names | None = Field(default=None, max_length=64, json_schema_extra=_SET)
    """Service accounts that pods may have. A final * stands for any ending. The chart allows default by default."""
    priority_classes: Names | None = Field(default=None, max_length=64, json_schema_extra=_SET)
    """Priority classes that pods may have. A final * stands for any ending.
    The chart allows all by default whose names do not begin with system-."""
    registries: tuple[Prefix, ...] | None = Field(default=None, max_length=64, json_schema_extra=_SET)
    """Registries, or repositories and what is below them, that images may be pulled from: docker.io,
    us-docker.pkg.dev/acme. Mirrored images are pulled from the mirror."""


class ProfileSpec(Model):
    """Defaults and limits of SliceJobs."""

    defaults: Defaults = Defaults()
    """Values of fields that a SliceJob leaves out."""
    limits: Limits = Limits()
    """What SliceJobs may not have."""
    gpus: GpuNodes | None = None
    """What the nodes with GPUs have."""
    reserved_keys: Literal["Refuse", "Ignore"] | None = None
    """What becomes of a SliceJob with fields that its spec.workspace decides on, such as workingDir. Refuse, the
    default: it is refused. Ignore: the fields have no effect, and a warning names them."""
    data_sets: DataSets = Field(default={})
    """Data sets by study and name. Jobs with spec.study have those of their study at /data/STUDY/DATA-SET."""


class SliceJobProfile(Model):
    """Defaults and limits of the SliceJobs of a namespace.

    spec.profile of a SliceJob names one. SliceJobs that name none have the profile named default, if there is one.
    """

    api_version: str = "slipway.dev/v1alpha1"
    """slipway.dev/v1alpha1."""
    kind: str = PROFILE_KIND
    """SliceJobProfile."""
    metadata: ObjectMeta
    """Standard object metadata."""
    spec: ProfileSpec
    """Defaults and limits of SliceJobs."""

"""The Ray runtime of a SliceJob: `spec.ray`."""

from typing import Any, Final

from pydantic import ConfigDict, Field

from slipway.api.base import Model, rule, rules
from slipway.api.names import RESERVED_RAY_ENV, TPU_RESOURCE
from slipway.api.pod_parts import EnvVar, list_map
from slipway.api.resources import Labels, Resources

_RESERVED: Final = f"{', '.join(RESERVED_RAY_ENV)} are reserved beside ray: Slipway sets them in every container"
_ANY: Final[dict[str, Any]] = {"x-kubernetes-preserve-unknown-fields": True}

NO_TPUS_ON_HEAD: Final = "the Ray head never runs on TPU nodes: remove it"
HEAD_WORKERS_NEED_A_NAME: Final = "ray.headWorkers needs ray.headResourceName beside it in a job without TPUs"
"""What both the API server and the operator say."""


class RuntimeEnv(Model):
    """Ray's runtime environment of the entrypoint, its tasks and its actors. Fields have Ray's names."""

    working_dir: str | None = Field(default=None, alias="working_dir", max_length=4096)
    """Archive with the working directory, as an https://, gs:// or s3:// address.
    For a folder of the image use spec.workingDir."""
    py_modules: tuple[str, ...] | None = Field(default=None, alias="py_modules", max_length=64)
    """Addresses of Python modules to add."""
    py_executable: str | None = Field(default=None, alias="py_executable", max_length=4096)
    """Python executable of the Ray worker processes."""
    excludes: tuple[str, ...] | None = Field(default=None, alias="excludes", max_length=256)
    """Patterns of files to exclude from working_dir and py_modules."""
    pip: Any = Field(default=None, json_schema_extra=_ANY)
    """Packages to install with pip: a list, or an object in Ray's format."""
    uv: Any = Field(default=None, json_schema_extra=_ANY)
    """Packages to install with uv: a list, or an object in Ray's format."""
    conda: Any = Field(default=None, json_schema_extra=_ANY)
    """Conda environment: a name, or an object in Ray's format."""
    env_vars: dict[str, str] = Field(default={}, alias="env_vars", json_schema_extra={"maxProperties": 256})
    """Environment variables. Values are strings. For secrets use spec.env with valueFrom."""
    config: dict[str, Any] = Field(default={}, json_schema_extra={"maxProperties": 16})
    """Options for the set-up of the environment, such as setup_timeout_seconds."""
    worker_process_setup_hook: str | None = Field(default=None, alias="worker_process_setup_hook", max_length=1024)
    """Function that each Ray worker process calls first, as module.function."""
    image_uri: str | None = Field(default=None, alias="image_uri", max_length=512)
    """Image of the Ray worker processes."""
    java_jars: tuple[str, ...] | None = Field(default=None, alias="java_jars", max_length=64)
    """Jars to add."""


def _asks_for_tpus(kind: str) -> str:
    """In CEL, whether the limits or requests have TPUs."""
    return f"(has(self.resources.{kind}) && '{TPU_RESOURCE}' in self.resources.{kind})"


class RayHead(Model):
    """The pod of the Ray head. It never runs on TPU nodes."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                f"!has(self.resources) || !({_asks_for_tpus('limits')} || {_asks_for_tpus('requests')})",
                f"resources has {TPU_RESOURCE}: {NO_TPUS_ON_HEAD}",
                path=".resources",
            )
        )
    )

    resources: Resources = Resources()
    """Compute resources of the head pod. They include the entrypoint's.
    Default requests: 1 cpu and 4Gi memory."""
    node_selector: Labels = Field(default={}, json_schema_extra={"maxProperties": 64})
    """Node labels that the head pod selects."""
    env: tuple[EnvVar, ...] = Field(
        default=(),
        max_length=256,
        json_schema_extra=list_map("name")
        | rules(rule(f"!self.exists(e, e.name in {list(RESERVED_RAY_ENV)!r})", _RESERVED)),
    )
    """Environment variables of the head only, entrypoint included. They replace those of spec.env."""


class Ray(Model):
    """A Ray cluster with one head and one worker on each host, and its entrypoint."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            rule(
                "has(self.entrypoint) || self.keepAlive",
                "no entrypoint: set spec.ray.entrypoint to the command to run, or keepAlive: true for a cluster that "
                "stays until it is deleted",
            ),
            rule(
                "!has(self.entrypoint) || !self.keepAlive",
                "entrypoint and keepAlive: true exclude each other: a job ends with its entrypoint, a kept cluster "
                "only when it is deleted",
                path=".keepAlive",
            ),
            rule(
                "!self.keepAlive || !(has(self.args) || has(self.runtimeEnv))",
                "args and runtimeEnv belong to an entrypoint and mean nothing with keepAlive: true: clients bring "
                "their own",
                path=".keepAlive",
            ),
        )
    )

    entrypoint: str | None = Field(
        default=None,
        max_length=32768,
        json_schema_extra=rules(
            rule("self.matches('[^ \\t\\n]')", "entrypoint is empty: name the command to run, such as python train.py")
        ),
    )
    """Command that a shell on the head runs after all workers have joined. The job ends when the command ends."""
    keep_alive: bool = False
    """Keep a cluster without an entrypoint for clients until the SliceJob is deleted.
    The condition Ready is True when clients can connect."""
    args: dict[str, Any] | None = Field(default=None, json_schema_extra=_ANY)
    """Arguments of the entrypoint, appended as --key value and set as JSON in SLIPWAY_ARGS."""
    runtime_env: RuntimeEnv | None = None
    """Ray's runtime environment."""
    head: RayHead = RayHead()
    """Pod of the Ray head."""
    head_resource_name: str | None = Field(
        default=None,
        max_length=253,
        json_schema_extra=rules(
            rule(
                "self.matches('^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$') && !(self in ['CPU', 'GPU', 'TPU', "
                "'memory', 'object_store_memory'])",
                computed="'headResourceName ' + self + ' is not a name for a Ray resource of its own: letters, digits, "
                "., _ and - are allowed, and none of CPU, GPU, TPU, memory, object_store_memory'",
            )
        ),
    )
    """Ray resource on host 0 of each slice, in addition to TPU-<type>-head on TPU slices."""
    head_workers: int | None = Field(default=None, ge=1, le=1000000)
    """Amount of headResourceName, or else of TPU-<type>-head, on host 0 of each slice. Default 1."""


SPEC_RULES: Final = (
    rule(
        "!has(self.ray) || !has(self.command) || self.command.size() == 0",
        "command means nothing beside ray, whose containers run Ray: use ray.entrypoint",
        path=".command",
    ),
    rule(
        "!has(self.ray) || !has(self.args) || self.args.size() == 0",
        "args means nothing beside ray, whose containers run Ray: use ray.args",
        path=".args",
    ),
    rule(
        "!has(self.ray) || !has(self.hostNetwork) || !self.hostNetwork",
        "hostNetwork cannot be true beside ray: Ray's ports would be open to the nodes' network",
        path=".hostNetwork",
    ),
    rule(
        # A job without an accelerator may have TPUs from its profile.
        "!has(self.ray) || !has(self.ray.headWorkers) || has(self.ray.headResourceName)"
        " || !has(self.accelerator) || !has(self.accelerator.gpu)",
        HEAD_WORKERS_NEED_A_NAME,
        path=".ray",
    ),
    rule(
        f"!has(self.ray) || !has(self.env) || !self.env.exists(e, e.name in {list(RESERVED_RAY_ENV)!r})",
        _RESERVED,
        path=".env",
    ),
)
"""Rules about fields that `ray` excludes."""

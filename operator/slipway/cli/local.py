"""`slipway local`: the same jobs on this machine's Docker engine."""

from __future__ import annotations

import re
from collections.abc import Callable
from copy import copy
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from slipway.api.profile import PROFILE_KIND
from slipway.cli.common import USAGE, Failure, code_of, retargeted, run
from slipway.client.errors import SlipwayError
from slipway.client.manifest import InvalidManifest, check_profile, documents
from slipway.client.pictures.output import console
from slipway.docker_engine.conversion.devices import DeviceMapping
from slipway.docker_engine.submission import Wishes
from slipway.local.client import AsyncLocalClient
from slipway.local.target import LocalTarget

_VERBS: Final = ("cancel", "delete", "describe", "events", "list", "logs", "resume", "suspend", "wait", "why")
_SUBMITTING: Final = ("run", "submit")
_OF_CLUSTERS: Final = ("all_namespaces", "place", "spot", "service_account", "priority_class")
"""Options without a meaning on one machine."""
_ULIMIT: Final = re.compile(r"(?P<name>[a-z]+)=(?P<soft>-1|\d+)(?::(?P<hard>-1|\d+))?")
_HELP: Final = {
    "run": "Run a job on this machine, show its progress until it ends, and exit as it did.\n\n"
    "For example: slipway local run --image IMAGE --hosts 2 -- python train.py\n\n"
    "Images are pulled first, which costs no retry. Ctrl-C leaves the job running. Exit codes: 0 succeeded, 1 the job "
    "failed, 2 it was refused, 3 no Docker engine, 130 interrupted.",
    "submit": "Begin jobs on this machine from manifests, or one from flags, and return.\n\n"
    "A process is left behind that looks after the job. The same job again changes nothing. Exit codes: 0 every job "
    "exists, 2 a manifest is wrong or cannot run here, 3 no Docker engine.",
    "list": "List the jobs of this machine: phase, why they do not run, slices, attempts.",
}


class Ulimit(click.ParamType[tuple[str, tuple[int, int]]]):
    """A limit as `docker run --ulimit` takes it."""

    name = "NAME=SOFT[:HARD]"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, tuple[int, int]]:
        """Read it; -1 stands for no limit."""
        found = _ULIMIT.fullmatch(str(value))
        if found is None:
            self.fail(f"{value!r} is not of the form NAME=SOFT[:HARD], such as memlock=-1 or nofile=1024:4096.")
        soft = int(found["soft"])
        return found["name"], (soft, int(found["hard"]) if found["hard"] else soft)


class Device(click.ParamType[DeviceMapping]):
    """A device of this machine as `docker run --device` takes it."""

    name = "SRC[:DST[:PERMISSIONS]]"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> DeviceMapping:
        """Read it (T-11)."""
        if isinstance(value, DeviceMapping):
            return value
        source, _, rest = str(value).partition(":")
        target, _, permissions = rest.partition(":")
        return self.checked(source, target or source, permissions or "rwm")

    def checked(self, source: str, target: str, permissions: str) -> DeviceMapping:
        """The mapping; only letters of r, w and m are permissions (B-22)."""
        if not source.startswith("/") or not target.startswith("/"):
            self.fail(f"{source}:{target}: both paths are absolute, such as /dev/fuse.")
        if not permissions or set(permissions) - set("rwm") or len(set(permissions)) < len(permissions):
            self.fail(f"permissions {permissions!r} of {source}: they are letters of r, w and m, such as rw.")
        return DeviceMapping(source, target, permissions)


_OPTIONS: Final = (
    click.Option(["--network"], metavar="NAME", help="A Docker network that exists.  [default: one of the job's own]"),
    click.Option(["--ulimit", "ulimits"], type=Ulimit(), multiple=True, help="Limit of the containers' processes."),
    click.Option(["--device", "devices"], type=Device(), multiple=True, help="Device that every container gets."),
    click.Option(
        ["--profile", "profile"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File with the SliceJobProfile of this machine.",
    ),
    click.Option(
        ["--overlay", "overlay"],
        type=click.Path(exists=True, file_okay=False, path_type=Path),
        help="Folder to lay over the image's working directory; .dockerignore holds.",
    ),
    click.Option(["--without-devices"], is_flag=True, help="Give no TPU chips and GPUs, to try a job without them."),
)


def _verb(name: str) -> click.Command:
    module = import_module(f"slipway.cli.{'change' if name in ('cancel', 'delete', 'resume', 'suspend') else name}")
    command: click.Command = getattr(module, name if hasattr(module, name) else f"{name}_")
    return command


def _submitting(command: click.Command) -> click.Command:
    """A copy of a command that makes jobs, with what an engine on this machine can give them besides."""
    made = retargeted(command, LocalTarget, _OF_CLUSTERS)

    def callback(**given: Any) -> Any:
        wishes = _wishes(given)
        again = retargeted(command, lambda: LocalTarget(wishes=wishes, console=console(stderr=True)), _OF_CLUSTERS)
        assert again.callback is not None
        return again.callback(**given)

    found = copy(made)
    found.callback = callback
    found.params = [*_OPTIONS, *made.params]
    return found


def _wishes(given: dict[str, Any]) -> Wishes:
    """Takes what is for the engine out of the options of a command."""
    mounts: tuple[str, ...] = given.get("mounts", ())
    devices = [mounted_device(one) for one in mounts if one.startswith("type=device,")]
    given["mounts"] = tuple(one for one in mounts if not one.startswith("type=device,"))
    return Wishes(
        network=given.pop("network"),
        ulimits=dict(given.pop("ulimits")),
        devices=(*given.pop("devices"), *devices),
        without_devices=given.pop("without_devices"),
        profile=_profile(given.pop("profile")),
        overlay=given.pop("overlay"),
    )


def _profile(file: Path | None) -> dict[str, Any] | None:
    """The SliceJobProfile in a file, checked as the operator would."""
    if file is None:
        return None
    try:
        found = documents(file.read_text(), str(file), (PROFILE_KIND,))
        if len(found) != 1:
            raise InvalidManifest(f"{file} has {len(found)} {PROFILE_KIND}s: give one")
        check_profile(found[0])
    except (InvalidManifest, OSError, UnicodeDecodeError) as error:
        raise Failure(str(error), USAGE) from error
    return {"name": str(found[0]["metadata"]["name"]), "spec": found[0]["spec"]}


def mounted_device(text: str) -> DeviceMapping:
    """A device among the mounts: `type=device,src=…[,dst=…][,permissions=rwm]` (T-11).

    Raises:
        click.UsageError: when a key is unknown, a path is relative, or a permission is none.
    """
    fields = dict(part.partition("=")[::2] for part in text.split(",")[1:])
    known = {"src": "", "dst": "", "permissions": "rwm", "source": "", "target": "", "perm": ""}
    if unknown := sorted(fields.keys() - known):
        raise click.UsageError(f"mount {text!r}: {unknown[0]!r} is not known of type=device: dst, permissions, src.")
    source = fields.get("src") or fields.get("source", "")
    target = fields.get("dst") or fields.get("target") or source
    return Device().checked(source, target, fields.get("permissions") or fields.get("perm") or "rwm")


@click.command()
@click.argument("names", nargs=-1, metavar="[NAME]...")
def prune(names: tuple[str, ...]) -> None:
    """Delete jobs that have ended, of these names or all, with their containers, networks and logs.

    Whatever belongs to jobs that are gone is removed, too. What runs is left alone. Exit code 1 where something could
    not be removed; the rest is.
    """

    async def work() -> list[SlipwayError]:
        errors: list[SlipwayError] = []
        async with AsyncLocalClient() as client:
            for name, outcome in await client.prune(names):
                if isinstance(outcome, SlipwayError):
                    click.echo(f"Error: {outcome}", err=True)
                    errors.append(outcome)
                else:
                    click.echo(f"{name} {outcome}")
        return errors

    if errors := run(work()):
        raise SystemExit(code_of(errors[0]))


_OWN: Final[dict[str, Callable[[], click.Command]]] = {"prune": lambda: prune}


class LocalCommands(click.Group):
    """The verbs of the cluster's commands for this machine."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names, for help and completion."""
        return sorted((*_VERBS, *_SUBMITTING, *_OWN))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of that name."""
        if cmd_name in _OWN:
            return _OWN[cmd_name]()
        if cmd_name not in (*_VERBS, *_SUBMITTING):
            return None
        command = _verb(cmd_name)
        found = _submitting(command) if cmd_name in _SUBMITTING else retargeted(command, LocalTarget, _OF_CLUSTERS)
        found.help = _HELP.get(cmd_name, found.help)
        return found


@click.command(cls=LocalCommands)
def local() -> None:
    """Run the same jobs on this machine's Docker engine.

    Attempts, causes, retries, logs and exit codes are those of a cluster; see docs/local.md for what differs.
    """

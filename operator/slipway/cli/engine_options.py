"""The options of commands that say what an engine on this machine gives the containers of a job."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from slipway.api.profile import PROFILE_KIND
from slipway.cli.common import USAGE, Failure
from slipway.cli.gpus import choice_of
from slipway.client.manifests.reading import InvalidManifest, check_profile, documents
from slipway.local.conversion.devices import DeviceMapping

if TYPE_CHECKING:
    from slipway.local.submission import Wishes

_ULIMITS: Final = frozenset({
    "core", "cpu", "data", "fsize", "locks", "memlock", "msgqueue", "nice", "nofile", "nproc", "rss", "rtprio",
    "rttime", "sigpending", "stack",
})  # fmt: skip
"""What setrlimit(2) limits, as Docker names it."""
_ULIMIT: Final = re.compile(r"(?P<name>[a-z]+)=(?P<soft>-1|\d+)(?::(?P<hard>-1|\d+))?")


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
        if found["name"] not in _ULIMITS:
            self.fail(f"there is no limit {found['name']!r}: {', '.join(sorted(_ULIMITS))} are allowed.")
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


OPTIONS: Final = (
    click.Option(["--network"], metavar="NAME", help="A Docker network that exists.  [default: one of the job's own]"),
    click.Option(["--ulimit", "ulimits"], type=Ulimit(), multiple=True, help="Limit of the containers' processes."),
    click.Option(["--device", "devices"], type=Device(), multiple=True, help="Device that every container gets."),
    click.Option(
        ["--profile", "profile"],
        type=click.Path(exists=True, dir_okay=False, path_type=Path),
        help="File with the SliceJobProfile of this machine.",
    ),
    click.Option(["--without-devices"], is_flag=True, help="Give no TPU chips and GPUs, to try a job without them."),
)
"""What an engine on this machine can be told of a job besides its manifest."""
OVERLAY: Final = click.Option(
    ["--overlay", "overlay"],
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="Folder to lay over the image's working directory; .dockerignore and Dockerfile.slipway hold.",
)
"""The same, and it makes an image."""


def wishes_of(given: dict[str, Any], files: Sequence[str]) -> Wishes:
    """Takes what is for the engine out of the options of a command for jobs of these manifests, or of flags."""
    # It needs what follows the engine's events, and other commands with these options do not.
    from slipway.local.submission import Wishes

    mounts: tuple[str, ...] = given.get("mounts", ())
    devices = [mounted_device(mount) for mount in mounts if mount.startswith("type=device,")]
    given["mounts"] = tuple(mount for mount in mounts if not mount.startswith("type=device,"))
    without_devices = given.pop("without_devices")
    return Wishes(
        network=given.pop("network"),
        ulimits=dict(given.pop("ulimits")),
        devices=(*given.pop("devices"), *devices),
        without_devices=without_devices,
        gpus=choice_of(given, files, without_devices=without_devices),
        profile=_profile(given.pop("profile")),
        overlay=given.pop(str(OVERLAY.name), None),
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

"""What is to be built, checked before the engine is asked for anything."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Final

from slipway.local.engine.errors import refuse
from slipway.local.images.references import full_name

RECIPE: Final = "Dockerfile.slipway"
"""A file of a folder that says how the folder is laid over an image, in place of copying all of it."""


@dataclass(frozen=True)
class BuildRequest:
    """One image to be."""

    name: str
    """Full name, with the registry if there is one."""
    dockerfile: Path
    context: Path
    """The folder whose files the Dockerfile can copy."""
    build_args: Mapping[str, str]
    base: str | None = None
    """The image over which the context is laid; then there is no Dockerfile."""

    @property
    def argv(self) -> list[str]:
        """The docker command that builds the same."""
        if self.base is not None:
            laid = f"printf %s {shlex.quote(overlay_dockerfile(self.base))}"
            return [
                "sh",
                "-c",
                f"{laid} | docker build -t {shlex.quote(self.name)} -f - {shlex.quote(str(self.context))}",
            ]
        arguments = [word for key, value in self.build_args.items() for word in ("--build-arg", f"{key}={value}")]
        return ["docker", "build", "-t", self.name, *arguments, "-f", str(self.dockerfile), str(self.context)]


def overlay_dockerfile(base: str) -> str:
    """What lays a folder over the working directory of an image (T-43)."""
    return f"FROM {base}\nCOPY . .\n"


def overlay_request(base: str, image_name: str, registry: str | None, context: str | PathLike[str]) -> BuildRequest:
    """Return the request for an image with a folder laid over another's working directory."""
    folder = Path(context)
    if not folder.is_dir():
        raise refuse(f"The folder {folder} does not exist, or is none.")
    if not base.strip():
        raise refuse("The name of the base image is empty.")
    return laid_over(base, full_name(image_name, registry), folder)


def laid_over(base: str, name: str, folder: Path) -> BuildRequest:
    """The request that lays a folder over an image: by the folder's own recipe where it has one (T-44)."""
    if (folder / RECIPE).is_file():
        return BuildRequest(name, folder / RECIPE, folder, {"IMAGE": base, "WORKSPACE": "."})
    return BuildRequest(name, folder / "Dockerfile", folder, {}, base)


def push_argv(name: str) -> list[str]:
    """Return the docker command that pushes the same."""
    return ["docker", "push", name]


def build_request(
    dockerfile_path: str | PathLike[str],
    image_name: str,
    registry: str | None = None,
    build_args: Mapping[str, str] | None = None,
    context: str | PathLike[str] | None = None,
) -> BuildRequest:
    """Return the request, or raise for what cannot be built. Without a context it is the Dockerfile's folder."""
    name = full_name(image_name, registry)
    dockerfile = Path(dockerfile_path)
    if not dockerfile.is_file():
        raise refuse(f"There is no Dockerfile {dockerfile}.")
    # The parent of a bare file name is `.`, never empty.
    folder = Path(context) if context is not None else dockerfile.parent
    if not folder.is_dir():
        raise refuse(f"The context {folder} is not a folder.")
    for key in build_args or {}:
        if not key or "=" in key or any(each.isspace() for each in key):
            raise refuse(f"{key!r} is not a name of a build argument.")
    return BuildRequest(name, dockerfile, folder, dict(build_args or {}))

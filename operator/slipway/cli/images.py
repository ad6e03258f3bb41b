"""`slipway build` and `slipway push`: images for jobs."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import click
from rich.console import Console

from slipway.local.engine.address import connected
from slipway.local.engine.errors import ImageBuildError
from slipway.local.images.building import build_image, push_image
from slipway.local.images.manifest import with_image, write_image
from slipway.local.images.progress import shown_on
from slipway.local.images.references import checked
from slipway.local.images.request import build_request, overlay_request, push_argv

NO_ENGINE: Final = 3
INTERRUPTED: Final = 130


@contextmanager
def exit_codes() -> Iterator[None]:
    """Say in words what went wrong: exit 3 without an engine, 130 when interrupted, 1 for the rest."""
    try:
        yield
    except ImageBuildError as error:
        click.echo(f"Error: {error}", err=True)
        sys.exit(NO_ENGINE if error.stage == "engine" else 1)
    except KeyboardInterrupt:
        click.echo("Interrupted.", err=True)
        sys.exit(INTERRUPTED)


class Pair(click.ParamType[tuple[str, str]]):
    """A build argument, `NAME=VALUE`."""

    name = "NAME=VALUE"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """Split at the first `=`."""
        name, equals, text = str(value).partition("=")
        if not name or not equals:
            self.fail(f"{value!r} is not of the form NAME=VALUE.", param, ctx)
        return name, text


path = click.Path(path_type=Path)


@click.command()
@click.option("--image", required=True, metavar="NAME", help="Name of the image, such as my-app:v1.0.")
@click.option("-f", "--dockerfile", type=path, default="Dockerfile", show_default=True, help="How it is built.")
@click.option("--base", metavar="IMAGE", help="Lay the context over this image's working directory; no Dockerfile.")
@click.option("--context", type=path, help="Folder the Dockerfile copies from.  [default: the Dockerfile's folder]")
@click.option("--registry", metavar="NAME", help="Put before the image's name, such as gcr.io/my-project.")
@click.option("--build-arg", "build_args", type=Pair(), multiple=True, help="Value of an ARG of the Dockerfile.")
@click.option("--push", is_flag=True, help="Push the image to the registry once it is built.")
@click.option("--write", "manifest", type=path, metavar="FILE", help="Set spec.image of the SliceJob in this YAML.")
@click.option("--dry-run", is_flag=True, help="Print the docker commands that do the same, and do nothing.")
def build(
    image: str, dockerfile: Path, base: str | None, context: Path | None, registry: str | None,
    build_args: tuple[tuple[str, str], ...], push: bool, manifest: Path | None, dry_run: bool,
) -> None:  # fmt: skip
    """Build an image for a job, and print its full name; with --push also its digest.

    With --base the files of the context are laid over an image, without a Dockerfile; .dockerignore holds. A file
    Dockerfile.slipway of the context says how, with the build arguments IMAGE and WORKSPACE.

    Exit codes: 1 refused or failed, 2 wrong usage, 3 no Docker engine.
    """
    if base is not None and build_args:
        raise click.UsageError("--build-arg is for a Dockerfile, and --base needs none.")
    if push and registry is None:
        raise click.UsageError("--push needs --registry, which says where to.")
    with exit_codes():
        if base is not None:
            request = overlay_request(base, image, registry, context or Path())
        else:
            request = build_request(dockerfile, image, registry, dict(build_args), context)
        if manifest is not None:
            # Before an hour of building, not after it.
            with_image(manifest, request.name)
        if dry_run:
            commands = [request.argv, *([push_argv(request.name)] if push else [])]
            click.echo("\n".join(shlex.join(command) for command in commands))
            return
        reference = request.name
        with shown_on(Console(stderr=True)) as progress, connected() as engine:
            build_image(engine, request, progress)
            if push:
                reference += "@" + push_image(engine, request.name, progress)
        if manifest is not None:
            write_image(manifest, reference)
    click.echo(reference)


@click.command()
@click.argument("image")
def push(image: str) -> None:
    """Push IMAGE to the registry in its name, and print its name with the digest.

    Exit codes: 1 refused or failed, 2 wrong usage, 3 no Docker engine.
    """
    with exit_codes():
        checked(image)
        with shown_on(Console(stderr=True)) as progress, connected() as engine:
            digest = push_image(engine, image, progress)
    click.echo(f"{image}@{digest}")

"""`slipway run`: submit a job, follow it to its end, and exit as it did."""

import asyncio
from typing import Any

import click

from slipway.cli.common import FAILED, INTERRUPTED, NOTHING_TO_TALK_TO, Failure, code_of, exit_codes, program, targeted
from slipway.cli.submit import job_options, manifests
from slipway.client.errors import AlreadyExists, NotFound, Refused, SlipwayError
from slipway.client.model import JobState
from slipway.client.pictures.follow import follow
from slipway.client.pictures.live import Progress
from slipway.client.pictures.output import console
from slipway.client.target import Target


@click.command()
@job_options
@click.option(
    "--on",
    "place",
    type=click.Choice(("cluster", "local")),
    default="cluster",
    show_default=True,
    help="Where to run it; local is this machine's Docker engine.",
)
@click.option("--cancel-on-interrupt", is_flag=True, help="Cancel the job at Ctrl-C instead of leaving it running.")
@targeted
def run(target: Target, files: tuple[str, ...], place: str, cancel_on_interrupt: bool, **given: Any) -> None:
    """Submit a job, show its progress until it ends, and exit as it did.

    For example: slipway run --image IMAGE --type v5litepod-16 --slices 2 -- python train.py

    Ctrl-C leaves the job running. Exit codes: 0 succeeded, 1 the job failed, 2 it was refused, 3 it could not be
    started, 130 interrupted.
    """
    if place == "local":
        # The cluster's commands need neither the SDK of Docker nor what follows from it.
        from slipway.local.target import LocalTarget

        target = LocalTarget(console=console(stderr=True))
    bodies = manifests(target, files, given)
    if len(bodies) != 1:
        raise click.UsageError(f"run follows one job, and the files have {len(bodies)}: use submit and wait.")
    [body] = bodies
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    there = target.within(namespace)
    try:
        end = asyncio.run(_run(there, body))
    except KeyboardInterrupt:
        _interrupted(there, name, f"{program()} local" if place == "local" else program(), cancel_on_interrupt)
        raise SystemExit(INTERRUPTED) from None
    except (Refused, AlreadyExists) as error:
        raise Failure(str(error), code_of(error)) from error
    except NotFound as error:
        raise Failure(str(error), NOTHING_TO_TALK_TO if "CRD" in str(error) else code_of(error)) from error
    except SlipwayError as error:
        raise Failure(str(error), code_of(error)) from error
    code = f" (exit code {end.exit_code})" if end.exit_code else ""
    click.echo(f"slicejob {name} {end.phase}{code}: {end.message}", err=True)
    raise SystemExit(0 if end.phase == "Succeeded" else FAILED)


async def _run(target: Target, body: dict[str, Any]) -> JobState:
    name, progress = body["metadata"]["name"], Progress(console(stderr=True), [body["metadata"]["name"]])
    async with target.client() as client:
        made = await client.submit(body)
        if not made.created:
            click.echo(f"slicejob {name} exists already and is followed", err=True)
        with progress.open():
            return await follow(client, name, progress)


def _interrupted(target: Target, name: str, command: str, cancel: bool) -> None:
    """Cancel the job, or say by which command it can be followed."""
    if not cancel:
        click.echo(
            f"\nslicejob {name} goes on by itself. Follow it with `{command} logs {name} -f` or "
            f"`{command} wait {name}`, end it with `{command} cancel {name}`.",
            err=True,
        )
        return

    async def work() -> None:
        async with target.client() as client:
            await client.cancel(name)

    with exit_codes():
        asyncio.run(work())
    click.echo(f"\nslicejob {name} was cancelled", err=True)

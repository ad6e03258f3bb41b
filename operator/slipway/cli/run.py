"""`slipway run`: submit a job, follow it to its end, and exit as it did."""

import asyncio
import shlex
from dataclasses import dataclass
from typing import Any

import click

from slipway.cli.common import (
    FAILED,
    INTERRUPTED,
    Failure,
    code_of,
    exit_codes,
    program,
    say,
    targeted,
)
from slipway.cli.submit import job_options, manifests
from slipway.client.cluster_client import ClusterTarget
from slipway.client.errors import AlreadyExists, NotFound, SlipwayError
from slipway.client.model import JobState
from slipway.client.pictures.console import console
from slipway.client.pictures.live import LiveView
from slipway.client.show import follow
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
        from slipway.local.client.target import LocalTarget

        target = LocalTarget(console=console(stderr=True))
    bodies = manifests(target, files, given)
    if len(bodies) != 1:
        raise click.UsageError(f"run follows one job, and the files have {len(bodies)}: use submit and wait.")
    [body] = bodies
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    followed = _Run(target.within(namespace), body, f"{program()} local" if place == "local" else program())
    try:
        end = asyncio.run(followed.to_its_end())
    except KeyboardInterrupt:
        followed.interrupted(cancel_on_interrupt)
        raise SystemExit(INTERRUPTED) from None
    except SlipwayError as error:
        raise Failure(str(error), code_of(error)) from error
    code = f" (exit code {end.exit_code})" if end.exit_code else ""
    say(f"slicejob {name} {end.phase}{code}: {end.message}", err=True)
    raise SystemExit(0 if end.phase == "Succeeded" else FAILED)


@dataclass
class _Run:
    """A job that is submitted and followed."""

    target: Target
    body: dict[str, Any]
    command: str
    """The command whose verbs are for this job."""
    uid: str | None = None
    """UID of the job; None while there was no answer to its creation."""

    @property
    def name(self) -> str:
        """Name of the job."""
        return str(self.body["metadata"]["name"])

    async def to_its_end(self) -> JobState:
        """Submit it, and show it until it ends."""
        progress = LiveView(console(stderr=True), [self.name])
        async with self.target.client() as client:
            made = await client.submit(self.body)
            self.uid = made.job.uid
            if not made.created:
                click.echo(f"slicejob {self.name} exists already and is followed", err=True)
            with progress.open():
                return await follow(client, self.name, progress, uid=self.uid)

    def interrupted(self, cancel: bool) -> None:
        """Cancel the job, or say by which command it can be followed, or how to find out whether it exists."""
        if cancel:
            with exit_codes():
                words = asyncio.run(self._cancelled())
        elif self.uid is not None:
            words = (
                f"goes on by itself. Follow it with {self._call('logs', '-f')} or {self._call('wait')}, "
                f"end it with {self._call('cancel')}."
            )
        else:
            words = (
                "may exist or not: there was no answer to its creation yet. Find out with "
                f"{self._call('describe')}, end it with {self._call('cancel')}."
            )
        click.echo(f"\nslicejob {self.name} {words}", err=True)

    def _call(self, verb: str, *options: str) -> str:
        """A command about the job, which leads to the same place whatever the context is by then."""
        where = self.target.options if isinstance(self.target, ClusterTarget) else ()
        return f"`{self.command} {shlex.join((verb, self.name, *options, *where))}`"

    async def _cancelled(self) -> str:
        async with self.target.client() as client:
            try:
                uid = self.uid or (await client.made(self.body)).uid
            except NotFound:
                return "does not exist, so there is nothing to cancel"
            except AlreadyExists as error:
                return f"was not cancelled: {error}"
            await client.cancel(self.name, uid=uid)
        return "was cancelled"

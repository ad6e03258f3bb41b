"""`slipway run`: submit a job, follow it to its end, and exit as it did."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import click

from slipway.api import names
from slipway.api.places import Place, parse_pod_name
from slipway.cli.common import FAILED, INTERRUPTED, NOTHING_TO_TALK_TO, Failure, code_of, console, exit_codes, targeted
from slipway.cli.live import Progress
from slipway.cli.submit import job_options, manifests
from slipway.client.asynchronous import AsyncClient, answered
from slipway.client.errors import AlreadyExists, NotFound, Refused, SlipwayError
from slipway.client.hosts import PodSeen, state_of
from slipway.client.model import JobState
from slipway.client.target import Target
from slipway.cluster import paths
from slipway.cluster.watch import Applied, Deleted, Init, Watcher

Hosts = dict[tuple[int, Place], str]
"""States of hosts, by attempt and place."""


@click.command()
@job_options
@click.option("--cancel-on-interrupt", is_flag=True, help="Cancel the job at Ctrl-C instead of leaving it running.")
@targeted
def run(target: Target, files: tuple[str, ...], cancel_on_interrupt: bool, **given: Any) -> None:
    """Submit a job, show its progress until it ends, and exit as it did.

    For example: slipway run --image IMAGE --type v5litepod-16 --slices 2 -- python train.py

    Ctrl-C leaves the job running. Exit codes: 0 succeeded, 1 the job failed, 2 it was refused, 3 it could not be
    started, 130 interrupted.
    """
    bodies = manifests(target, files, given)
    if len(bodies) != 1:
        raise click.UsageError(f"run follows one job, and the files have {len(bodies)}: use submit and wait.")
    [body] = bodies
    name, namespace = body["metadata"]["name"], body["metadata"]["namespace"]
    there = Target(namespace, target.kubeconfig, target.context)
    try:
        end = asyncio.run(_run(there, body))
    except KeyboardInterrupt:
        _interrupted(there, name, cancel_on_interrupt)
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
    name, progress = body["metadata"]["name"], Progress(console(stderr=True))
    async with AsyncClient(target.namespace, target.kubeconfig, target.context) as client:
        made = await client.submit(body)
        if not made.created:
            click.echo(f"slicejob {name} exists already and is followed", err=True)
        with progress.open():
            return await follow(client, name, progress)


async def follow(client: AsyncClient, name: str, progress: Progress) -> JobState:
    """Show a job until it has ended.

    Raises:
        NotFound: when it is deleted meanwhile.
    """
    hosts: Hosts = {}
    latest: list[JobState] = []

    async def pods() -> None:
        async with aclosing(_hosts(client, name, hosts)) as changes:
            async for _ in changes:
                if latest:
                    progress.show(latest[0], _of_attempt(hosts, latest[0]))

    watching = asyncio.create_task(pods())
    try:
        async with aclosing(client.watch(name)) as states:
            async for state in states:
                if state is None:
                    raise NotFound(f"SliceJob {name} was deleted")
                latest[:] = [state]
                progress.show(state, _of_attempt(hosts, state))
                if state.over:
                    return state
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    raise AssertionError("a watch of a job ends with its deletion")


def _of_attempt(hosts: Hosts, state: JobState) -> dict[Place, str]:
    """The hosts of the current attempt."""
    return {place: word for (attempt, place), word in hosts.items() if attempt == state.status.attempt}


async def _hosts(client: AsyncClient, name: str, hosts: Hosts) -> AsyncGenerator[None, None]:
    """Keeps the states of a job's pods, by attempt and place."""
    watcher = Watcher(
        client.api, paths.pods(client.resolved_namespace), PodSeen, label_selector=f"{names.LABEL_JOB_NAME}={name}"
    )
    with answered():
        async with aclosing(watcher.events()) as events:
            async for event in events:
                match event:
                    case Init():
                        hosts.clear()
                    case Applied(pod) if (key := parse_pod_name(name, pod.metadata.name)) is not None:
                        hosts[key] = state_of(pod)
                    case Deleted(pod) if (key := parse_pod_name(name, pod.metadata.name)) is not None:
                        hosts.pop(key, None)
                yield


def _interrupted(target: Target, name: str, cancel: bool) -> None:
    if not cancel:
        click.echo(
            f"\nslicejob {name} goes on by itself. Follow it with `slipway logs {name} -f` or `slipway wait {name}`, "
            f"end it with `slipway cancel {name}`.",
            err=True,
        )
        return

    async def work() -> None:
        async with AsyncClient(target.namespace, target.kubeconfig, target.context) as client:
            await client.cancel(name)

    with exit_codes():
        asyncio.run(work())
    click.echo(f"\nslicejob {name} was cancelled", err=True)

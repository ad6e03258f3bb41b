"""`slipway cancel`, `suspend`, `resume`, `delete`."""

import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

import click

from slipway.cli.common import INTERRUPTED, Failure, code_of, run, some_jobs, targeted
from slipway.client.errors import AlreadyFinished, NotFound, SlipwayError
from slipway.client.model import JobState
from slipway.client.target import Target
from slipway.client.verbs import Verbs

Change = Callable[[Verbs, str], Awaitable[JobState]]


class _NothingToDo(Exception):
    """The job is as it is wanted already; says so."""


async def _nothing(client: Verbs, job: JobState) -> None:
    """What most commands do after the change."""


def _each(
    target: Target, names: tuple[str, ...], change: Change, word: str, *, ignore_finished: bool = False,
    then: Callable[[Verbs, JobState], Awaitable[None]] = _nothing,
) -> None:  # fmt: skip
    """Change the jobs one after another; what goes wrong with one does not keep the others."""

    async def work() -> list[SlipwayError]:
        errors: list[SlipwayError] = []
        async with target.client() as client:
            for name in names:
                try:
                    job = await change(client, name)
                    _tell(name, word, (await client.out_of_reach([job])).get(name))
                    await then(client, job)
                except _NothingToDo as words:
                    click.echo(f"slicejob {name} {words}")
                except AlreadyFinished as error:
                    click.echo(f"{error}; nothing was changed.", err=True)
                    errors += [] if ignore_finished else [error]
                except SlipwayError as error:
                    click.echo(f"Error: {error}", err=True)
                    errors.append(error)
        return errors

    if errors := run(work()):
        raise SystemExit(code_of(errors[0]))


def _tell(name: str, word: str, away: str | None) -> None:
    """Say what was done to a job, or will be once its engine can be asked."""
    click.echo(f"slicejob {name} {f'will be {word} when its engine answers' if away else word}")
    if away:
        click.echo(f"Warning: {away}. What is to become of {name} is written down.", err=True)


@click.command()
@some_jobs
@click.option("--now", is_flag=True, help="Give the containers 1 s between SIGTERM and SIGKILL.")
@click.option("--ignore-finished", is_flag=True, help="Exit with 0 where a job has ended already.")
@targeted
def cancel(target: Target, names: tuple[str, ...], now: bool, ignore_finished: bool) -> None:
    """End jobs for good, and keep their records.

    The pods get SIGTERM and their grace period. A cancelled job cannot begin again: submit it under another name, or
    delete it first. Exit code 5 where a job has ended already.
    """
    _each(target, names, partial(_cancelled, now=now), "cancelled", ignore_finished=ignore_finished)


async def _cancelled(client: Verbs, name: str, *, now: bool) -> JobState:
    return await client.cancel(name, now=now)


@click.command()
@some_jobs
@targeted
def suspend(target: Target, names: tuple[str, ...]) -> None:
    """Delete the pods of jobs and release their nodes. No budget is charged; `slipway resume` lets them go on."""
    _each(target, names, lambda client, name: client.suspend(name), "suspended")


@click.command()
@some_jobs
@targeted
def resume(target: Target, names: tuple[str, ...]) -> None:
    """Let suspended jobs begin another attempt. Jobs that were not suspended are left as they are."""
    _each(target, names, _resumed, "resumed")


async def _resumed(client: Verbs, name: str) -> JobState:
    job = await client.get(name)
    if not job.status.final and not job.stored.spec.get("suspend"):
        raise _NothingToDo("was not suspended; nothing was changed")
    return await client.resume(name)


@click.command()
@some_jobs
@click.option("--wait", "until_gone", is_flag=True, help="Return once the jobs are gone.")
@click.option("--yes", is_flag=True, help="Delete jobs that run without asking.")
@targeted
def delete(target: Target, names: tuple[str, ...], until_gone: bool, yes: bool) -> None:
    """Delete jobs with everything that belongs to them: pods, logs, history.

    On a terminal it asks before it deletes a job that has not ended. Exit code 1 where the answer was no.
    """

    async def gone(client: Verbs, job: JobState) -> None:
        if until_gone:
            # A GitOps controller that keeps the manifest may create another job of this name at once.
            with suppress(NotFound):
                await client.wait(job.name, for_=("Deleted",), uid=job.uid)

    async def deleted(client: Verbs, name: str) -> JobState:
        found = await client.get(name)
        if not found.over and not yes and sys.stdin.isatty():
            question = f"SliceJob {name} is {found.phase}. Delete it with its pods?"
            if not _confirmed(question):
                raise SlipwayError(f"SliceJob {name} was not deleted")
        await client.delete(name, uid=found.uid)
        return found

    _each(target, names, deleted, "deleted", then=gone)


def _confirmed(question: str) -> bool:
    """Whether the person answers yes. Ctrl-C and Ctrl-D end the command."""
    # At the first Ctrl-C asyncio only cancels its task, which notices nothing while it waits for a line.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        return click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        raise Failure("interrupted", INTERRUPTED) from None
    finally:
        signal.signal(signal.SIGINT, before)

"""`slipway wait`: until jobs have ended, or are in a phase."""

import asyncio
from collections.abc import Collection, Coroutine, Iterable
from typing import Any, Final, TypeVar

import click
from rich.console import Console

from slipway.cli.common import FAILED, run, say, some_jobs, targeted
from slipway.cli.durations import Span
from slipway.client.model import JobState
from slipway.client.pictures.console import console
from slipway.client.pictures.live import LiveView
from slipway.client.target import Target
from slipway.client.verbs import FINISHED, WAITED_FOR, Verbs, ends_wait

T = TypeVar("T")


class State(click.ParamType[str]):
    """`Finished`, `Deleted` or a phase, in any case."""

    name = "STATE"
    _known: Final = {name.lower(): name for name in WAITED_FOR}

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The word as the API writes it."""
        folded = str(value).lower().replace("-", "")
        if folded not in self._known:
            self.fail(f"{value!r} is none of {', '.join(self._known.values())}.", param, ctx)
        return self._known[folded]


@click.command()
@some_jobs
@click.option("--for", "states", type=State(), multiple=True, help="Finished (default), Deleted, or a phase.")
@click.option("--timeout", type=Span(), help="Exit with 124 after this time, such as 30m; 0 looks once.")
@click.option("-q", "--quiet", is_flag=True, help="Print nothing while waiting.")
@targeted
def wait(target: Target, names: tuple[str, ...], states: tuple[str, ...], timeout: float | None, quiet: bool) -> None:
    """Wait until jobs have ended, or are in one of the given phases.

    A job that has ended or is Invalid ends the wait in any case. Exit codes: 0 every job is where it should be (without
    --for: has succeeded), 1 a job ended otherwise or is Invalid, 4 there is no such job or it was deleted, 124 timeout,
    130 interrupted.
    """
    wanted = states or (FINISHED,)

    progress = LiveView(Console(stderr=True, quiet=True) if quiet else console(stderr=True), names)
    ends: list[str] = []

    async def one(client: Verbs, name: str) -> JobState:
        job = await client.wait(name, for_=wanted, seconds=timeout, seen=progress.show)
        became = f"is {job.phase}: {job.message}" if ends_wait(job, wanted) else "deleted"
        ends.append(f"slicejob {name} {became}")
        return job

    async def work() -> list[JobState]:
        async with target.client() as client:
            return await _all(one(client, name) for name in names)

    try:
        with progress.open():
            jobs = run(work())
    finally:
        if not quiet:
            for line in ends:
                say(line)
    if not all(_right(state, wanted) for state in jobs):
        raise SystemExit(FAILED)


async def _all(waits: Iterable[Coroutine[Any, Any, T]]) -> list[T]:
    """Wait for all; what goes wrong with one ends the wait for the others."""
    tasks = [asyncio.create_task(one) for one in waits]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _right(state: JobState, wanted: Collection[str]) -> bool:
    if state.phase in wanted or not ends_wait(state, wanted):
        return True
    return FINISHED in wanted and state.phase == "Succeeded"

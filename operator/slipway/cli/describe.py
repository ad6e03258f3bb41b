"""`slipway describe`: one job in full."""

from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from slipway.api.progress import ProgressState
from slipway.api.status import Attempt
from slipway.cli import environment, why
from slipway.cli import events as event_table
from slipway.cli.advice import advice
from slipway.cli.common import one_job, output_option, print_data, run, say, targeted, warn_of
from slipway.client.description import Description, ProfileOfJob
from slipway.client.model import JobState
from slipway.client.pictures.chip_hours import account
from slipway.client.pictures.console import console
from slipway.client.pictures.formats import age, coloured
from slipway.client.pictures.host_matrix import matrix
from slipway.client.pictures.timeline import timeline
from slipway.client.target import Target
from slipway.core.accounting.ledger import account_at

_SHOWN_EVENTS: Final = 8
_SHOWN_LINES: Final = 20


@click.command()
@one_job
@click.option("--history", is_flag=True, help="Show every recorded attempt, not only the newest 20.")
@click.option("--env", is_flag=True, help="Show the environment of its containers instead.")
@output_option("json", "yaml")
@targeted
def describe(target: Target, name: str, history: bool, env: bool, output: str | None) -> None:
    """Show one job: why it is as it is, its attempts, where it broke and what to do, its time, its hosts, Events."""
    if env:
        _describe_environment(target, name, output)
        return

    async def work() -> tuple[Description, str]:
        async with target.client() as client:
            found = await client.describe(name, history=history)
            return found, await why.unseen(client, found.job, datetime.now(UTC))

    found, words = run(work())
    if found.out_of_reach:
        warn_of({name: found.out_of_reach})
    for refusal in found.hidden:
        say(f"Warning: not all is shown: {refusal}", err=True)
    if output:
        print_data(as_data(found), output)
    else:
        show(console(), found, datetime.now(UTC), words)


def _describe_environment(target: Target, name: str, output: str | None) -> None:
    async def work() -> JobState:
        async with target.client() as client:
            return await client.get(name)

    job = run(work())
    found = environment.environment(job)
    if output:
        print_data(environment.as_data(job, found), output)
    else:
        environment.show(console(), found)


def as_data(found: Description) -> dict[str, Any]:
    """What `-o json` prints."""
    return {
        "name": found.job.name,
        "namespace": found.job.namespace,
        "spec": found.job.stored.spec,
        "status": found.job.stored.status,
        "profile": asdict(found.profile) if found.profile is not None else None,
        "attempts": [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in found.attempts],
        "hosts": {place.words: state for place, state in found.hosts.items()},
        "events": [event_table.as_data(one) for one in found.events],
        "position": found.position or None,
    }


def show(out: Console, found: Description, now: datetime, unseen: str = "") -> None:
    """Print it for people; `unseen` says why no operator looks after the job."""
    out.print(summary(found.job, now, found.profile))
    out.print(f"\n{unseen or found.job.message}")
    if found.position:
        out.print(f"place: {found.position}")
    if found.attempts:
        out.print("\n[bold]Attempts[/]", markup=True)
        out.print(timeline(found.attempts, now, out.width))
    show_root(out, found.job, found.attempts)
    if (created := found.job.created) is not None:
        out.print("\n[bold]Time[/]", markup=True)
        out.print(account(account_at(created, found.job.status, now)))
    if found.hosts:
        out.print("\n[bold]Hosts[/]", markup=True)
        ray = "ray" in found.job.stored.spec
        out.print(matrix(found.hosts, found.job.slices, found.job.hosts, head=ray))
    if found.events:
        out.print("\n[bold]Events[/]", markup=True)
        out.print(event_table.table(found.events[-_SHOWN_EVENTS:], now))


def summary(job: JobState, now: datetime, profile: ProfileOfJob | None = None) -> Table:
    """The head of the description."""
    status = job.status
    grid = Table.grid(padding=(0, 2))
    gpus = status.resolved.gpus_per_host if status.resolved is not None else None
    each = f" with {gpus} GPU(s) each" if gpus else ""
    nodes = f"{job.accelerator or 'CPU'}, {job.slices} slice(s) of {job.hosts} host(s){each}"
    budgets = f"{status.failures} failures, {status.preemptions} preemptions"
    reason = f"  ({job.reason})" if job.reason not in ("", job.phase) else ""
    grid.add_row("SliceJob", f"{job.namespace}/{job.name}")
    grid.add_row("Phase", coloured(job.phase).append(reason))
    grid.add_row("Nodes", nodes + (f", {status.ready_slices} slices ready" if status.ready_slices else ""))
    grid.add_row("Image", str(job.stored.spec.get("image", "-")))
    if profile is not None:
        grid.add_row("Profile", profile.words)
    grid.add_row("Created", f"{age(job.created, now)} ago")
    grid.add_row("Charged", budgets + (f", {status.uncharged} attempts uncharged" if status.uncharged else ""))
    if (progress := status.progress) is not None:
        grid.add_row("Progress", steps(progress, now))
        if progress.checkpoint is not None:
            grid.add_row("Checkpoint", f"step {progress.checkpoint:,}, {age(progress.checkpoint_time, now)} ago")
    if status.coordinator is not None:
        grid.add_row("Coordinator", f"{status.coordinator.address}:{status.coordinator.port}")
    return grid


def steps(progress: ProgressState, now: datetime) -> str:
    """How far the job is, as it last printed."""
    if progress.step is None:
        return "no step printed yet"
    of = f" of {progress.total:,} ({progress.step / progress.total:.1%})" if progress.total else ""
    rate = f", {progress.rate:,.3g} steps/s" if progress.rate is not None else ""
    return f"step {progress.step:,}{of}{rate}, {age(progress.time, now)} ago in attempt {progress.attempt}"


def show_root(out: Console, job: JobState, attempts: Sequence[Attempt]) -> None:
    """Where the newest attempt that has ended broke, with its last lines and what to do."""
    ended = next((one for one in reversed(attempts) if one.end_time and one.reason and one.reason != "Succeeded"), None)
    if ended is None:
        return
    out.print(f"\n[bold]Attempt {ended.number} ended: {ended.reason}[/]", markup=True)
    out.print(ended.message or "")
    if ended.root is not None and ended.root.log:
        out.print("last lines:", style="dim")
        for line in ended.root.log.splitlines()[-_SHOWN_LINES:]:
            out.print(f"  {line}")
    if words := advice(ended.reason, job.name):
        out.print(f"what to do: {words}")

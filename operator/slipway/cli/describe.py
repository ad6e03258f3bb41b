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
            description = await client.describe(name, history=history)
            return description, await why.unseen(client, description.job, datetime.now(UTC))

    description, words = run(work())
    if description.out_of_reach:
        warn_of({name: description.out_of_reach})
    for refusal in description.hidden:
        say(f"Warning: not all is shown: {refusal}", err=True)
    if output:
        print_data(as_data(description), output)
    else:
        show(console(), description, datetime.now(UTC), words)


def _describe_environment(target: Target, name: str, output: str | None) -> None:
    async def work() -> JobState:
        async with target.client() as client:
            return await client.get(name)

    job = run(work())
    listing = environment.environment(job)
    if output:
        print_data(environment.as_data(job, listing), output)
    else:
        environment.show(console(), listing)


def as_data(description: Description) -> dict[str, Any]:
    """What `-o json` prints."""
    return {
        "name": description.job.name,
        "namespace": description.job.namespace,
        "spec": description.job.stored.spec,
        "status": description.job.stored.status,
        "profile": asdict(description.profile) if description.profile is not None else None,
        "attempts": [
            attempt.model_dump(mode="json", by_alias=True, exclude_none=True) for attempt in description.attempts
        ],
        "hosts": {place.words: state for place, state in description.hosts.items()},
        "events": [event_table.as_data(event) for event in description.events],
        "position": description.position or None,
    }


def show(out: Console, description: Description, now: datetime, unseen: str = "") -> None:
    """Print it for people; `unseen` says why no operator looks after the job."""
    out.print(summary(description.job, now, description.profile))
    out.print(f"\n{unseen or description.job.message}")
    if description.position:
        out.print(f"place: {description.position}")
    if description.attempts:
        out.print("\n[bold]Attempts[/]", markup=True)
        out.print(timeline(description.attempts, now, out.width))
    show_root(out, description.job, description.attempts)
    if (created := description.job.created) is not None:
        out.print("\n[bold]Time[/]", markup=True)
        out.print(account(account_at(created, description.job.status, now)))
    if description.hosts:
        out.print("\n[bold]Hosts[/]", markup=True)
        ray = "ray" in description.job.stored.spec
        out.print(matrix(description.hosts, description.job.slices, description.job.hosts, head=ray))
    if description.events:
        out.print("\n[bold]Events[/]", markup=True)
        out.print(event_table.table(description.events[-_SHOWN_EVENTS:], now))


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
    ended = next(
        (
            attempt
            for attempt in reversed(attempts)
            if attempt.end_time and attempt.reason and attempt.reason != "Succeeded"
        ),
        None,
    )
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

"""`slipway list`: the jobs of a namespace, or of all."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Final

import click
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from slipway.cli.common import output_option, print_data, run, targeted, warn_of
from slipway.client.model import JobState
from slipway.client.pictures.console import console
from slipway.client.pictures.formats import age, coloured
from slipway.client.target import Target

_COLUMNS: Final = ("NAME", "PHASE", "REASON", "ACCELERATOR", "SLICES", "ATTEMPT", "FAILURES", "PREEMPTIONS", "AGE")
_WIDE: Final = ("STARTED", "COMPLETED", "MESSAGE")
_NO_LIMIT: Final = 10_000
_LESS: Final = ("PREEMPTIONS", "FAILURES", "ATTEMPT", "ACCELERATOR", "REASON")
"""What is left out, in this order, where a terminal is too narrow."""


@click.command("list")
@click.option("-A", "--all-namespaces", is_flag=True, help="List the jobs of every namespace.")
@click.option("-l", "--selector", default="", help="List jobs with these labels only, as kubectl does.")
@output_option("json", "yaml", "wide", "name")
@targeted
def list_(target: Target, all_namespaces: bool, selector: str, output: str | None) -> None:
    """List jobs: phase, why they do not run, slices, attempts."""

    async def work() -> tuple[tuple[JobState, ...], Mapping[str, str]]:
        async with target.client() as client:
            found = await client.list(all_namespaces=all_namespaces, label_selector=selector)
            return found, await client.out_of_reach(found)

    jobs, away = run(work())
    warn_of(away)
    if output == "name":
        click.echo("".join(f"slicejob.slipway.dev/{job.name}\n" for job in jobs), nl=False)
    elif output in ("json", "yaml"):
        print_data([as_data(job) for job in jobs], output)
    elif jobs:
        out = console()
        found = table(out, jobs, datetime.now(UTC), namespaces=all_namespaces, wide=output == "wide")
        show_wide(out, found) if output == "wide" else out.print(found)
    else:
        where = "any namespace" if all_namespaces else f"namespace {target.resolved_namespace}"
        click.echo(f"No SliceJobs in {where}.", err=True)


def show_wide(out: Console, found: Table) -> None:
    """Print a table as wide as it is; the terminal breaks its lines."""
    out.width = _NO_LIMIT
    out.print(found)


def as_data(job: JobState) -> dict[str, object]:
    """What `-o json` has of one job."""
    created = job.created.isoformat() if job.created else None
    about = {"name": job.name, "namespace": job.namespace, "uid": job.uid, "creationTimestamp": created}
    return {"metadata": about, "spec": job.stored.spec, "status": job.stored.status}


def table(out: Console, jobs: tuple[JobState, ...], now: datetime, *, namespaces: bool, wide: bool) -> Table:
    """The jobs as `kubectl get` would list them, with colours, and with the columns that there is room for."""
    columns = [*(("NAMESPACE",) if namespaces else ()), *_COLUMNS, *(_WIDE if wide else ())]
    cells = [_cells(job, now) for job in jobs]
    for less in (None, *_LESS):
        columns = [name for name in columns if name != less]
        found = _table(columns, cells)
        if wide or Measurement.get(out, out.options.update(max_width=_NO_LIMIT), found).maximum <= out.width:
            break
    return found


def _table(columns: Sequence[str], rows: Sequence[dict[str, Text | str]]) -> Table:
    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in columns:
        # Names are copied and phases are looked for, so the message gives way.
        found.add_column(name, no_wrap=name != "MESSAGE", overflow="fold" if name == "MESSAGE" else "ellipsis")
    for row in rows:
        found.add_row(*(row[name] for name in columns))
    return found


def _cells(job: JobState, now: datetime) -> dict[str, Text | str]:
    status = job.status
    return {
        "NAMESPACE": job.namespace,
        "NAME": job.name,
        "PHASE": coloured(job.phase),
        "REASON": job.reason if job.reason != job.phase else "",
        "ACCELERATOR": job.accelerator,
        "SLICES": status.ready_slices or f"-/{job.slices}",
        "ATTEMPT": "" if status.attempt is None else str(status.attempt),
        "FAILURES": str(status.failures),
        "PREEMPTIONS": str(status.preemptions),
        "AGE": age(job.created, now),
        "STARTED": age(status.start_time, now),
        "COMPLETED": age(status.completion_time, now),
        "MESSAGE": job.message,
    }

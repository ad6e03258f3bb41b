"""`slipway events`: the Events of a job and of its pods."""

from datetime import UTC, datetime
from typing import Any

import click
from rich.table import Table

from slipway.cli.common import one_job, output_option, print_data, run, targeted
from slipway.client.description import Event
from slipway.client.pictures.console import console
from slipway.client.pictures.formats import age
from slipway.client.target import Target


@click.command()
@one_job
@output_option("json", "yaml")
@targeted
def events(target: Target, name: str, output: str | None) -> None:
    """Show the Events of a job and of its pods, oldest first. The API server keeps them for an hour or so."""

    async def work() -> tuple[Event, ...]:
        async with target.client() as client:
            return await client.events(name)

    found = run(work())
    if output:
        print_data([as_data(event) for event in found], output)
    elif found:
        console().print(table(found, datetime.now(UTC)))
    else:
        click.echo(f"No Events of SliceJob {name}.", err=True)


def as_data(event: Event) -> dict[str, Any]:
    """What `-o json` has of one Event."""
    time = event.time.isoformat() if event.time else None
    about = {"time": time, "type": event.type, "reason": event.reason, "message": event.message}
    return about | {"object": event.involved_object.get("name"), "count": event.times}


def table(found: tuple[Event, ...], now: datetime) -> Table:
    """The Events as `kubectl events` lists them."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("AGE", "TYPE", "REASON", "OBJECT", "MESSAGE"):
        shown.add_column(column, no_wrap=column != "MESSAGE", overflow="fold")
    for event in found:
        times = f" (x{event.times})" if event.times > 1 else ""
        style = "yellow" if event.type == "Warning" else ""
        about = event.involved_object
        thing = f"{about.get('kind', '')}/{about.get('name', '')}".lower()
        shown.add_row(age(event.time, now) + times, event.type, event.reason, thing, event.message, style=style)
    return shown

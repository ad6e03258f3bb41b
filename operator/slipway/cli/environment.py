"""`slipway describe --env`: the environment that the hosts of a job get."""

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec
from rich.console import Console
from rich.table import Table

from slipway.cli.common import USAGE, Failure
from slipway.client.environment_listing import Listed, Listing, listing
from slipway.client.model import JobState
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.model.job import UNKNOWN_OPERATOR
from slipway.core.model.reading import read_job
from slipway.core.validation.site import unknown_site_of

_MAX_SHOWN: Final = 60


def environment(job: JobState) -> Listing:
    """The environment of a job, with the settings of the operator as far as its status tells them."""
    settings = UNKNOWN_OPERATOR
    if job.status.resolved is not None:
        settings = replace(settings, coordinator_port=job.status.resolved.coordinator_port)
    try:
        read = read_job(msgspec.to_builtins(job.stored))
        if read.spec is not None:
            spec, site = unknown_site_of(read.spec)
            read = replace(read, spec=spec, given=read.spec, site=site)
        return listing(read, settings)
    except InvalidSpec as error:
        raise Failure(f"SliceJob {job.name} gets no hosts: {error.message}", USAGE) from error


def as_data(job: JobState, found: Listing) -> dict[str, Any]:
    """What `-o json` prints."""
    data = {"name": job.name, "namespace": job.namespace, "attempt": found.attempt, "hosts": found.hosts}
    data["workers"] = list(_as_data(found.workers))
    return data | ({"head": list(_as_data(found.head))} if found.head else {})


def _as_data(rows: Iterable[Listed]) -> Iterator[dict[str, str]]:
    for row in rows:
        last = {"lastValue": row.last} if row.last != row.first else {}
        yield {"name": row.name, "value": row.first, **last, "source": row.source}


def show(out: Console, found: Listing) -> None:
    """Print it for people."""
    out.print(f"[bold]Workers[/] ({found.hosts} in attempt {found.attempt})", markup=True)
    out.print(_table(found.workers))
    if found.head:
        out.print("\n[bold]Ray head[/]", markup=True)
        out.print(_table(found.head))


def _table(rows: Iterable[Listed]) -> Table:
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("NAME", no_wrap=True)
    shown.add_column("VALUE", overflow="fold")
    shown.add_column("FROM", no_wrap=True)
    for row in rows:
        value = _short(row.first) if row.first == row.last else f"{_short(row.first)} … {_short(row.last)}"
        shown.add_row(row.name, value, row.source)
    return shown


def _short(value: str) -> str:
    return value if len(value) <= _MAX_SHOWN else value[: _MAX_SHOWN - 1] + "…"

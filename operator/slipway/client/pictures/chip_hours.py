"""Where the time of a job went, and that of its chips, as a table; and that of many jobs, a line each."""

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from pydantic.alias_generators import to_camel
from rich.table import Table

from slipway.api.ledger import Ledger
from slipway.client.model import JobState
from slipway.client.pictures.formats import span
from slipway.core.accounting.ledger import account_at, by_state, sums
from slipway.core.accounting.spans import LOST, RUNNING

_SECONDS_OF_AN_HOUR: Final = 3600


def account(ledger: Ledger) -> Table:
    """A row for each state that the job was in, in the words of `status.ledger`; lost time in its parts."""
    seconds, chips = sums(ledger.seconds), sums(ledger.chip_seconds)
    whole = sum(seconds.values())
    shown = Table(box=None, pad_edge=False, header_style="bold")
    shown.add_column("STATE", no_wrap=True)
    for column in ("TIME", "SHARE", *(["CHIP HOURS"] if chips else [])):
        shown.add_column(column, justify="right", no_wrap=True)
    for state, passed in seconds.items():
        row = [" ".join(map(to_camel, state)), span(timedelta(seconds=passed)), f"{passed / whole:.1%}"]
        if chips:
            row.append(f"{chips.get(state, 0.0) / _SECONDS_OF_AN_HOUR:,.2f}")
        shown.add_row(*row)
    return shown


@dataclass(frozen=True)
class Shares:
    """How the time of one job is divided; parts are 0 to 1."""

    namespace: str
    name: str
    seconds: float
    running: float
    lost: float
    chip_hours: float

    def as_data(self) -> dict[str, Any]:
        """What `-o json` prints of it."""
        return {to_camel(name): value for name, value in asdict(self).items()}


def shares(jobs: Iterable[JobState], now: datetime) -> list[Shares]:
    """The jobs whose age is known, those with the most chip hours first."""
    found = [_shares(job, job.created, now) for job in jobs if job.created is not None]
    return sorted(found, key=lambda one: (-one.chip_hours, -one.seconds))


def _shares(job: JobState, created: datetime, now: datetime) -> Shares:
    ledger = account_at(created, job.status, now)
    passed = by_state(ledger.seconds)
    whole, lost = sum(passed.values()), sum(passed[state] for state, *_ in LOST.values())
    hours = sum(sums(ledger.chip_seconds).values()) / _SECONDS_OF_AN_HOUR
    share = 1.0 / (whole or 1.0)
    return Shares(job.namespace, job.name, whole, passed[RUNNING[0]] * share, lost * share, hours)


def accounts(found: Iterable[Shares], *, namespaces: bool) -> Table:
    """A line for each job."""
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("NAMESPACE", "NAME")[not namespaces :]:
        shown.add_column(column, no_wrap=True)
    for column in ("TIME", "RUNS", "LOST", "OTHER", "CHIP HOURS"):
        # Where a terminal is narrow, the names give way.
        shown.add_column(column, justify="right", no_wrap=True, min_width=len(column))
    for one in found:
        parts = (one.running, one.lost, 1.0 - one.running - one.lost)
        time = (span(timedelta(seconds=one.seconds)), *(f"{part:.0%}" for part in parts))
        chips = f"{one.chip_hours:,.1f}" if one.chip_hours else "-"
        shown.add_row(*([one.namespace] if namespaces else []), one.name, *time, chips)
    return shown

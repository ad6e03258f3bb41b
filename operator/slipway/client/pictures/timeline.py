"""The attempts of a job as bars: how long each started, ran, and how long until the next began."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from rich.table import Table
from rich.text import Text

from slipway.api.status import Attempt
from slipway.client.pictures.formats import clock, span
from slipway.core.vocabulary.charges import FAILURES, PREEMPTIONS, charge_of

BAR: Final = 40
"""Cells of the longest bar."""
_SHORTEST: Final = 8
_REST: Final = 66
"""Columns beside the bar."""
_STYLES: Final = {FAILURES: "red", PREEMPTIONS: "yellow", None: ""}


def timeline(attempts: Sequence[Attempt], now: datetime, width: int) -> Table:
    """The attempts, oldest first, for a terminal of that width.

    START is until every host ran, RAN until the attempt ended, LOST until the next one began. A bar is `░` while hosts
    start, `█` while all of them run, and `·` until the next attempt begins.
    """
    found = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("#", "BEGAN", "", "START", "RAN", "LOST", "CHARGED", "REASON"):
        found.add_column(name, no_wrap=True)
    if not attempts:
        return found
    bar = max(min(width - _REST, BAR), _SHORTEST)
    begins, ends = attempts[0].start_time, max(one.end_time or now for one in attempts)
    cell = max((ends - begins) / bar, timedelta(milliseconds=1))
    for one, after in zip(attempts, [*attempts[1:], None], strict=True):
        found.add_row(*_row(one, after, begins, cell, now))
    return found


def _row(one: Attempt, after: Attempt | None, begins: datetime, cell: timedelta, now: datetime) -> list[Text | str]:
    ended = one.end_time or now
    ran_from = min(one.running_time or ended, ended)
    lost = after.start_time - ended if after is not None else None
    line = Text(" " * int((one.start_time - begins) / cell))
    line.append("░" * _cells(ran_from - one.start_time, cell), style="cyan")
    line.append("█" * _cells(ended - ran_from, cell), style=_style(one) or "green")
    line.append("·" * (_cells(lost, cell) if lost is not None else 0), style="dim")
    cause = Text(one.cause or ("-" if one.end_time else "running"), style=_style(one))
    started = span(ran_from - one.start_time) if one.running_time else "-"
    ran = span(ended - ran_from) if one.running_time else "-"
    return [
        str(one.number), clock(one.start_time), line, started, ran, span(lost) if lost is not None else "-", cause,
        one.reason or "",
    ]  # fmt: skip


def _style(one: Attempt) -> str:
    return _STYLES[charge_of(one.cause).budget]


def _cells(length: timedelta, cell: timedelta) -> int:
    """Cells of a bar: at least one for anything that took time."""
    return max(round(length / cell), 1) if length > timedelta() else 0

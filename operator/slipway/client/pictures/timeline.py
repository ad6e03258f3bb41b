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
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("#", "BEGAN", "", "START", "RAN", "LOST", "CHARGED", "REASON"):
        table.add_column(name, no_wrap=True)
    if not attempts:
        return table
    bar = max(min(width - _REST, BAR), _SHORTEST)
    begins, ends = attempts[0].start_time, max(attempt.end_time or now for attempt in attempts)
    cell = max((ends - begins) / bar, timedelta(milliseconds=1))
    for one, after in zip(attempts, [*attempts[1:], None], strict=True):
        table.add_row(*_row(one, after, begins, cell, now))
    return table


def _row(attempt: Attempt, after: Attempt | None, begins: datetime, cell: timedelta, now: datetime) -> list[Text | str]:
    ended = attempt.end_time or now
    ran_from = min(attempt.running_time or ended, ended)
    lost = after.start_time - ended if after is not None else None
    line = Text(" " * int((attempt.start_time - begins) / cell))
    line.append("░" * _cells(ran_from - attempt.start_time, cell), style="cyan")
    line.append("█" * _cells(ended - ran_from, cell), style=_style(attempt) or "green")
    line.append("·" * (_cells(lost, cell) if lost is not None else 0), style="dim")
    cause = Text(attempt.cause or ("-" if attempt.end_time else "running"), style=_style(attempt))
    started = span(ran_from - attempt.start_time) if attempt.running_time else "-"
    ran = span(ended - ran_from) if attempt.running_time else "-"
    return [
        str(attempt.number), clock(attempt.start_time), line, started, ran, span(lost) if lost is not None else "-",
        cause, attempt.reason or "",
    ]  # fmt: skip


def _style(attempt: Attempt) -> str:
    return _STYLES[charge_of(attempt.cause).budget]


def _cells(length: timedelta, cell: timedelta) -> int:
    """Cells of a bar: at least one for anything that took time."""
    return max(round(length / cell), 1) if length > timedelta() else 0

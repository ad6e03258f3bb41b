"""Makes recorded decisions once more, and writes them down for people."""

from collections.abc import Iterator
from pathlib import Path

from slipway.controller.recorder import Record, records
from slipway.core.planner.contract.actions import Plan
from slipway.core.planner.plan import plan
from tests.stories.printing import lines


def decisions(path: Path) -> Iterator[tuple[Record, Plan]]:
    """What each decision of a record was made from, and what it is now."""
    for record in records(path):
        yield record, plan(record.snapshot, record.now)


def replayed(path: Path) -> Iterator[str]:
    """One line for each thing that a decision writes or does, or that it wants to read first, after the time."""
    for record, decision in decisions(path):
        job = record.snapshot.job
        yield from (f"{record.now:%H:%M:%S.%f} {line}" for line in lines(job.status, decision, reads=True))

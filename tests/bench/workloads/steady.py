"""Many jobs run and nothing happens; then, one after another, a few of them lose a pod."""

import asyncio
from dataclasses import dataclass

from tests.bench.meter import Meter
from tests.bench.workloads.base import EqualJobs, Turn
from tests.bench.workloads.restart import lose

LOSSES = 3
"""Failures, each in another job: their figures are repetitions of one turn."""


@dataclass
class Steady(EqualJobs):
    """`count` running jobs."""

    idle_seconds: float
    patience: float = 60.0

    async def run(self, turn: Turn) -> None:
        await turn.must_fill(self.jobs)
        await turn.until_at_rest()
        idle = turn.record(f"idle {self.name}", self.count * self.shape.pods)
        meter = Meter(turn.place, turn.system)
        await asyncio.sleep(self.idle_seconds)
        await meter.read(idle)
        for number in range(LOSSES):
            record = turn.record(f"loss {self.name}", 0, turn.repetition * LOSSES + number)
            await lose(turn, record, self.jobs[(number + 1) * self.count // (LOSSES + 1)], "pod", self.patience)

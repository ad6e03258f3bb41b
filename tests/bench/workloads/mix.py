"""One big job and many small ones, which lose pods at random moments: how long each restart takes beside the others."""

import asyncio
import random
from dataclasses import dataclass

from slipway.devcluster import Pool
from tests.bench.meter import Meter
from tests.bench.systems import Job, Shape
from tests.bench.workloads.base import Turn, Workload, tpu_nodes
from tests.bench.workloads.restart import strike


@dataclass
class Mix(Workload):
    """`losses` of the small jobs, and the big one, lose a pod each, within `seconds`."""

    name: str
    big: Shape
    count: int
    small: Shape
    losses: int
    seconds: float
    patience: float = 120.0

    def __post_init__(self) -> None:
        self.jobs = [Job("big", self.big, fused=True)]
        self.jobs += [Job(f"job-{number}", self.small, fused=True) for number in range(self.count)]

    @property
    def pools(self) -> list[Pool]:
        return tpu_nodes(self.big, self.big.slices)[:1] + tpu_nodes(self.small, self.count * self.small.slices)

    async def run(self, turn: Turn) -> None:
        await turn.must_fill(self.jobs)
        await turn.until_at_rest()
        rng = random.Random(turn.repetition)
        struck = [self.jobs[0], *rng.sample(self.jobs[1:], self.losses)]
        record, meter = turn.record(self.name, sum(job.shape.pods for job in struck)), Meter(turn.place, turn.system)
        await asyncio.gather(*(self._strike(turn, job, rng.uniform(0.0, self.seconds)) for job in struck))
        await meter.read(record)

    async def _strike(self, turn: Turn, job: Job, after: float) -> None:
        await asyncio.sleep(after)
        name = f"restart in a mix {job.shape.pods}"
        before = sum(record.workload == name for record in turn.records)
        record = turn.record(name, 0, turn.repetition * self.losses + before)
        _, whole_again = await strike(turn, record, job, "pod", self.patience)
        await whole_again

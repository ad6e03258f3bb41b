"""A cluster with many jobs, most of them finished, on which nothing happens."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from slipway.devcluster import Pool
from tests.bench.meter import Meter
from tests.bench.systems import Job, Shape
from tests.bench.workloads.base import Turn, Unfit, Workload, tpu_nodes

BATCH = 100
"""Jobs that are submitted, and ended, at a time."""


@dataclass
class Rest(Workload):
    """`finished` jobs that are done, and `running` ones."""

    name: str
    finished: int
    running: int
    shape: Shape
    seconds: float
    patience: float = 60.0
    needs_end: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.jobs = [Job(f"job-{number}", self.shape) for number in range(self.finished + self.running)]

    @property
    def pools(self) -> list[Pool]:
        return tpu_nodes(self.shape, (BATCH + self.running) * self.shape.slices)

    async def run(self, turn: Turn) -> None:
        done = turn.observer.follow_objects(turn.system.objects, turn.system.is_done)
        for first in range(0, self.finished, BATCH):
            await self._finish(turn, done, self.jobs[first : min(first + BATCH, self.finished)])
        await turn.must_fill(self.jobs[self.finished :])
        await turn.until_at_rest()
        record, meter = turn.record(self.name, self.running * self.shape.pods), Meter(turn.place, turn.system)
        await asyncio.sleep(self.seconds)
        await meter.read(record)

    async def _finish(self, turn: Turn, done: Mapping[str, float], jobs: list[Job]) -> None:
        wanted = len(done) + len(jobs)
        await turn.must_fill(jobs)
        await asyncio.gather(*(turn.end(pod, "Succeeded", 0) for job in jobs for pod in turn.pods_of(job)))
        if not await turn.observer.until(lambda: len(done) >= wanted, self.patience):
            raise Unfit(f"{turn.system.name}: only {len(done)} of {wanted} jobs are done")

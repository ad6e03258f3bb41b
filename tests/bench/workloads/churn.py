"""Many jobs come, end and are deleted: what the controller still holds of them."""

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from slipway.devcluster import Pool
from tests.bench.meter import Meter
from tests.bench.systems import Job, Shape
from tests.bench.workloads.base import QUIET_SECONDS, Turn, Unfit, Workload, tpu_nodes
from tests.bench.workloads.rest import BATCH


@dataclass
class Churn(Workload):
    """`count` jobs, a batch at a time."""

    name: str
    count: int
    shape: Shape
    patience: float = 120.0
    needs_end: ClassVar[bool] = True

    def __post_init__(self) -> None:
        # Names come back, as those of nightly jobs do.
        self.jobs = [Job(f"job-{number}", self.shape) for number in range(min(BATCH, self.count))]

    @property
    def pools(self) -> list[Pool]:
        return tpu_nodes(self.shape, len(self.jobs) * self.shape.slices)

    async def run(self, turn: Turn) -> None:
        record, meter = turn.record(self.name, self.count * self.shape.pods), Meter(turn.place, turn.system)
        for _ in range(0, self.count, len(self.jobs)):
            await self._come_and_go(turn)
        await asyncio.sleep(QUIET_SECONDS)
        await meter.read(record)

    async def _come_and_go(self, turn: Turn) -> None:
        await turn.must_fill(self.jobs)
        await asyncio.gather(*(turn.end(pod, "Succeeded", 0) for job in self.jobs for pod in turn.pods_of(job)))
        await turn.system.remove(self.jobs)
        if not await turn.observer.until(lambda: not turn.observer.alive(), self.patience):
            raise Unfit(f"{turn.system.name}: {len(turn.observer.alive())} pods stayed")
        turn.observer.seen.clear()

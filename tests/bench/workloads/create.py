"""Jobs are submitted at once: until all their pods exist, and run."""

import asyncio
from dataclasses import dataclass

from slipway.local_cluster import Pool
from tests.bench.meter import Meter
from tests.bench.observer import first, last
from tests.bench.systems import Job, Shape
from tests.bench.workloads.base import QUIET_SECONDS, Turn, Workload, tpu_nodes


@dataclass
class Create(Workload):
    """`count` jobs of one shape."""

    name: str
    count: int
    shape: Shape

    def __post_init__(self) -> None:
        self.jobs = [Job(f"job-{number}", self.shape) for number in range(self.count)]

    @property
    def pools(self) -> list[Pool]:
        return tpu_nodes(self.shape, self.count * self.shape.slices)

    async def run(self, turn: Turn) -> None:
        record = turn.record(self.name, self.count * self.shape.pods)
        meter = Meter(turn.place, turn.system)
        if not await turn.fill(self.jobs):
            record.problem = f"only {turn.running()} of {record.pods} pods run"
        seen = turn.observer.seen.values()
        record.times = meter.times(first=first(one.created for one in seen))
        if len(seen) >= record.pods:
            record.times |= meter.times(
                exist=last(one.created for one in seen), running=last(one.running for one in seen)
            )
        await asyncio.sleep(QUIET_SECONDS)
        await meter.read(record)

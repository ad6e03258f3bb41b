"""All pods of a job succeed: until its object says that the job is done."""

import asyncio
from dataclasses import dataclass
from typing import ClassVar

from slipway.devcluster import Pool
from tests.bench.meter import Meter
from tests.bench.observer import first, last
from tests.bench.systems import Job, Shape
from tests.bench.workloads.base import QUIET_SECONDS, Turn, Workload, tpu_nodes


@dataclass
class Finish(Workload):
    """One job that comes to its end."""

    name: str
    shape: Shape
    patience: float = 60.0
    needs_end: ClassVar[bool] = True

    def __post_init__(self) -> None:
        self.jobs = [Job("job-0", self.shape)]

    @property
    def pools(self) -> list[Pool]:
        return tpu_nodes(self.shape, self.shape.slices)

    async def run(self, turn: Turn) -> None:
        done = turn.observer.follow_objects(turn.system.objects, turn.system.is_done)
        await turn.must_fill(self.jobs)
        await asyncio.sleep(QUIET_SECONDS)
        pods, record = turn.pods_of(self.jobs[0]), turn.record(self.name, self.shape.pods)
        meter = Meter(turn.place, turn.system)
        await asyncio.gather(*(turn.end(pod, "Succeeded", 0) for pod in pods))
        if not await turn.observer.until(lambda: bool(done), self.patience):
            record.problem = f"not done within {self.patience:.0f} s"
        ended, said = last(one.stopped for one in pods), first(done.values())
        record.times = meter.times(ended=ended, done=said)
        if ended is not None and said is not None:
            record.times["done_after_last"] = said - ended
        await asyncio.sleep(QUIET_SECONDS)
        await meter.read(record)

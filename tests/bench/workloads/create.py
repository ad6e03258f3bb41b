"""Jobs are submitted at once: until all their pods exist, and run."""

import asyncio
from dataclasses import dataclass

from tests.bench.meter import Meter
from tests.bench.observer import first, last
from tests.bench.workloads.base import QUIET_SECONDS, EqualJobs, Turn


@dataclass
class Create(EqualJobs):
    """`count` jobs of one shape."""

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

"""The leader is killed while many pods run, and then a pod fails: until the standby has noticed, and the job runs."""

from dataclasses import dataclass
from typing import ClassVar

from tests.bench.systems import ReplicatedSystem
from tests.bench.workloads.base import EqualJobs, Turn
from tests.bench.workloads.restart import lose


@dataclass
class Takeover(EqualJobs):
    """`count` running jobs, and a standby that has watched for a while."""

    patience: float = 120.0
    needs_standby: ClassVar[bool] = True

    async def run(self, turn: Turn) -> None:
        system = turn.system
        assert isinstance(system, ReplicatedSystem)
        await turn.must_fill(self.jobs)
        await system.stand_by()
        await turn.until_at_rest()
        await system.kill_leader()
        await lose(turn, turn.record(self.name, 0), self.jobs[self.count // 2], "pod", self.patience)

"""What workloads have in common."""

import asyncio
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import ClassVar

import msgspec

from slipway.devcluster import Pool
from tests.bench import audit
from tests.bench.observer import Observer, Seen
from tests.bench.place import Place
from tests.bench.records import Record
from tests.bench.systems import Job, Shape, System

QUIET_SECONDS = 2.0
"""Pause for the last writes of a phase; in it the Job controller also ends the batches of events that it gathers."""
IDLE_SECONDS, PATIENCE_SECONDS = 6.0, 120.0
"""Who has written nothing for the former is at rest; after the latter nobody waits for that any longer."""
FILL_SECONDS, SECONDS_PER_POD = 240.0, 0.15
"""How long jobs may take to run before they are given up: something, and more for each pod."""


class Unfit(Exception):
    """A system did not come to the point where it could be measured."""


@dataclass
class Turn:
    """One system that is ready, on a control plane, and the figures it gives."""

    place: Place
    system: System
    observer: Observer
    repetition: int
    records: list[Record] = field(default_factory=list)

    def record(self, workload: str, pods: int, repetition: int | None = None) -> Record:
        """Begin the figures of a workload about so many pods."""
        number = self.repetition if repetition is None else repetition
        made = Record(workload, self.system.name, number, pods, self.place.profile)
        self.records.append(made)
        return made

    async def fill(self, jobs: list[Job]) -> bool:
        """Have jobs run; whether all their pods did in time."""
        pods = sum(job.shape.pods for job in jobs)
        await self.system.submit(jobs)
        return await self.observer.until(lambda: self.running() >= pods, FILL_SECONDS + SECONDS_PER_POD * pods)

    async def must_fill(self, jobs: list[Job]) -> None:
        """Have jobs run.

        Raises:
            Unfit: when they do not.
        """
        if not await self.fill(jobs):
            raise Unfit(f"{self.system.name}: only {self.running()} pods run")

    async def until_at_rest(self) -> None:
        """Wait for what the system, and who works for it, still write of what happened; they may never be done."""
        for _ in range(int(PATIENCE_SECONDS / IDLE_SECONDS)):
            begin = datetime.now(UTC)
            await asyncio.sleep(IDLE_SECONDS)
            if not audit.writes(audit.requests(self.place.audit_log, begin, datetime.now(UTC))):
                return

    def running(self) -> int:
        """Pods that run and were not asked to go."""
        alive = [one for one in self.observer.alive() if one.deleting is None and one.ended is None]
        return sum(one.running is not None for one in alive)

    def pods_of(self, job: Job) -> list[Seen]:
        """A job's pods that have not ended, in the order of their slices."""
        label, part = self.system.job_label, self.system.slice_label
        mine = [one for one in self.observer.alive() if one.labels.get(label) == job.name and one.ended is None]
        return sorted(mine, key=lambda one: (one.labels.get(part, ""), one.name))

    async def end(self, pod: Seen, phase: str, code: int) -> None:
        """End a pod as its kubelet would."""
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
        container = {"name": "worker", "image": "", "imageID": "", "ready": False, "restartCount": 0, "state": state}
        body = {"status": {"phase": phase, "containerStatuses": [container]}}
        await self.place.api.patch_status(f"{self.system.pods}/{pod.name}", body, msgspec.Raw)


class Workload(ABC):
    """Something to measure."""

    name: str
    jobs: list[Job]
    needs_end: ClassVar[bool] = False
    """Whether only systems whose jobs come to an end can be measured."""
    needs_standby: ClassVar[bool] = False
    """Whether only systems with a standby can be measured."""

    @property
    @abstractmethod
    def pools(self) -> list[Pool]:
        """The nodes it takes."""

    @abstractmethod
    async def run(self, turn: Turn) -> None:
        """Measure; whoever calls prepares the jobs before and removes them afterwards."""


@dataclass
class EqualJobs(Workload):
    """Something to measure of `count` jobs of one shape."""

    name: str
    count: int
    shape: Shape

    def __post_init__(self) -> None:
        self.jobs = [Job(f"job-{number}", self.shape) for number in range(self.count)]

    @property
    def pools(self) -> list[Pool]:
        return tpu_nodes(self.shape, self.count * self.shape.slices)


def tpu_nodes(shape: Shape, slices: int) -> list[Pool]:
    """Nodes for so many slices, and a few CPU nodes for what else a system runs."""
    return [Pool(kind="simulated", type=shape.type, count=slices), Pool(kind="simulated", type="cpu", count=10)]

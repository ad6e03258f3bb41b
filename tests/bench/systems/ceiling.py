"""What the machine can do: a client that only creates and deletes the very pods that Slipway would make."""

import asyncio
import json
from collections.abc import Sequence

import msgspec

from slipway.api import names
from slipway.api.places import worker
from slipway.apiserver import paths
from slipway.apiserver.wire import JsonObject
from slipway.core.model.job import Job as SliceJob
from slipway.core.model.job import Settings
from slipway.core.model.reading import read_job
from slipway.core.validation.acceptance import pod_factory
from tests.bench import programs
from tests.bench.systems.base import Job, Loss, System
from tests.bench.systems.slipway import Slipway, slice_job

ANSWER_SECONDS = 600
GRACE_SECONDS = 5
"""What Slipway gives the peers of a broken attempt by default."""


class Ceiling(System):
    """No controller at all: it is told what to do at the moment the clock starts."""

    name = "ceiling"
    with_service = False
    selector = Slipway.selector
    job_label = Slipway.job_label
    slice_label = Slipway.slice_label
    collection = Slipway.collection

    async def start(self) -> None:
        self._owners: dict[str, SliceJob] = {}
        self._attempts: dict[str, int] = {}
        self._first_pool: dict[str, int] = {}
        command = [str(programs.CEILING.ensure()), f"--kubeconfig={self.kubeconfig}", f"--namespace={self.namespace}"]
        pipe = asyncio.subprocess.PIPE
        with self.log.open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, stderr=log)

    async def stop(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await asyncio.wait_for(self._process.wait(), 10)

    @property
    def pid(self) -> int:
        return self._process.pid

    def manifest(self, job: Job) -> JsonObject:
        return slice_job(job)

    async def prepare(self, jobs: Sequence[Job]) -> None:
        """Make the owners of the pods, which nobody watches now, and hand over the bodies."""
        await super().submit(jobs)
        pools = 0
        for job in jobs:
            self._first_pool[job.name] = pools
            pools += job.shape.slices
            body = await self.place.api.get(f"{self.objects}/{job.name}", JsonObject)
            self._owners[job.name] = read_job(body)
            self._attempts[job.name] = 0
        await self._load(jobs)

    async def submit(self, jobs: Sequence[Job]) -> None:
        await self._order("create", keys=[self._key(job) for job in jobs])

    async def brace(self, job: Job) -> None:
        await self._order("arm", keys=[self._key(job)])
        self._attempts[job.name] += 1
        await self._load([job])

    async def react(self, job: Job, loss: Loss) -> None:
        await self._order(
            "replace",
            keys=[self._key(job, before=1)],
            **{"with": self._key(job)},
            spared=[one.name for one in loss.failed],
            gone=[one.name for one in loss.machines],
            grace=GRACE_SECONDS,
        )

    async def remove(self, jobs: Sequence[Job]) -> None:
        everything = [f"{job.name}/{number}" for job in jobs for number in range(self._attempts[job.name] + 1)]
        await self._order("delete", keys=everything)
        await super().remove(jobs)
        if self.with_service:
            # The garbage collector may come to them only after the next turn has asked for its own.
            services = paths.services(self.namespace)
            await self._delete(f"{services}/{job.name}" for job in jobs)

    def _key(self, job: Job, before: int = 0) -> str:
        return f"{job.name}/{self._attempts[job.name] - before}"

    async def _load(self, jobs: Sequence[Job]) -> None:
        bodies = self.place.folder / f"{self.name}.json"
        bodies.write_bytes(msgspec.json.encode({self._key(job): self._batch(job) for job in jobs}))
        await self._order("load", file=str(bodies))

    def _batch(self, job: Job) -> JsonObject:
        owner, attempt = self._owners[job.name], self._attempts[job.name]
        factory = pod_factory(owner, Settings())
        places = [worker(one, host) for one in range(job.shape.slices) for host in range(job.shape.hosts)]
        if factory.pool_hosts:
            factory = pod_factory(owner, Settings(), dict(enumerate(self._pools(job))))
        return {
            "selector": f"{names.LABEL_JOB_UID}={owner.uid},{names.LABEL_ATTEMPT}={attempt}",
            # One for all pods, as the peers make it.
            "service": factory.peers(0).services()[0] if self.with_service and attempt == 0 else None,
            "pods": [factory.pod(attempt, place) for place in places],
        }

    def _pools(self, job: Job) -> list[str]:
        """The node pools that Slipway could pin slices to; each attempt moves on by one, away from a lost slice."""
        pools = sorted({one.pool for one in self.place.cluster.spec.nodes() if one.labels.get(names.NODE_TOPOLOGY)})
        first = self._first_pool[job.name] + self._attempts[job.name]
        return [pools[(first + index) % len(pools)] for index in range(job.shape.slices)]

    async def _order(self, op: str, **what: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"op": op, **what}).encode() + b"\n")
        answer = await asyncio.wait_for(self._process.stdout.readline(), ANSWER_SECONDS)
        if not answer:
            raise SystemExit(f"the ceiling's client ended: {self.log.read_text()[-1000:]}")


class CeilingWithService(Ceiling):
    """The same with one headless Service over all pods of a job, which every operator makes."""

    name = "ceiling-service"
    with_service = True

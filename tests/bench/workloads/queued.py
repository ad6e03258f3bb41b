"""More jobs than a queue of Kueue has quota for: until all have run, each in the place of one that has ended."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

from slipway.api.accelerators import resolve
from slipway.devcluster import Pool
from tests.bench.meter import Meter
from tests.bench.observer import Seen, first, last
from tests.bench.systems import Job
from tests.bench.workloads.base import QUIET_SECONDS, EqualJobs, Turn, Unfit, tpu_nodes
from tests.clusters import kubectl_for
from tests.kueue.program import KUEUE
from tests.kueue.queues import GROUP
from tests.kueue.server import FRAMEWORK, Server

QUEUE = "bench"


@dataclass
class Queued(EqualJobs):
    """`count` jobs, of which the quota admits `room` at once; each ends as soon as all its pods run."""

    room: int
    patience: float = 600.0

    def __post_init__(self) -> None:
        super().__post_init__()
        self.jobs = [replace(job, queue=QUEUE) for job in self.jobs]

    @property
    def pools(self) -> list[Pool]:
        return tpu_nodes(self.shape, self.room * self.shape.slices)

    async def run(self, turn: Turn) -> None:
        async with _kueue(turn):
            await asyncio.to_thread(turn.place.apply, *self._queue(turn))
            await self._warm_up(turn)
            known = set(turn.observer.seen)
            record, meter = turn.record(self.name, self.count * self.shape.pods), Meter(turn.place, turn.system)
            await turn.system.submit(self.jobs)
            ended = await self._drain(turn, self.jobs)
            if ended < self.count:
                record.problem = f"{ended} of {self.count} jobs have run {self.patience:.0f} s later"
            seen = [one for uid, one in turn.observer.seen.items() if uid not in known]
            record.times = meter.times(first=first(one.created for one in seen))
            if ended == self.count:
                record.times |= meter.times(drained=last(one.running for one in seen))
            await asyncio.sleep(QUIET_SECONDS)
            await meter.read(record)
            await turn.system.remove(self.jobs)
            await turn.observer.until(lambda: not turn.observer.alive(), self.patience)

    async def _warm_up(self, turn: Turn) -> None:
        """Have a job run, so that everybody has noticed that there is a Kueue."""
        job = Job("warm-up", self.shape, queue=QUEUE)
        await turn.system.submit([job])
        if not await self._drain(turn, [job]):
            raise Unfit(f"{turn.system.name}: no job of the queue runs")
        await turn.system.remove([job])
        await turn.observer.until(lambda: not turn.observer.alive(), self.patience)
        await turn.until_at_rest()

    async def _drain(self, turn: Turn, jobs: list[Job]) -> int:
        """End each job when all its pods run, until none is left; returns how many were ended."""
        waiting = {job.name: job for job in jobs}

        def full() -> list[list[Seen]]:
            running: dict[str, list[Seen]] = {}
            for one in turn.observer.alive():
                if one.running is not None and one.deleting is None and one.ended is None:
                    running.setdefault(one.labels.get(turn.system.job_label, ""), []).append(one)
            return [running[name] for name in waiting if len(running.get(name, ())) == self.shape.pods]

        end = asyncio.get_running_loop().time() + self.patience
        while waiting and (left := end - asyncio.get_running_loop().time()) > 0:
            if not await turn.observer.until(lambda: bool(full()), left):
                break
            for pods in full():
                await self._end(turn, waiting.pop(pods[0].labels[turn.system.job_label]), pods)
        return len(jobs) - len(waiting)

    async def _end(self, turn: Turn, job: Job, pods: list[Seen]) -> None:
        if turn.system.ends:
            await asyncio.gather(*(turn.end(pod, "Succeeded", 0) for pod in pods))
        else:
            await turn.system.remove([job])

    def _queue(self, turn: Turn) -> list[Any]:
        chips = self.room * self.shape.pods * resolve(self.shape.type).chips_per_host
        quota = [{"name": "google.com/tpu", "nominalQuota": chips}]
        group = {"coveredResources": ["google.com/tpu"], "flavors": [{"name": QUEUE, "resources": quota}]}
        return [
            _body("ResourceFlavor", {"name": QUEUE}, {}),
            _body("ClusterQueue", {"name": QUEUE}, {"namespaceSelector": {}, "resourceGroups": [group]}),
            _body("LocalQueue", {"name": QUEUE, "namespace": turn.system.namespace}, {"clusterQueue": QUEUE}),
        ]


def _body(kind: str, metadata: dict[str, str], spec: dict[str, Any]) -> Any:
    return {"apiVersion": GROUP, "kind": kind, "metadata": metadata, "spec": spec}


@asynccontextmanager
async def _kueue(turn: Turn) -> AsyncIterator[None]:
    """A Kueue with the integration of the system; its webhooks are gone afterwards."""
    folder = turn.place.folder / f"kueue-{turn.system.name}-{turn.repetition}"
    folder.mkdir()
    server = Server(turn.place.cluster, kubectl_for(turn.place.cluster, "default"), folder)
    frameworks = {"frameworks": [turn.system.framework], "externalFrameworks": [FRAMEWORK]}
    try:
        await asyncio.to_thread(KUEUE.ensure)
        await asyncio.to_thread(server.install)
        await asyncio.to_thread(server.start, integrations=frameworks)
        turn.place.beside["kueue"] = server.pid
        yield
    finally:
        turn.place.beside.clear()
        await asyncio.to_thread(server.stop)
        await asyncio.to_thread(server.remove_webhooks)

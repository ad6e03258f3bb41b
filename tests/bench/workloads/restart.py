"""A running job loses a part: until its pods are told to go, are gone, exist anew, run anew."""

import asyncio
from collections.abc import Awaitable, Collection, Iterable
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from slipway.devcluster import Pool
from slipway.devcluster.kubeapi import in_parallel
from slipway.devcluster.native.simulated import create as create_nodes
from slipway.devcluster.node_objects import delete as delete_node
from tests.bench.meter import Meter
from tests.bench.observer import Seen, first, last
from tests.bench.place import Place
from tests.bench.records import Record
from tests.bench.systems import Job, Loss, Shape
from tests.bench.workloads.base import QUIET_SECONDS, Turn, Workload, tpu_nodes

Part = Literal["pod", "node", "slice"]
"""A pod fails, a Node object goes and is back soon, all Node objects of a slice go."""
REPAIR_SECONDS = 1.0


@dataclass
class Restart(Workload):
    """One job, of which a part is lost."""

    name: str
    part: Part
    shape: Shape
    patience: float = 120.0

    def __post_init__(self) -> None:
        self.jobs = [Job("job-0", self.shape, fused=True)]

    @property
    def pools(self) -> list[Pool]:
        # A slice that lost a node cannot be used again.
        return tpu_nodes(self.shape, self.shape.slices + 1)

    async def run(self, turn: Turn) -> None:
        await turn.must_fill(self.jobs)
        await asyncio.sleep(QUIET_SECONDS)
        await lose(turn, turn.record(self.name, 0), self.jobs[0], self.part, self.patience)


async def lose(turn: Turn, record: Record, job: Job, part: Part, patience: float) -> None:
    """Take a part of a running job away, and record what happens and what it costs; nodes are back in the end."""
    meter, whole_again = await strike(turn, record, job, part, patience)
    await asyncio.sleep(QUIET_SECONDS)
    await meter.read(record)
    await whole_again


async def strike(turn: Turn, record: Record, job: Job, part: Part, patience: float) -> tuple[Meter, Awaitable[None]]:
    """Take a part of a running job away and time what happens.

    Returns what has counted since then, and what brings the nodes back.
    """
    old = turn.pods_of(job)
    lost = tuple(old[: job.shape.hosts if part == "slice" else 1])
    loss = Loss(failed=lost) if part == "pod" else Loss(machines=lost)
    record.pods = job.shape.pods if turn.system.whole_restart or job.fused else job.shape.hosts
    await turn.system.brace(job)
    looked_at = len(turn.observer.seen)
    later: list[Seen] = []
    meter = Meter(turn.place, turn.system)
    await asyncio.gather(turn.system.react(job, loss), _inflict(turn, loss))
    # One machine is repaired in place; otherwise a slice may find its pool good enough but for that host, and wait.
    repair = asyncio.create_task(_repair(turn.place, loss)) if part == "node" else None

    def new() -> list[Seen]:
        # Dozens of these may wait beside each other, among thousands of pods: each is looked at once.
        nonlocal looked_at
        unknown = islice(turn.observer.seen.values(), looked_at, None)
        later.extend(one for one in unknown if one.labels.get(turn.system.job_label) == job.name)
        looked_at = len(turn.observer.seen)
        return [one for one in later if one.gone is None]

    def running() -> int:
        return sum(one.running is not None for one in new())

    if not await turn.observer.until(lambda: running() >= record.pods, patience):
        record.problem = f"{running()} of {record.pods} new pods ran within {patience:.0f} s"
    touched = [one for one in old if one.terminating is not None]
    record.times = meter.times(react=first(one.terminating for one in touched))
    if len(new()) >= record.pods:
        record.times |= meter.times(
            all_deleting=last(one.terminating for one in touched),
            old_gone=last(one.stopped for one in touched),
            first_new=first(one.created for one in new()),
            exist=last(one.created for one in new()),
            running=last(one.running for one in new()),
        )
    return meter, repair if repair is not None else _restore_nodes(turn.place, loss)


async def _repair(place: Place, loss: Loss) -> None:
    await asyncio.sleep(REPAIR_SECONDS)
    await _restore_nodes(place, loss)


async def _inflict(turn: Turn, loss: Loss) -> None:
    await asyncio.gather(*(turn.end(pod, "Failed", 1) for pod in loss.failed))
    if loss.machines:
        await asyncio.to_thread(delete_nodes, turn.place, {one.node for one in loss.machines})


def delete_nodes(place: Place, nodes: Iterable[str]) -> None:
    """Delete Node objects; kwok keeps no machines behind them."""
    api = place.fresh_api()
    in_parallel(lambda one: delete_node(api, str(one["name"])), ({"name": name} for name in nodes))


async def _restore_nodes(place: Place, loss: Loss) -> None:
    if loss.machines:
        await asyncio.to_thread(restore_nodes, place, {one.node for one in loss.machines})


def restore_nodes(place: Place, gone: Collection[str]) -> None:
    """Create Node objects again as they were."""
    create_nodes(place.fresh_api(), [plan for plan in place.cluster.spec.nodes() if plan.name in gone])

"""Nodes go one after another and are soon back, as in an upgrade of node pools: until all jobs run again."""

import asyncio
import time
from dataclasses import dataclass

from tests.bench.meter import Meter
from tests.bench.observer import last
from tests.bench.workloads.base import QUIET_SECONDS, EqualJobs, Turn
from tests.bench.workloads.restart import REPAIR_SECONDS, delete_nodes, restore_nodes


@dataclass
class Rolling(EqualJobs):
    """`count` running jobs, of whose nodes `share` go."""

    share: float
    patience: float = 300.0

    async def run(self, turn: Turn) -> None:
        await turn.must_fill(self.jobs)
        await turn.until_at_rest()
        seen = turn.observer.seen
        known, nodes = set(seen), sorted({one.node for one in turn.observer.alive()})
        record, meter = turn.record(self.name, 0), Meter(turn.place, turn.system)
        lost = await _roll(turn, nodes[:: round(1 / self.share)])

        def whole() -> bool:
            stale = any(one.gone is None and one.created < lost.get(one.node, 0.0) for one in seen.values())
            return not stale and turn.running() >= len(known)

        if not await turn.observer.until(whole, self.patience):
            record.problem = f"{turn.running()} of {len(known)} pods run {self.patience:.0f} s later"
        new = [one for uid, one in seen.items() if uid not in known]
        record.pods = len(new)
        back = last(one.running for one in new if one.gone is None)
        record.times = meter.times(all_lost=max(lost.values()), running=back)
        if back is not None:
            record.times["running_after_last"] = back - max(lost.values())
        await asyncio.sleep(QUIET_SECONDS)
        await meter.read(record)


async def _roll(turn: Turn, nodes: list[str]) -> dict[str, float]:
    """Take one node after another away, each for a moment; returns when."""
    lost = {}
    for node in nodes:
        lost[node] = time.monotonic()
        await asyncio.to_thread(delete_nodes, turn.place, {node})
        await asyncio.sleep(REPAIR_SECONDS)
        await asyncio.to_thread(restore_nodes, turn.place, {node})
    return lost

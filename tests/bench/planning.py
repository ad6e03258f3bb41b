"""What one decision costs: the planner alone, on a large job."""

import time
from statistics import median

from slipway.planner.plan import plan
from tests.bench.records import Record
from tests.planner.build import World

HOSTS = 64
DECISIONS = 7


def measure(pods: int = 4096) -> list[Record]:
    """Seconds of a decision on a job of that many hosts: it starts, runs, has lost a pod, waits for its peers to go."""
    world = World(slices=pods // HOSTS, hosts=HOSTS)
    record = Record(f"plan {pods}", "slipway", 0, pods)
    world.begin()
    record.times["starting"] = _seconds(world)
    world.run()
    record.times["running"] = _seconds(world)
    world.pod(0, 1).exits(1)
    record.times["lost_a_pod"] = _seconds(world)
    world.step()
    record.times["peers_going"] = _seconds(world)
    return [record]


def _seconds(world: World) -> float:
    snapshot, taken = world.snapshot, []
    for _ in range(DECISIONS):
        # CPU time: what else the machine does is not the planner's fault.
        start = time.process_time()
        plan(snapshot, world.now)
        taken.append(time.process_time() - start)
    return median(taken)

"""What one decision costs: the planner alone, on a large job."""

import time
from collections import defaultdict
from dataclasses import replace
from statistics import median

import msgspec

from slipway.local_cluster.simulated import node_object
from slipway.local_cluster.spec import ClusterSpec
from slipway.planner.node_pools import NodePools
from slipway.planner.nodes import Node
from slipway.planner.plan import plan
from slipway.planner.snapshot import Snapshot
from tests.bench.records import Record
from tests.bench.systems import Shape
from tests.bench.workloads.base import tpu_nodes
from tests.planner.build import World

SHAPE = Shape(1, "v5litepod-256")
DECISIONS = 7


def measure(pods: int = 4096) -> list[Record]:
    """Seconds of a decision on a job of that many hosts.

    It begins, starts, runs, has lost a pod, waits for its peers to go.
    """
    slices = pods // SHAPE.hosts
    record = Record(f"plan {pods}", "slipway", 0, pods)
    tpus = World(slices=slices, accelerator={"type": SHAPE.type}, hosts=None)
    record.times["begins"] = _seconds(_with_free_pools(tpus, slices), tpus)
    world = World(slices=slices, hosts=SHAPE.hosts)
    world.begin()
    record.times["starting"] = _seconds(world.snapshot, world)
    world.run()
    record.times["running"] = _seconds(world.snapshot, world)
    world.pod(0, 1).exits(1)
    record.times["lost_a_pod"] = _seconds(world.snapshot, world)
    world.step()
    record.times["peers_going"] = _seconds(world.snapshot, world)
    return [record]


def _with_free_pools(world: World, slices: int) -> Snapshot:
    """What is seen of a world in which each slice finds a node pool."""
    nodes: dict[str, Node] = {}
    pools: dict[str, list[str]] = defaultdict(list)
    for one in ClusterSpec(name="plan", pools=tpu_nodes(SHAPE, slices)).nodes():
        nodes[one.name] = msgspec.convert(node_object(one, world.now.isoformat()), Node)
        pools[one.pool].append(one.name)
    return replace(world.snapshot, nodes=nodes, pools=NodePools(nodes=pools, open=tuple(pools)))


def _seconds(snapshot: Snapshot, world: World) -> float:
    taken = []
    for _ in range(DECISIONS):
        # CPU time: what else the machine does is not the planner's fault.
        start = time.process_time()
        plan(snapshot, world.now)
        taken.append(time.process_time() - start)
    return median(taken)

"""What one decision costs: the planner alone, on a large job."""

import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from statistics import median
from typing import Final

import msgspec

from slipway.api.names import NODE_POOL
from slipway.core.model.job import Settings
from slipway.core.model.nodes import Node, grouped
from slipway.core.model.tenants import Tenant, Tenants
from slipway.core.planner.contract.pool_pinning import NodePools
from slipway.core.planner.contract.snapshot import Snapshot
from slipway.core.planner.plan import plan
from slipway.devcluster.native.simulated import node_object
from slipway.devcluster.spec import ClusterSpec
from tests.bench.records import Record
from tests.bench.systems import Shape
from tests.bench.workloads.base import tpu_nodes
from tests.core.build import World

SHAPE = Shape(1, "v5litepod-256")
HOSTS: Final = 4096
WORKLOAD: Final = f"plan {HOSTS}"
DECISIONS = 7


def measure() -> list[Record]:
    """Seconds of a decision on a job of many hosts.

    It begins, waits for node pools that others have, starts, runs, has lost a pod, waits for its peers to go.
    """
    slices = HOSTS // SHAPE.hosts
    record = Record(WORKLOAD, "slipway", 0, HOSTS)
    tpus = World(slices=slices, accelerator={"type": SHAPE.type}, hosts=None)
    free = _with_pools(tpus, slices)
    record.times["begins"] = _seconds(replace(free, pools=replace(free.pools, open=tuple(free.pools.nodes))), tpus)
    tpus.begin()
    for pod in tpus.all_pods():
        pod.unschedulable()
    tpus.settle()
    record.times["waiting"] = _seconds(_with_pools(tpus, slices), tpus)
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


class _Taken(Tenants):
    """Each node pool is another job's, which is not looked up among the pods of these jobs."""

    def in_pool(self, pool: str, nodes: Sequence[str], since: datetime) -> Iterable[Tenant]:
        return (Tenant("SliceJob", "ml", f"other-{pool}", f"uid-{pool}"),)


def _with_pools(world: World, slices: int) -> Snapshot:
    """What is seen of a world with as many node pools as slices, of which none is open."""
    nodes: dict[str, Node] = {}
    pools: dict[str, list[str]] = defaultdict(list)
    for one in ClusterSpec(name="plan", pools=tpu_nodes(SHAPE, slices)).nodes():
        nodes[one.name] = msgspec.convert(node_object(one, world.now.isoformat()), Node)
        pools[one.pool].append(one.name)
    known = NodePools(nodes=pools, tenants=_Taken(), tpu_pools=grouped(nodes.values(), NODE_POOL))
    return replace(world.snapshot, nodes=nodes, pools=known, settings=Settings(whole_cluster=True))


def _seconds(snapshot: Snapshot, world: World) -> float:
    taken = []
    for _ in range(DECISIONS):
        # CPU time: what else the machine does is not the planner's fault.
        start = time.process_time()
        plan(snapshot, world.now)
        taken.append(time.process_time() - start)
    return median(taken)

"""What can be seen of a cluster from outside, whether it is well or not."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from slipway.devcluster import clusters, state
from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.kubeapi import KubeApi, Object, client
from slipway.devcluster.node_objects import healthy_tpus, is_ready
from slipway.devcluster.spec import ClusterSpec, NodePlan, Pool
from slipway.devcluster.state import ClusterState


class NodeStatus(BaseModel):
    """One node, as meant and as seen."""

    name: str
    kind: str
    pool: str
    accelerator: str
    tpus: int
    healthy_tpus: int | None = None
    """Chips that the Node object offers; None when there is no Node object to see."""
    spot: bool
    state: str
    """Ready, NotReady, Preempted (taken away by us), Missing, or Unknown when the API server does not answer."""


class PoolStatus(BaseModel):
    """Node pools that one `--real` or `--simulated` asked for."""

    pools: list[str]
    kind: str
    type: str
    topology: str
    spot: bool
    slices: int
    """TPU slices: one for each node pool, and none of CPU nodes."""
    ready_slices: int
    """Slices whose nodes are all Ready."""
    nodes: int
    ready_nodes: int


class ClusterStatus(BaseModel):
    """One cluster."""

    name: str
    provider: str = "native"
    state: str
    """Running, Broken (a process ended), Unfinished (`up` was interrupted), or Unreadable."""
    server: str = ""
    kubeconfig: Path | None = None
    folder: Path
    processes: dict[str, bool] = {}
    pools: list[PoolStatus] = []
    nodes: list[NodeStatus] = []


def of(name: str) -> ClusterStatus:
    """Look at one cluster."""
    folder = state.cluster_dir(name)
    try:
        found = state.load(name)
    except LocalClusterError:
        return ClusterStatus(name=name, state="Unreadable", folder=folder)
    if found is None:
        if folder.is_dir():
            return ClusterStatus(name=name, state="Unfinished", folder=folder)
        raise state.not_found(name)
    alive = clusters.provider(found.provider).alive(found)
    running = found.phase == "running"
    nodes = _nodes(found) if running else []
    word = "Unfinished" if not running else "Running" if alive and all(alive.values()) else "Broken"
    return ClusterStatus(
        name=name,
        provider=found.provider,
        state=word,
        server=found.server,
        kubeconfig=found.kubeconfig if running else None,
        folder=folder,
        processes=alive,
        pools=_pools(found.spec, nodes) if running else [],
        nodes=nodes,
    )


def _nodes(found: ClusterState) -> list[NodeStatus]:
    seen = _seen(client(found, timeout=5.0))
    return [
        NodeStatus(
            name=plan.name,
            kind=plan.kind,
            pool=plan.pool,
            accelerator=plan.labels.get("cloud.google.com/gke-tpu-accelerator", ""),
            tpus=plan.tpus,
            healthy_tpus=healthy_tpus(seen[plan.name]) if seen and plan.name in seen else None,
            spot="cloud.google.com/gke-spot" in plan.labels,
            state=_state(plan, found, seen),
        )
        for plan in found.spec.nodes()
    ]


def _pools(spec: ClusterSpec, nodes: list[NodeStatus]) -> list[PoolStatus]:
    ready = {node.name for node in nodes if node.state == "Ready"}
    return [_pool(pool, plans, ready) for pool, plans in spec.by_pool()]


def _pool(pool: Pool, plans: list[NodePlan], ready: set[str]) -> PoolStatus:
    names = list(dict.fromkeys(plan.pool for plan in plans))
    broken = {plan.pool for plan in plans if plan.name not in ready}
    shape = pool.shape
    return PoolStatus(
        pools=names,
        kind=pool.kind,
        type=shape.type if shape else pool.type,
        topology=shape.topology if shape else "",
        spot=pool.spot,
        slices=len(names) if shape else 0,
        ready_slices=len(names) - len(broken) if shape else 0,
        nodes=len(plans),
        ready_nodes=sum(plan.name in ready for plan in plans),
    )


def _seen(api: KubeApi) -> dict[str, Object] | None:
    """Return the Node objects by name; None when the API server does not answer."""
    try:
        # A list from the server's cache is cheap and fresh enough.
        items = api.get("/api/v1/nodes?resourceVersion=0")["items"]
    except LocalClusterError:
        return None
    finally:
        api.close()
    return {node["metadata"]["name"]: node for node in items}


def _state(plan: NodePlan, found: ClusterState, seen: dict[str, Object] | None) -> str:
    if seen is None:
        return "Unknown"
    if plan.name not in seen:
        return "Preempted" if plan.name in found.away else "Missing"
    return "Ready" if is_ready(seen[plan.name]) else "NotReady"

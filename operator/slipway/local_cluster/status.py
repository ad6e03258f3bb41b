"""What can be seen of a cluster from outside, whether it is well or not."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from slipway.local_cluster import controlplane, state
from slipway.local_cluster.errors import LocalClusterError
from slipway.local_cluster.kubeapi import KubeApi, Object
from slipway.local_cluster.nodes import is_ready
from slipway.local_cluster.spec import NodePlan
from slipway.local_cluster.state import ClusterState


class NodeStatus(BaseModel):
    """One node, as meant and as seen."""

    name: str
    kind: str
    pool: str
    accelerator: str
    tpus: int
    spot: bool
    state: str
    """Ready, NotReady, Preempted (taken away by us), Missing, or Unknown when the API server does not answer."""


class ClusterStatus(BaseModel):
    """One cluster."""

    name: str
    state: str
    """Running, Broken (a process ended), Unfinished (`up` was interrupted), or Unreadable."""
    server: str = ""
    kubeconfig: Path | None = None
    folder: Path
    processes: dict[str, bool] = {}
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
        raise LocalClusterError(f"There is no cluster {name!r}.", hint="`slipway cluster status` lists all clusters.")
    alive = {process: record.alive() for process, record in found.processes.items()}
    running = found.phase == "running"
    word = "Unfinished" if not running else "Running" if alive and all(alive.values()) else "Broken"
    return ClusterStatus(
        name=name,
        state=word,
        server=found.server,
        kubeconfig=found.kubeconfig if running else None,
        folder=folder,
        processes=alive,
        nodes=_nodes(found) if running else [],
    )


def _nodes(found: ClusterState) -> list[NodeStatus]:
    seen = _seen(controlplane.client(found, timeout=5.0))
    return [
        NodeStatus(
            name=plan.name,
            kind=plan.kind,
            pool=plan.pool,
            accelerator=plan.labels.get("cloud.google.com/gke-tpu-accelerator", ""),
            tpus=plan.tpus,
            spot="cloud.google.com/gke-spot" in plan.labels,
            state=_state(plan, found, seen),
        )
        for plan in found.spec.nodes()
    ]


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

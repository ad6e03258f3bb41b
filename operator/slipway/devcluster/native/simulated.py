"""Simulated nodes: Node objects that kwok keeps alive and whose pods it moves through their phases."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from slipway.devcluster.kubeapi import KubeApi, Object, in_parallel
from slipway.devcluster.native.addresses import Addresses
from slipway.devcluster.programs.components import KUBERNETES
from slipway.devcluster.spec import KIND_LABEL, TPU_RESOURCE, NodePlan
from slipway.devcluster.state import ClusterState

EXIT_CODE = "slipway.dev/simulated-exit-code"
"""Annotation of a pod: its containers end with this code. Set it at creation or later."""
RUN_FOR = "slipway.dev/simulated-run-for"
"""Annotation of a pod: how long its containers run before they end with the code above, such as `2s`."""
STOP_AFTER = "slipway.dev/simulated-stop-after"
"""Annotation of a pod: how long its containers take to stop when it is deleted, such as `5s`; default at once."""

_TPU_HOST = {"cpu": "208", "memory": "448Gi", "ephemeral-storage": "500Gi", "pods": "110"}
_CPU_HOST = {"cpu": "32", "memory": "128Gi", "ephemeral-storage": "500Gi", "pods": "110"}


def command(state: ClusterState, addresses: Addresses) -> list[str]:
    """Write kwok's stages and return its command line."""
    stages = state.folder / "kwok.yaml"
    stages.write_text((Path(__file__).parent / "stages.yaml").read_text())
    return [
        str(state.binaries["kwok"]),
        f"--kubeconfig={state.folder / 'pki' / 'kwok.kubeconfig'}",
        f"--config={stages}",
        "--manage-all-nodes=false",
        f"--manage-nodes-with-label-selector={KIND_LABEL}=simulated",
        f"--cidr={addresses.simulated_pods}",
        f"--node-ip={addresses.simulated_node}",
        "--v=WARN",
        f"--node-lease-duration-seconds={state.spec.lease_seconds}",
    ]


def create(api: KubeApi, nodes: list[NodePlan]) -> None:
    """Create the Node objects, ready from the start, many at a time."""
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    in_parallel(lambda node: api.create("/api/v1/nodes", node), (node_object(plan, now) for plan in nodes))


def node_object(plan: NodePlan, now: str) -> Object:
    """Return the Node that stands for a simulated machine."""
    capacity = {**_TPU_HOST, TPU_RESOURCE: str(plan.tpus)} if plan.tpus else _CPU_HOST
    times = {"lastHeartbeatTime": now, "lastTransitionTime": now}
    pressures = ("MemoryPressure", "DiskPressure", "PIDPressure")
    conditions = [
        {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "simulated", **times},
        *({"type": kind, "status": "False", "reason": "Simulated", **times} for kind in pressures),
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": plan.name, "labels": plan.labels, "annotations": {"kwok.x-k8s.io/node": "fake"}},
        "spec": {"taints": plan.taints},
        "status": {
            "phase": "Running",
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": conditions,
            "addresses": [{"type": "Hostname", "address": plan.name}],
            "nodeInfo": _node_info(),
        },
    }


def _node_info() -> dict[str, str]:
    fields = ("bootID", "machineID", "systemUUID", "kernelVersion", "osImage", "kubeProxyVersion")
    known = {"containerRuntimeVersion": "kwok", "kubeletVersion": f"v{KUBERNETES}"}
    return {**dict.fromkeys(fields, "simulated"), **known, "operatingSystem": "linux", "architecture": "amd64"}


def silence(api: KubeApi, node: str) -> None:
    """Let kwok forget a node: its lease runs out and it turns NotReady, while its pods stay as they are."""
    _relabel(api, node, "silent")


def speak(api: KubeApi, node: str) -> None:
    """Undo `silence`."""
    _relabel(api, node, "simulated")


def _relabel(api: KubeApi, node: str, value: str) -> None:
    api.call("PATCH", f"/api/v1/nodes/{node}", {"metadata": {"labels": {KIND_LABEL: value}}})

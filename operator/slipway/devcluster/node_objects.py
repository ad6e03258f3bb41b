"""Node objects of a cluster, whatever made the machines."""

from datetime import UTC, datetime

from slipway.devcluster.kubeapi import KubeApi, Object
from slipway.devcluster.spec import TPU_RESOURCE


def is_ready(node: Object | None) -> bool:
    """Whether a Node object says that it is Ready."""
    conditions = (node or {}).get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def announce(api: KubeApi, node: str) -> None:
    """Taint a node as GKE does shortly before its machine is taken."""
    path = f"/api/v1/nodes/{node}"
    taint = {"key": "cloud.google.com/impending-node-termination", "effect": "NoSchedule"}
    taints = [*api.get(path).get("spec", {}).get("taints", []), taint]
    api.call("PATCH", path, {"spec": {"taints": taints}})


def delete(api: KubeApi, node: str) -> None:
    """Delete the Node object of a dead machine as a cloud does: its status says first that the kubelet is silent."""
    path, now = f"/api/v1/nodes/{node}", datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    silent = {"status": "Unknown", "reason": "NodeStatusUnknown", "message": "Kubelet stopped posting node status."}
    condition = {"type": "Ready", "lastTransitionTime": now, "lastHeartbeatTime": now, **silent}
    if api.find(path) is not None:
        api.call("PATCH", f"{path}/status", {"status": {"conditions": [condition]}}, "strategic-merge")
        api.delete(path)


def healthy_tpus(node: Object | None) -> int:
    """Return how many healthy chips a Node object says that the machine has."""
    return int((node or {}).get("status", {}).get("allocatable", {}).get(TPU_RESOURCE, 0))

"""Pods, nodes and jobs as the API server shows them."""

from collections.abc import Callable
from typing import Any

import msgspec

from slipway.api.profile import ProfileSpec
from slipway.controller.seen.jobs import JobStore
from slipway.controller.seen.profiles import ProfileStore
from slipway.core.model.nodes import Node
from slipway.core.model.pods import Pod


def job_store(clock: Callable[[], float]) -> JobStore:
    return JobStore(clock, ProfileStore(clock, ProfileSpec()))


def pod_json(name: str = "train-0-0-0", version: int = 1, uid: str = "", **parts: Any) -> dict[str, Any]:
    attempt, slice_index, host = name.rsplit("-", 3)[1:]
    metadata = {
        "name": name,
        "namespace": parts.get("namespace", "ns"),
        "uid": uid or f"uid-{name}",
        "resourceVersion": str(version),
        "ownerReferences": [{"uid": parts.get("owner", parts.get("job_uid", "job-1"))}],
        "labels": {
            "slipway.dev/job-name": parts.get("job", "train"),
            "slipway.dev/job-uid": parts.get("job_uid", "job-1"),
            "slipway.dev/attempt": attempt,
            "slipway.dev/slice": slice_index,
            "slipway.dev/host": host,
            "slipway.dev/node-pool": parts.get("pool", ""),
        },
    }
    if parts.get("going"):
        metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 5}
    spec = {"nodeName": parts["node"]} if "node" in parts else {}
    status: dict[str, Any] = {"phase": parts.get("phase", "Running" if parts.get("runs") else "Pending")}
    if parts.get("runs"):
        status["containerStatuses"] = [{"name": "worker", "state": {"running": {"startedAt": "2026-01-01T00:00:01Z"}}}]
    return {"metadata": metadata, "spec": spec, "status": status}


def pod(name: str = "train-0-0-0", version: int = 1, uid: str = "", **parts: Any) -> Pod:
    return msgspec.convert(pod_json(name, version, uid, **parts), Pod)


def node_json(name: str = "n1", version: int = 1, uid: str = "", ready: str = "True", **parts: Any) -> dict[str, Any]:
    labels = parts.get("labels", {"cloud.google.com/gke-nodepool": parts["pool"]} if "pool" in parts else {})
    return {
        "metadata": {"name": name, "uid": uid or f"uid-{name}", "resourceVersion": str(version), "labels": labels},
        "spec": {"taints": parts.get("taints", []), "unschedulable": parts.get("unschedulable", False)},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }


def node(name: str = "n1", version: int = 1, uid: str = "", ready: str = "True", **parts: Any) -> Node:
    return msgspec.convert(node_json(name, version, uid, ready, **parts), Node)


def job_json(
    version: int = 1, generation: int = 1, uid: str = "job-1", name: str = "train", **parts: Any
) -> dict[str, Any]:
    return {
        "apiVersion": "slipway.dev/v1alpha1",
        "kind": "SliceJob",
        "metadata": {
            "name": name,
            "namespace": "ns",
            "uid": uid,
            "generation": generation,
            "resourceVersion": str(version),
            "creationTimestamp": "2026-01-01T00:00:00Z",
        },
        "spec": parts.get("spec", {"image": "busybox", "hosts": 2}),
        "status": parts.get("status", {}),
    }


class Time:
    """A clock that stands still until it is told to move."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now

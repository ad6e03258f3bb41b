"""Objects and looks at the machine that several tests share."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from slipway.devcluster import BUSYBOX_IMAGE, NativeCluster
from slipway.devcluster.node_objects import is_ready
from slipway.devcluster.processes import children, wait_until
from tests.waiting import START_SECONDS


def pod(name: str, command: str = "sleep 3600", tpus: int = 0, **extra: Any) -> dict[str, Any]:
    """A pod of one busybox container, on a node with so many TPUs."""
    metadata = extra.pop("metadata", {})
    limits = {**({"google.com/tpu": str(tpus)} if tpus else {}), **extra.pop("limits", {})}
    container = {
        "name": "worker",
        "image": BUSYBOX_IMAGE,
        "command": ["sh", "-c", command],
        "resources": {"limits": limits},
        **extra.pop("container", {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, **metadata},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 1,
            "tolerations": [
                {"key": key, "operator": "Exists"} for key in ("google.com/tpu", "cloud.google.com/gke-spot")
            ],
            "containers": [container],
            **extra,
        },
    }


def create(cluster: NativeCluster, *objects: dict[str, Any]) -> None:
    """Create objects in the default namespace."""
    for each in objects:
        kind = "services" if each["kind"] == "Service" else "pods"
        cluster.api().call("POST", f"/api/v1/namespaces/default/{kind}", each)


def read(cluster: NativeCluster, name: str) -> dict[str, Any] | None:
    """Read a pod; None when it is gone."""
    return cluster.api().find(f"/api/v1/namespaces/default/pods/{name}")


def phase(cluster: NativeCluster, name: str) -> str:
    """Return a pod's phase, or `gone`."""
    found = read(cluster, name)
    return found["status"]["phase"] if found else "gone"


def await_phase(cluster: NativeCluster, name: str, *wanted: str, timeout: float = START_SECONDS) -> None:
    """Wait for a pod's phase; on a timeout say what is the matter with the pod."""
    if not wait_until(lambda: phase(cluster, name) in wanted, timeout, 0.1):
        raise AssertionError(
            f"{name} is not {wanted}: {json.dumps((read(cluster, name) or {}).get('status'), indent=1)}"
        )


def node(cluster: NativeCluster, name: str) -> dict[str, Any] | None:
    """Read a node; None when it is gone."""
    return cluster.api().find(f"/api/v1/nodes/{name}")


def ready(cluster: NativeCluster, name: str) -> bool:
    """Whether a node is Ready."""
    return is_ready(node(cluster, name))


def namespaces_of(cluster: NativeCluster) -> set[str]:
    """Return the kernel namespaces that the cluster's processes live in and the machine's own do not."""
    found: set[str] = set()
    for record in cluster.state.processes.values():
        for pid in (record.pid, *children(record.pid)):
            found |= _namespaces(pid)
    return found - _namespaces(os.getpid())


def _namespaces(pid: int) -> set[str]:
    try:
        return {str(link.readlink()) for link in Path(f"/proc/{pid}/ns").iterdir()}
    except OSError:
        return set()


def inhabitants(namespaces: set[str]) -> list[int]:
    """Return the processes that live in any of the namespaces."""
    pids = [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]
    return [pid for pid in pids if _namespaces(pid) & namespaces]


def machine() -> dict[str, str]:
    """Return what a cluster might leave behind on the machine and nobody else changes meanwhile."""
    return {
        "mounts": Path("/proc/self/mounts").read_text(),
        "iptables": _output("iptables-save"),
        "addresses": _output("ip", "-4", "-o", "addr", "show", "dev", "lo"),
        "named network namespaces": _output("ip", "netns"),
    }


def _output(*command: str) -> str:
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return "".join(line for line in text.splitlines(keepends=True) if not line.startswith("#"))

"""A real node is taken away and comes back."""

from __future__ import annotations

from typing import Any

from slipway.local_cluster import NativeCluster
from slipway.local_cluster.processes import wait_until
from tests.waiting import PATIENCE

from .conftest import LONELY, ON_LONELY
from .helpers import await_phase, create, node, phase, pod, read, ready


def test_a_preempted_node_takes_its_pods_along(real: NativeCluster, preempted: str) -> None:
    assert wait_until(lambda: bool(_disruption(real, "victim")), PATIENCE, 0.5)
    assert _disruption(real, "victim")["reason"] == "DeletionByPodGC"
    assert phase(real, "victim") == "Failed"
    real.kubectl("patch", "pod", "victim", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await_phase(real, "victim", "gone")


def test_a_restored_node_is_another_machine_that_accepts_pods(real: NativeCluster, preempted: str) -> None:
    real.restore(LONELY)
    # It may have been silent for a while on a busy machine.
    assert wait_until(lambda: ready(real, LONELY), PATIENCE, 0.2)
    after = node(real, LONELY)
    assert after is not None
    assert after["metadata"]["uid"] != preempted
    assert after["status"]["allocatable"]["google.com/tpu"] == "4"
    create(real, pod("successor", "echo back", 4, nodeSelector=ON_LONELY))
    await_phase(real, "successor", "Succeeded")


def _disruption(cluster: NativeCluster, name: str) -> dict[str, Any]:
    conditions = (read(cluster, name) or {}).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "DisruptionTarget"), {})

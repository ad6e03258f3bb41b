"""A real node is taken away and comes back."""

from __future__ import annotations

from typing import Any

import pytest

from slipway.devcluster import NativeCluster
from slipway.devcluster.processes import wait_until
from tests.devcluster.conftest import LONELY, ON_LONELY
from tests.devcluster.helpers import await_phase, create, node, phase, pod, read, ready
from tests.waiting import START_SECONDS

pytestmark = pytest.mark.thorough


def test_a_preempted_node_takes_its_pods_along(own_nodes: NativeCluster, preempted: str) -> None:
    assert wait_until(lambda: bool(_disruption(own_nodes, "victim")), START_SECONDS, 0.5)
    assert _disruption(own_nodes, "victim")["reason"] == "DeletionByPodGC"
    assert phase(own_nodes, "victim") == "Failed"
    own_nodes.kubectl("patch", "pod", "victim", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    await_phase(own_nodes, "victim", "gone")


def test_a_restored_node_is_another_machine_that_accepts_pods(own_nodes: NativeCluster, preempted: str) -> None:
    own_nodes.restore(LONELY)
    # It may have been silent for a while on a busy machine.
    assert wait_until(lambda: ready(own_nodes, LONELY), START_SECONDS, 0.2)
    after = node(own_nodes, LONELY)
    assert after is not None
    assert after["metadata"]["uid"] != preempted
    assert after["status"]["allocatable"]["google.com/tpu"] == "4"
    create(own_nodes, pod("successor", "echo back", 4, nodeSelector=ON_LONELY))
    await_phase(own_nodes, "successor", "Succeeded")


def _disruption(cluster: NativeCluster, name: str) -> dict[str, Any]:
    conditions = (read(cluster, name) or {}).get("status", {}).get("conditions", [])
    return next((each for each in conditions if each["type"] == "DisruptionTarget"), {})

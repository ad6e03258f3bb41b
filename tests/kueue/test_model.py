"""A running Kueue holds the cases of the simulation's model: Workloads alone, without an operator."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from slipway.devcluster import NativeCluster
from tests.kubectl import Kubectl
from tests.kueue.cases import CASES, QUOTA, Place, given_back, is_so
from tests.kueue.queues import GROUP
from tests.kueue.server import Server
from tests.waiting import START_SECONDS, until

pytestmark = pytest.mark.thorough

WAIT_SECONDS = START_SECONDS


class Running:
    """A queue of a real Kueue."""

    def __init__(self, kubectl: Kubectl, server: Server) -> None:
        self._kubectl, self._server, self._name = kubectl, server, kubectl.namespace
        quota = {"coveredResources": ["pods"], "flavors": [{"name": self._name, "resources": [_quota()]}]}
        self._apply("ResourceFlavor", self._name, {})
        preemption = {"withinClusterQueue": "LowerPriority"}
        queue = {"namespaceSelector": {}, "preemption": preemption, "resourceGroups": [quota]}
        self._apply("ClusterQueue", self._name, queue)
        self._policy("None")

    def submit(self, name: str, priority: int = 0) -> None:
        pod = {"restartPolicy": "Never", "containers": [{"name": "worker", "image": "slipway.local/busybox:1"}]}
        pod_sets = [{"name": "slice", "count": QUOTA, "template": {"spec": pod}}]
        self._apply("Workload", name, {"queueName": "tpu", "priority": priority, "active": True, "podSets": pod_sets})

    def until(self, name: str, kind: str, status: str, reason: str, words: str = "") -> None:
        wanted = f"{name} is {kind}={status} {reason} {words}"
        until(wanted, lambda: is_so(self._condition(name, kind), status, reason, words), seconds=WAIT_SECONDS)

    def holds(self, name: str, kind: str) -> bool:
        return bool(self._condition(name, kind).get("status") == "True")

    def message(self, name: str, kind: str) -> str:
        return str(self._condition(name, kind)["message"])

    def release(self, name: str, requeued: str) -> None:
        conditions = self._workload(name)["status"]["conditions"]
        kept = given_back(conditions, requeued, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"))
        self._patch("workload", name, {"status": {"conditions": kept, "admission": None}}, "--subresource=status")

    def delete(self, name: str) -> None:
        self._patch("workload", name, {"metadata": {"finalizers": None}})
        self._kubectl("delete", "workloads.kueue.x-k8s.io", name)

    def set_active(self, name: str, active: bool) -> None:
        self._patch("workload", name, {"spec": {"active": active}})

    def stop(self) -> None:
        self._policy("HoldAndDrain")

    def start(self) -> None:
        self._policy("None")

    @contextmanager
    def impatient(self) -> Iterator[None]:
        self._server.stop()
        self._server.start(
            waitForPodsReady={"timeout": "3s", "requeuingStrategy": {"backoffBaseSeconds": 20, "timestamp": "Eviction"}}
        )
        try:
            yield
        finally:
            self._server.stop()
            self._server.start()

    def _policy(self, policy: str) -> None:
        self._apply("LocalQueue", "tpu", {"clusterQueue": self._name, "stopPolicy": policy})

    def _workload(self, name: str) -> Any:
        return self._kubectl.get("workloads.kueue.x-k8s.io", name)

    def _condition(self, name: str, kind: str) -> dict[str, Any]:
        found = self._workload(name).get("status", {}).get("conditions", ())
        return next((one for one in found if one["type"] == kind), {})

    def _apply(self, kind: str, name: str, spec: dict[str, Any]) -> None:
        self._kubectl.apply({"apiVersion": GROUP, "kind": kind, "metadata": {"name": name}, "spec": spec})

    def _patch(self, what: str, name: str, body: dict[str, Any], *options: str) -> None:
        self._kubectl("patch", f"{what}s.kueue.x-k8s.io", name, "--type=merge", "-p", json.dumps(body), *options)


def _quota() -> dict[str, Any]:
    return {"name": "pods", "nominalQuota": QUOTA}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_a_real_kueue_holds(
    case: Callable[[Place], None],
    kueue: Server,
    kueue_cluster: NativeCluster,
    namespace_of: Callable[[NativeCluster], Kubectl],
) -> None:
    case(Running(namespace_of(kueue_cluster), kueue))

"""What a pod says of its host, in a word."""

from typing import Any

import pytest

from slipway.api.places import HEAD, worker
from slipway.client.host_states import hosts


def pod(phase: str, ended: int | None = None, *, node: str = "n", **metadata: Any) -> dict[str, Any]:
    state = {} if ended is None else {"terminated": {"exitCode": ended}}
    status = {"phase": phase, "containerStatuses": [{"name": "worker", "state": state}]}
    spec = {"nodeName": node} if node else {}
    return {"metadata": {"name": "train-0-0-1"} | metadata, "spec": spec, "status": status}


STATES = {
    "no node": (pod("Pending", node=""), "Unscheduled"),
    "its image is pulled": (pod("Pending"), "Starting"),
    "it runs": (pod("Running"), "Running"),
    "its worker has ended, a sidecar runs": (pod("Running", 0), "Succeeded"),
    "its worker has failed, a sidecar runs": (pod("Running", 3), "Failed"),
    "it is being deleted": (pod("Running", deletionTimestamp="2026-11-23T12:00:00Z"), "Terminating"),
    "it failed before it was deleted": (pod("Failed", 1, deletionTimestamp="2026-11-23T12:00:00Z"), "Failed"),
    "it succeeded": (pod("Succeeded", 0), "Succeeded"),
}


@pytest.mark.parametrize(("found", "word"), STATES.values(), ids=STATES)
def test_a_host_is_in_a_state(found: dict[str, Any], word: str) -> None:
    assert hosts("train", [found]) == {worker(0, 1): word}


def test_only_pods_of_hosts_count() -> None:
    others = [pod("Running", name=name) for name in ("train-0-head", "train-0-1-0", "trainer-0-0-0", "train")]
    assert hosts("train", others) == {HEAD: "Running", worker(1, 0): "Running"}

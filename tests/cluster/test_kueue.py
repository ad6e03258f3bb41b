"""What is known of Kueue for one job: quota that it may have beside its own."""

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from slipway.cluster.kueue import KueueStore
from slipway.cluster.watch import Applied
from slipway.planner.kueue_objects import Workload
from slipway.planner.kueue_queues import ClusterQueue, LocalQueue

KEY = ("ml", "train")
TPU = "google.com/tpu"


def local(name: str, active: str = "True") -> dict[str, Any]:
    status = {"conditions": [{"type": "Active", "status": active}]}
    return {"metadata": {"name": name, "namespace": "ml"}, "spec": {"clusterQueue": name}, "status": status}


def store(queue: str, active: str, attempt: str) -> KueueStore:
    """A job with quota of a queue; another queue has less unused quota."""
    known = KueueStore(lambda: 0.0)
    for name, quota, is_active in (("own", 48, active), ("other", 16, "True")):
        resources = [{"name": TPU, "nominalQuota": quota}]
        groups = [{"flavors": [{"name": "v5e", "resources": resources}], "coveredResources": [TPU]}]
        body: dict[str, Any] = {"metadata": {"name": name}, "spec": {"resourceGroups": groups}}
        known.cluster_queues.observe(Applied(msgspec.convert(body, ClusterQueue)))
        known.local_queues.observe(Applied(msgspec.convert(local(name, is_active), LocalQueue)))
    labels = {"slipway.dev/job-name": "train", "slipway.dev/job-uid": "1", "slipway.dev/attempt": attempt}
    about = {"name": "slicejob-train", "namespace": "ml", "labels": {key: one for key, one in labels.items() if one}}
    admitted = {"conditions": [{"type": "Admitted", "status": "True"}]}
    workload = {"metadata": about, "spec": {"queueName": queue}, "status": admitted}
    known.workloads.observe(Applied(msgspec.convert(workload, Workload)))
    return known


@pytest.mark.parametrize(
    ("queue", "active", "attempt", "unused"),
    [
        pytest.param("own", "True", "0", 48, id="its own queue"),
        pytest.param("own", "False", "0", None, id="its LocalQueue is stopped"),
        pytest.param("other", "True", "0", None, id="its quota is of another queue than its label names"),
        pytest.param("own", "True", "", None, id="it has no choice of numbers"),
    ],
)
def test_quota_that_a_job_may_have_beside_its_own(queue: str, active: str, attempt: str, unused: int | None) -> None:
    found = store(queue, active, attempt).of(KEY, "own").unused
    assert found == ({("v5e", TPU): Decimal(unused)} if unused is not None else {})

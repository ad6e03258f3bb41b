"""A cluster whose Kueue has v1beta1 alone: its real CRDs without v1beta2, and the test in the role of Kueue.

Nothing of a running Kueue may be on the cluster yet, so these tests come before the others of this folder.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway.controller.seen.kueue_watches import AGAIN_SECONDS
from slipway.devcluster import NativeCluster
from tests.chart.rights import jobs_by_the_chart
from tests.clusters import kubectl_for
from tests.kubectl import Kubectl
from tests.kueue.program import manifests
from tests.kueue.queues import CHIPS, GROUP, Queues
from tests.kueue.server import Server
from tests.kueue.test_kueue import end_pods, patch
from tests.waiting import START_SECONDS, pause

pytestmark = pytest.mark.thorough

V1 = "v1beta1"
PLURALS = ("workloads", "localqueues", "clusterqueues", "resourceflavors", "workloadpriorityclasses")
NAMES = [f"{plural}.kueue.x-k8s.io" for plural in PLURALS]


def only_v1(crd: dict[str, Any]) -> dict[str, Any]:
    """A CRD as a Kueue would have it that has never heard of a later version."""
    [version] = [one for one in crd["spec"]["versions"] if one["name"] == V1]
    own = {"versions": [version | {"storage": True}], "conversion": {"strategy": "None"}}
    return crd | {"spec": crd["spec"] | own}


def crds_of(bodies: list[Any]) -> list[Any]:
    """The CRDs of the kinds among what an installation applies, that of Workloads first."""
    found = {body["metadata"]["name"]: body for body in bodies}
    return [found[name] for name in NAMES]


@pytest.fixture
def older_queues(
    kueue_cluster: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl], tmp_path: Path
) -> Iterator[Queues]:
    """Queues that only the test gives quota from."""
    admin, kubectl = kubectl_for(kueue_cluster, "default"), namespace_of(kueue_cluster)
    crds = [only_v1(body) for body in crds_of(manifests(admin.program))]
    admin("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump_all(crds))
    try:
        admin.until_established(*NAMES)
        for jobs in jobs_by_the_chart(kueue_cluster, kubectl, tmp_path, seconds=START_SECONDS):
            yield Queues(jobs, Server(kueue_cluster, admin, tmp_path), f"kueue.x-k8s.io/{V1}")
    finally:
        # The CRDs would wait for ever for what an operator that has ended did not let go.
        for name in kubectl("get", NAMES[0], "-o", "name", check=False).stdout.split():
            kubectl("patch", name, "--type=merge", "-p", '{"metadata": {"finalizers": null}}', check=False)
        admin("delete", "crds", *NAMES)


def with_both(crd: dict[str, Any], *, converts: bool = True) -> dict[str, Any]:
    """A CRD with both versions, between which the API server converts without asking Kueue, or nobody yet."""
    conversion: dict[str, Any] = {"strategy": "None"}
    if not converts:
        client = {"url": "https://127.0.0.1:1/convert"}
        conversion = {"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"], "clientConfig": client}}
    return crd | {"spec": crd["spec"] | {"conversion": conversion}}


def answer(queues: Queues, admission: Any = None, **conditions: tuple[str, str]) -> None:
    """Write status and reason of conditions as Kueue does, with an admission where one is given."""
    known = queues.workload().get("status", {}).get("conditions", ())
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    written = [one for one in known if one["type"] not in conditions] + [
        {"type": kind, "status": status, "reason": reason, "message": "said by Kueue", "lastTransitionTime": now}
        for kind, (status, reason) in conditions.items()
    ]
    body = {"status": {"conditions": written} | ({"admission": admission} if admission else {})}
    patch(queues, "workloads.kueue.x-k8s.io", "slicejob-train", body, "--subresource=status")


def admit(queues: Queues) -> None:
    """Give the job what it asks for."""
    given = {"name": "slice", "count": 4, "flavors": {"google.com/tpu": queues.name}}
    given["resourceUsage"] = {"google.com/tpu": str(CHIPS)}
    admission = {"clusterQueue": queues.name, "podSetAssignments": [given]}
    conditions = {kind: ("True", kind) for kind in ("QuotaReserved", "Admitted")}
    answer(queues, admission, **conditions, Evicted=("False", "QuotaReserved"))


def test_a_job_is_admitted_evicted_admitted_again_and_finished(older_queues: Queues) -> None:
    queues, jobs = older_queues, older_queues.jobs
    queues.open(CHIPS)
    queues.submit(priority="high")
    jobs.until_true("a Workload", queues.workload)
    asked = queues.workload()
    assert asked["apiVersion"] == f"kueue.x-k8s.io/{V1}"
    assert (asked["spec"]["queueName"], asked["spec"]["podSets"][0]["count"]) == ("tpu", 4)
    source = "kueue.x-k8s.io/workloadpriorityclass"
    assert priority_of(queues) == {"priority": 1000, "priorityClassName": "high", "priorityClassSource": source}
    jobs.until("Queued")
    assert not jobs.pods()
    admit(queues)
    jobs.until("Running")
    for pod in jobs.pods():
        assert pod["spec"]["nodeSelector"]["cloud.google.com/gke-spot"] == "true"
        assert {"key": "example.com/flavor", "operator": "Exists"} in pod["spec"]["tolerations"]
    queues.until_condition("PodsReady")
    answer(queues, Evicted=("True", "Preempted"), Preempted=("True", "InClusterQueue"))
    queues.until_condition("QuotaReserved", "False")
    assert not jobs.pods()
    assert "admission" not in queues.workload()["status"]
    assert queues.conditions() == {
        "QuotaReserved": ("False", "Pending"),
        "Admitted": ("False", "NoReservation"),
        "Requeued": ("True", "Preempted"),
        "PodsReady": ("False", "WaitForStart"),
        "Evicted": ("True", "Preempted"),
        "Preempted": ("True", "InClusterQueue"),
    }
    status = jobs.until("Queued")
    assert (status["preemptions"], status["attempts"][0]["reason"]) == (1, "PreemptedByQueue")
    queues.kubectl("label", "sj", "train", "kueue.x-k8s.io/priority-class-")
    jobs.until_true("no priority class", lambda: priority_of(queues) == {"priority": 0, "priorityClassSource": ""})
    admit(queues)
    jobs.until_attempt(1)
    end_pods(queues)
    jobs.until("Succeeded")
    queues.until_condition("Finished")
    assert queues.conditions()["Finished"] == ("True", "Succeeded")
    until_let_go(queues)


def until_let_go(queues: Queues) -> None:
    """Wait until the Workload can be deleted."""
    queues.jobs.until_true("no finalizer", lambda: "finalizers" not in queues.workload()["metadata"])


def priority_of(queues: Queues) -> dict[str, Any]:
    """The fields of a Workload that are about its priority."""
    return {key: value for key, value in queues.workload()["spec"].items() if key.startswith("priority")}


def test_a_job_goes_on_by_the_later_version_when_kueue_has_both(older_queues: Queues) -> None:
    queues, jobs = older_queues, older_queues.jobs
    queues.open(CHIPS)
    queues.submit()
    jobs.until_true("a Workload", queues.workload)
    jobs.until("Queued")
    before, accepted = queues.workload(), jobs.condition("Accepted")
    by_v2 = f"queues of Kueue are followed by {GROUP}"
    workloads, queue, *others = crds_of(manifests(queues.kubectl.program))
    apply = ("apply", "--server-side", "--force-conflicts", "-f", "-")
    # The kinds get the version one after the other, and who converts between both answers later still.
    early = [with_both(workloads, converts=False), *map(with_both, others)]
    queues.kubectl(*apply, stdin=yaml.safe_dump_all(early))
    pause(AGAIN_SECONDS + 2)
    queues.kubectl(*apply, stdin=yaml.safe_dump(with_both(queue)))
    pause(AGAIN_SECONDS + 2)
    assert not jobs.operator.said(by_v2)
    assert jobs.status()["phase"] == "Queued"
    queues.kubectl(*apply, stdin=yaml.safe_dump(with_both(workloads)))
    jobs.until_true("the later version", lambda: jobs.operator.said(by_v2))
    admit(queues)
    jobs.until("Running")
    assert queues.workload()["metadata"]["uid"] == before["metadata"]["uid"]
    assert jobs.condition("Accepted")["lastTransitionTime"] == accepted["lastTransitionTime"]
    end_pods(queues)
    jobs.until("Succeeded")
    queues.until_condition("Finished")
    until_let_go(queues)

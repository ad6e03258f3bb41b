"""The recipe of an own Workload, row by row, with a real Kueue; and what a person sees when it goes wrong."""

import asyncio
import json
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import replace
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from slipway.apiserver.access import load_access
from slipway.apiserver.connection import ApiConnection
from slipway.controller.seen import kueue
from slipway.devcluster import NativeCluster
from slipway.devcluster.native.simulated import create as create_nodes
from tests.chart.rights import access
from tests.cli.test_commands import said, slipway
from tests.clusters import jobs_of
from tests.controller.test_metrics import scrape
from tests.kubectl import Kubectl
from tests.kueue.queues import CHIPS, GROUP, SMALL, SMALL_CHIPS, TPU, Queues
from tests.running import Jobs
from tests.waiting import START_SECONDS, pause

SPEC = {"image": "slipway.local/busybox:1"} | TPU
POOL = "cloud.google.com/gke-nodepool"
TRIES = 5


def end_pods(queues: Queues, *names: str, phase: str = "Succeeded", only: int | None = None) -> None:
    """Let pods of jobs end, as kubelets would: of each job all that run, or so many."""
    names = names or ("train",)
    found = queues.kubectl.get("pods", selector=f"slipway.dev/job-name in ({','.join(names)})")["items"]
    running: dict[str, list[str]] = {name: [] for name in names}
    for pod in found:
        if pod["status"].get("phase") == "Running":
            running[pod["metadata"]["labels"]["slipway.dev/job-name"]].append(pod["metadata"]["name"])
    chosen = [pod for of_job in running.values() for pod in of_job[:only]]
    body = {"status": {"phase": phase, "containerStatuses": None}}
    queues.kubectl("patch", "pods", *chosen, "--subresource=status", "--type=merge", "-p", json.dumps(body))


def patch(queues: Queues, what: str, name: str, body: dict[str, Any], *options: str) -> None:
    queues.kubectl("patch", what, name, "--type=merge", "-p", json.dumps(body), *options)


@pytest.mark.thorough
def test_0_without_kueue_the_label_is_refused_and_the_job_begins_once_it_is_there(
    kueue_cluster: NativeCluster,
    namespace_of: Callable[[NativeCluster], Kubectl],
    tmp_path: Path,
    request: pytest.FixtureRequest,
) -> None:
    for jobs in jobs_of(namespace_of(kueue_cluster), tmp_path, seconds=START_SECONDS):
        job = {"metadata": {"name": "train", "labels": {"kueue.x-k8s.io/queue-name": "tpu"}}, "spec": SPEC}
        jobs.kubectl.apply({"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob"} | job)
        jobs.until("Invalid")
        accepted = jobs.condition("Accepted")
        assert (accepted["status"], accepted["reason"]) == ("False", "KueueNotInstalled")
        assert "metadata.labels[kueue.x-k8s.io/queue-name] 'tpu'" in accepted["message"]
        assert "install Kueue, or remove the label" in accepted["message"]
        Queues(jobs, request.getfixturevalue("kueue")).open(CHIPS)
        jobs.until("Running")


def test_1_to_4_and_9_a_job_is_admitted_runs_and_gives_its_quota_back(queues: Queues) -> None:
    queues.open(CHIPS)
    queues.submit()
    queues.jobs.until("Running")
    queues.submit("second")
    asked = queues.workload()
    [owner] = asked["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["controller"]) == ("SliceJob", True)
    assert asked["spec"]["podSets"][0]["count"] == 4
    for pod in queues.jobs.pods():
        assert "schedulingGates" not in pod["spec"]
        assert pod["spec"]["nodeSelector"]["cloud.google.com/gke-spot"] == "true"
        assert {"key": "example.com/flavor", "operator": "Exists"} in pod["spec"]["tolerations"]
    queues.until_condition("PodsReady")
    # The other waits, in Kueue's words and with what would help.
    said = queues.until_reason("WaitingForQuota", "second", words="it begins when 16 more chips are free")
    assert "insufficient unused quota for google.com/tpu" in said
    assert not queues.jobs.pods("second")
    end_pods(queues)
    queues.jobs.until("Succeeded")
    queues.jobs.until("Running", "second")
    queues.until_condition("Finished")
    assert queues.conditions()["Finished"] == ("True", "Succeeded")
    queues.jobs.until_true("no finalizer", lambda: "finalizers" not in queues.workload()["metadata"])


JOBS = [str(number) for number in range(10)]
"""So many small jobs fill their nodes."""


@pytest.mark.parametrize("restarts", [1, pytest.param(5, marks=pytest.mark.thorough)])
def test_5_a_restart_keeps_the_admission_and_writes_nothing(queues: Queues, restarts: int) -> None:
    """Of ten jobs."""
    queues.open(len(JOBS) * SMALL_CHIPS)
    names = [f"train-{one}" for one in JOBS]
    retries = {"maxFailures": 1000, "backoff": {"initialSeconds": 0}}
    queues.submit_all(dict.fromkeys(names, "tpu"), retries=retries, **SMALL)
    queues.jobs.until_all(names, "Running")
    for name in names:
        queues.until_condition("PodsReady", name=name)
    queues.until_used(len(JOBS) * SMALL_CHIPS)
    before = queues.versions()
    for attempt in range(1, restarts + 1):
        end_pods(queues, *names, phase="Failed", only=1)
        queues.jobs.until_all(names, "Running", attempt)
        assert queues.used() == len(JOBS) * SMALL_CHIPS
        assert queues.versions() == before


def until_all_run(queues: Queues, queue_of: dict[str, str], priorities: Iterable[str]) -> None:
    """Give jobs the next priority until all run.

    Kueue (0.19.2) parks a Workload whose priority was raised while it looked at it, until something else happens in the
    ClusterQueue; a change that comes later is seen.
    """
    for priority in priorities:
        there = {
            one["metadata"]["name"]: one.get("status", {}).get("phase") for one in queues.kubectl.get("sj")["items"]
        }
        waiting = {name: queue for name, queue in queue_of.items() if there.get(name) != "Running"}
        if waiting:
            queues.submit_all(waiting, priority, **SMALL)
        with suppress(AssertionError):
            queues.jobs.until_all(queue_of, "Running", seconds=START_SECONDS / 5)
            return
    queues.jobs.until_all(queue_of, "Running")


@pytest.mark.thorough
def test_6_to_8_preempted_and_back_again_without_overcommitment(queues: Queues) -> None:
    """Fifty preemptions: in each of ten queues two jobs preempt each other, five times."""
    for one in JOBS:
        queues.open(SMALL_CHIPS, local=f"tpu-{one}", name=f"{queues.name}-{one}")
    priorities = [f"{queues.name}-{value}" for value in range(6 * TRIES)]
    for value, name in enumerate(priorities):
        queues.apply("WorkloadPriorityClass", name, value=value, description="")
    lower, higher = ({f"{name}-{one}": f"tpu-{one}" for one in JOBS} for name in ("a", "b"))
    queues.submit_all(lower, priorities[0], **SMALL)
    queues.jobs.until_all(lower, "Running")
    with queues.never_more_than(SMALL_CHIPS):
        for first in range(TRIES, len(priorities), TRIES):
            until_all_run(queues, higher, priorities[first : first + TRIES])
            for preemptor, status in zip(higher, queues.jobs.until_all(lower, "Queued"), strict=True):
                assert status["attempts"][0]["reason"] == "PreemptedByQueue"
                said = f"Preempted to accommodate a workload of SliceJob {queues.name}/{preemptor} due to"
                assert said in status["attempts"][0]["message"]
            lower, higher = higher, lower
        statuses = [queues.jobs.status(name) for name in (*lower, *higher)]
        assert [sum(one[what] for one in statuses) for what in ("preemptions", "failures")] == [50, 0]
        queues.kubectl("delete", "sj", *lower)
        queues.jobs.until_all(higher, "Running")
    assert {queues.conditions(name)["Evicted"][0] for name in higher} == {"False"}


@pytest.mark.thorough
def test_fewer_slices_while_there_is_no_quota_for_more(queues: Queues) -> None:
    queues.open(2 * CHIPS)
    queues.submit("second")
    queues.jobs.until("Running", "second")
    with queues.never_more_than(2 * CHIPS):
        retries = {"capacityRetrySeconds": 1, "backoff": {"initialSeconds": 0}}
        queues.submit(slices=1, acceptableSlices=[1, 2, 3], retries=retries)
        assert queues.jobs.until("Running")["slices"] == {"requested": 3, "granted": 1, "ready": 1}
        asked = queues.workload()
        assert (asked["spec"]["podSets"][0]["count"], len(queues.jobs.pods())) == (4, 4)
        queues.until_used(2 * CHIPS)
        end_pods(queues, phase="Failed", only=1)
        queues.jobs.until_attempt(1)
        assert queues.workload()["metadata"]["uid"] == asked["metadata"]["uid"]
        queues.kubectl("delete", "sj", "second")
        queues.until_used(CHIPS)
        # The operator follows the queue by itself: when an attempt ends it may not know yet what is unused.
        attempts = count(2)
        while queues.jobs.status()["slices"]["granted"] == 1:
            end_pods(queues, phase="Failed", only=1)
            queues.jobs.until_attempt(next(attempts))
    # Three slices never fit; for two there is quota now.
    assert queues.jobs.status()["slices"] == {"requested": 3, "granted": 2, "ready": 2}
    assert queues.workload()["metadata"]["uid"] != asked["metadata"]["uid"]
    assert queues.used() <= 2 * CHIPS


@pytest.mark.thorough
def test_a_job_that_runs_gets_another_priority(queues: Queues) -> None:
    queues.open(CHIPS)
    queues.submit(priority="low")
    queues.jobs.until("Running")
    queues.kubectl("label", "sj", "train", "kueue.x-k8s.io/priority-class=high", "--overwrite")
    queues.jobs.until_true("the priority", lambda: queues.workload()["spec"]["priority"] == 1000)
    assert queues.workload()["spec"]["priorityClassRef"]["name"] == "high"
    assert queues.jobs.status()["phase"] == "Running"


@pytest.mark.parametrize("kueue_too", [False, True], ids=["the operator", "both"])
def test_7_who_is_killed_in_between_gives_nothing_out_twice(queues: Queues, kueue_too: bool) -> None:
    queues.open(CHIPS)
    queues.submit(priority="low")
    queues.jobs.until("Running")
    with queues.never_more_than(CHIPS):
        queues.jobs.operator.kill()
        queues.apply("Workload", "slicejob-urgent", spec=of_somebody_else())
        queues.until_condition("Evicted")
        assert queues.conditions()["QuotaReserved"][0] == "True"
        assert "Admitted" not in queues.conditions("urgent")
        with without_kueue(queues) if kueue_too else nullcontext():
            queues.jobs.operator.start_again()
            queues.jobs.until_true("no pods", lambda: not queues.jobs.pods())
        queues.until_condition("Admitted", name="urgent")
        queues.jobs.until("Queued")
        assert not queues.jobs.pods()
    assert queues.conditions()["Requeued"] == ("True", "Preempted")


@contextmanager
def without_kueue(queues: Queues) -> Iterator[None]:
    """While Kueue is killed."""
    queues.server.stop(at_once=True)
    try:
        yield
    finally:
        queues.server.start()


def of_somebody_else() -> dict[str, Any]:
    """A Workload of another kind of job, which asks for all chips with a high priority."""
    resources = {"requests": {"google.com/tpu": "4"}, "limits": {"google.com/tpu": "4"}}
    pods = {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a", "resources": resources}]}
    pod_sets = [{"name": "main", "count": 4, "template": {"metadata": {}, "spec": pods}}]
    return {"queueName": "tpu", "priority": 1000, "active": True, "podSets": pod_sets}


def test_6_a_workload_that_is_deactivated_waits_until_it_is_active(queues: Queues) -> None:
    queues.open(CHIPS)
    queues.submit()
    queues.jobs.until("Running")
    patch(queues, "workloads.kueue.x-k8s.io", "slicejob-train", {"spec": {"active": False}})
    said = queues.until_reason("Deactivated")
    assert "spec.active of Workload slicejob-train" in said
    queues.until_used(0)
    patch(queues, "workloads.kueue.x-k8s.io", "slicejob-train", {"spec": {"active": True}})
    status = queues.jobs.until("Running")
    assert (status["uncharged"], status["preemptions"], status["failures"]) == (1, 0, 0)


@pytest.mark.thorough
def test_6_either_queue_is_drained_and_started_again(queues: Queues) -> None:
    queues.open(CHIPS)
    queues.submit()
    queues.jobs.until("Running")
    for number, (kind, name) in enumerate((("LocalQueue", "tpu"), ("ClusterQueue", queues.name)), start=1):
        what = f"{kind.lower()}s.kueue.x-k8s.io"
        patch(queues, what, name, {"spec": {"stopPolicy": "HoldAndDrain"}})
        queues.submit("late")
        queues.until_reason(f"{kind}Stopped", words=f"it is queued again when the {kind} is started")
        queues.until_reason("QueueStopped", "late", words=f"{kind} {name} is inactive")
        queues.kubectl("delete", "sj", "late")
        patch(queues, what, name, {"spec": {"stopPolicy": "None"}})
        assert queues.jobs.until("Running")["uncharged"] == number


def test_9_a_job_that_fails_for_good_gives_its_quota_back(queues: Queues) -> None:
    queues.open(CHIPS)
    queues.submit(retries={"enabled": False})
    queues.jobs.until("Running")
    end_pods(queues, phase="Failed", only=1)
    queues.jobs.until("Failed")
    queues.until_used(0)
    assert queues.conditions()["Finished"] == ("True", "Failed")


def test_10_suspension_leaves_the_queue_and_resumption_enters_it_again(queues: Queues) -> None:
    queues.open(CHIPS)
    queues.submit()
    queues.jobs.until("Running")
    queues.submit(suspend=True)
    queues.jobs.until("Suspended")
    queues.until_gone()
    queues.until_used(0)
    queues.submit(suspend=False)
    assert queues.jobs.until("Running")["attempt"] == 1


def uid_of(queues: Queues, name: str) -> str | None:
    """The UID of the Workload of a job; None when there is none."""
    found = queues.workload(name)
    return found and str(found["metadata"]["uid"])


def finish(queues: Queues, name: str) -> None:
    """Write into the Workload of a job that it has ended."""
    conditions = queues.workload(name)["status"]["conditions"]
    ended = {"type": "Finished", "status": "True", "reason": "Succeeded", "message": "by hand"}
    ended["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    body = {"status": {"conditions": [*conditions, ended]}}
    patch(queues, "workloads.kueue.x-k8s.io", f"slicejob-{name}", body, "--subresource=status")


def test_11_a_workload_that_is_deleted_or_finished_by_somebody_else_and_a_job_that_is_deleted(queues: Queues) -> None:
    queues.open(CHIPS)
    queues.submit()
    queues.jobs.until("Running")
    queues.submit("second")
    queues.until_reason("WaitingForQuota", "second")
    # Kueue orders Workloads of one priority by the second of their creation.
    pause(1)
    first = queues.workload()["metadata"]["uid"]
    queues.kubectl("delete", "workloads.kueue.x-k8s.io", "slicejob-train")
    queues.jobs.until("Running", "second")
    queues.until_reason("WaitingForQuota")
    assert queues.workload()["metadata"]["uid"] != first
    assert queues.jobs.status()["uncharged"] == 1
    # Somebody else says that the job which runs has ended.
    first = queues.workload("second")["metadata"]["uid"]
    finish(queues, "second")
    queues.jobs.until("Running")
    queues.jobs.until_true("another Workload", lambda: uid_of(queues, "second") not in (None, first))
    [ended] = queues.jobs.status("second")["attempts"]
    assert (ended["reason"], "was finished by somebody else: by hand" in ended["message"]) == ("StoppedByQueue", True)
    # A job that waits, and one that runs.
    queues.kubectl("delete", "sj", "train")
    queues.kubectl("delete", "sj", "second")
    queues.until_gone()
    queues.until_gone("second")
    queues.until_used(0)


@pytest.mark.thorough
def test_11_a_workload_goes_although_its_job_went_while_no_operator_ran(queues: Queues) -> None:
    queues.open(CHIPS)
    queues.submit()
    queues.jobs.until("Running")
    queues.jobs.operator.kill()
    queues.kubectl("delete", "sj", "train")
    gone: dict[str, Any] = {"metadata": {"deletionTimestamp": "before"}}
    queues.jobs.until_true(
        "deletion of the Workload", lambda: "deletionTimestamp" in (queues.workload() or gone)["metadata"]
    )
    queues.jobs.operator.start_again()
    queues.until_gone()


WAITS: dict[str, tuple[dict[str, Any], str, str]] = {
    "never fits": ({"slices": 3}, "ExceedsMaxQuota", "it never fits: asks 48 chips, queue has 32"),
    "no such queue": ({"queue": "gpu"}, "LocalQueueNotFound", "LocalQueue gpu doesn't exist"),
    "a resource that the queue has not": (
        {"resources": {"requests": {"cpu": "1"}}},
        "NoMatchingFlavor",
        "the ClusterQueue has no quota for cpu",
    ),
    "other nodes": (
        {"nodeSelector": {"cloud.google.com/gke-spot": "false"}},
        "NoMatchingFlavor",
        "no flavor of the queue has nodes that the job selects",
    ),
    "a topology without node pools": (
        {"queue": "flat"},
        "TopologyPlacementFailed",
        "have the level added to the Topology of the flavor, or use another queue",
    ),
}


def open_without_node_pools(queues: Queues) -> None:
    """Make the queue `flat`, whose topology knows nodes alone."""
    name = f"{queues.name}-flat"
    queues.apply("Topology", name, spec={"levels": [{"nodeLabel": "kubernetes.io/hostname"}]})
    queues.apply("ResourceFlavor", name, spec={"nodeLabels": {POOL: "v5litepod-16-0"}, "topologyName": name})
    flavor = {"name": name, "resources": [{"name": "google.com/tpu", "nominalQuota": CHIPS}]}
    group = {"coveredResources": ["google.com/tpu"], "flavors": [flavor]}
    queues.apply("ClusterQueue", name, spec={"namespaceSelector": {}, "resourceGroups": [group]})
    queues.apply("LocalQueue", "flat", spec={"clusterQueue": name})


@pytest.mark.thorough
def test_2_why_a_job_waits_is_said_in_kueues_words_with_what_would_help(queues: Queues) -> None:
    queues.open(2 * CHIPS)
    open_without_node_pools(queues)
    for number, (fields, _, _) in enumerate(WAITS.values()):
        spec = TPU | {"accelerator": {"type": "v5litepod-16"}} if "nodeSelector" in fields else TPU
        queues.submit(f"job-{number}", **(spec | fields))
    for number, (_, reason, help_) in enumerate(WAITS.values()):
        queues.until_reason(reason, f"job-{number}", words=help_)
    assert not queues.kubectl.get("pods")["items"]
    for command in ("why", "describe"):
        shown = " ".join(said(slipway(queues.jobs, command, "job-0")).split())
        assert "ExceedsMaxQuota" in shown
        assert "it never fits: asks 48 chips, queue has 32" in shown
    # The label of another queue cures it.
    queues.kubectl("label", "sj", "job-1", "kueue.x-k8s.io/queue-name=tpu", "--overwrite")
    queues.jobs.until("Running", "job-1")


def refused(queues: Queues, name: str, reason: str) -> str:
    """Wait until a job is refused for that reason; returns the message."""

    def found() -> str:
        accepted = queues.jobs.condition("Accepted", name)
        return str(accepted["message"]) if accepted.get("reason") == reason else ""

    message = queues.jobs.until_true(f"{name} refused for {reason}", found)
    assert queues.jobs.status(name)["phase"] == "Invalid"
    assert queues.workload(name) is None
    return str(message)


@pytest.mark.thorough
def test_what_no_queue_can_take_is_refused_until_its_cause_is_gone(queues: Queues) -> None:
    queues.open(4 * CHIPS)
    queues.submit("classless", priority="hgih")
    queues.submit("nameless", queue="")
    queues.submit("misnamed", queue="TPU_1")
    label = {"kueue.x-k8s.io/queue-name": "tpu"}
    queues.submit("pods", podTemplate={"metadata": {"labels": label}})
    queues.jobs.apply("elsewhere", managedBy="kueue.x-k8s.io/multikueue", **TPU)
    assert "there is no such WorkloadPriorityClass; there are: high, low" in refused(
        queues, "classless", "PriorityClassNotFound"
    )
    assert "name a LocalQueue" in refused(queues, "nameless", "QueueNotSupported")
    assert "'TPU_1': name a LocalQueue" in refused(queues, "misnamed", "QueueNotSupported")
    assert "metadata.labels of the SliceJob" in refused(queues, "pods", "QueueNotSupported")
    assert "add it, or create the job without managedBy" in refused(queues, "elsewhere", "QueueMissing")
    queues.apply("WorkloadPriorityClass", "hgih", value=1, description="")
    try:
        for name in ("nameless", "misnamed"):
            queues.kubectl("label", "sj", name, "kueue.x-k8s.io/queue-name=tpu", "--overwrite")
        queues.submit("pods", podTemplate={"metadata": {"labels": {"team": "a"}}})
        for name in ("classless", "nameless", "misnamed", "pods"):
            queues.jobs.until("Running", name)
    finally:
        queues.kubectl("delete", "workloadpriorityclass", "hgih")


@pytest.mark.thorough
def test_7_the_quota_of_pods_that_do_not_terminate_is_nobody_elses(queues: Queues) -> None:
    queues.open(CHIPS)
    stays = {"metadata": {"annotations": {"slipway.dev/simulated-stop-after": "1h"}}}
    stays["spec"] = {"terminationGracePeriodSeconds": 1}
    queues.submit(priority="low", podTemplate=stays)
    queues.jobs.until("Running")
    [pool] = {pool for pool, _ in nodes_of(queues).values()}
    queues.submit("urgent", priority="high")
    queues.until_reason("WaitingForPreemptedWorkloads", "urgent", words=f"SliceJob {queues.name}/train")
    # One after another: the deletions are dated in whole seconds.
    queues.jobs.until_true(
        "four pods are overdue",
        lambda: "4 pod(s) have not terminated" in queues.jobs.condition("CleanupPending").get("message", ""),
    )
    assert queues.conditions()["QuotaReserved"][0] == "True"
    assert not queues.jobs.pods("urgent")
    # Somebody says that the machines are off.
    out_of_service = "node.kubernetes.io/out-of-service=shutdown:NoExecute"
    queues.kubectl("taint", "nodes", "-l", f"{POOL}={pool}", out_of_service)
    try:
        queues.jobs.until("Running", "urgent")
        assert queues.jobs.until("Queued")["preemptions"] == 1
    finally:
        queues.kubectl("taint", "nodes", "-l", f"{POOL}={pool}", f"{out_of_service}-")


@pytest.mark.thorough
def test_11_the_workload_of_a_deleted_job_stays_as_long_as_a_pod_may_run(queues: Queues) -> None:
    queues.open(CHIPS)
    queues.submit(podTemplate={"metadata": {"annotations": {"slipway.dev/simulated-stop-after": "3s"}}})
    queues.jobs.until("Running")
    queues.submit("second")
    queues.until_reason("WaitingForQuota", "second")
    with queues.never_more_than(CHIPS):
        queues.kubectl("delete", "sj", "train")
        queues.jobs.until("Running", "second")
    queues.until_gone()


def submitted_to_a_check(queues: Queues) -> str:
    """Submit a job to a queue with an admission check; returns the name of that."""
    check = queues.name
    queues.apply("AdmissionCheck", check, spec={"controllerName": "example.com/budget"})
    active = {"type": "Active", "status": "True", "reason": "Active", "message": ""}
    active["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    patch(queues, "admissionchecks.kueue.x-k8s.io", check, {"status": {"conditions": [active]}}, "--subresource=status")
    queues.open(CHIPS, admissionChecksStrategy={"admissionChecks": [{"name": check}]})
    queues.submit()
    return check


@pytest.mark.thorough
def test_2_an_admission_check_is_waited_for_and_what_it_says_is_in_the_pods(queues: Queues) -> None:
    check = submitted_to_a_check(queues)
    queues.until_reason("UnsatisfiedAdmissionChecks", words=f"{check}: Pending")
    assert not queues.jobs.pods()
    answer(queues, check, "Ready", podSetUpdates=[{"name": "slice", "labels": {"team": "a"}}])
    queues.jobs.until("Running")
    assert {pod["metadata"]["labels"]["team"] for pod in queues.jobs.pods()} == {"a"}


@pytest.mark.thorough
def test_6_a_check_that_wants_a_retry_takes_the_quota_until_it_is_ready_again(queues: Queues) -> None:
    check = submitted_to_a_check(queues)
    queues.until_reason("UnsatisfiedAdmissionChecks", words=f"{check}: Pending")
    answer(queues, check, "Ready")
    queues.jobs.until("Running")
    queues.submit("second")
    queues.until_reason("WaitingForQuota", "second")
    with queues.never_more_than(CHIPS):
        answer(queues, check, "Retry")
        # The job that waits has the quota, and its own check has said nothing yet.
        queues.until_condition("QuotaReserved", name="second")
        assert not queues.jobs.pods()
        assert queues.conditions()["Evicted"] == ("True", "AdmissionCheck")
        queues.jobs.until("Queued")
        queues.kubectl("delete", "sj", "second")
        queues.until_reason("UnsatisfiedAdmissionChecks", words=f"{check}: Pending")
        answer(queues, check, "Ready")
        status = queues.jobs.until_attempt(1)
    assert status["attempts"][1]["reason"] == "StoppedByQueue"
    assert [status[what] for what in ("uncharged", "preemptions", "failures")] == [1, 0, 0]


@pytest.mark.thorough
def test_6_a_rejected_job_is_queued_again_when_its_workload_is_active_again(queues: Queues) -> None:
    check = submitted_to_a_check(queues)
    queues.until_reason("UnsatisfiedAdmissionChecks", words=f"{check}: Pending")
    answer(queues, check, "Ready")
    queues.jobs.until("Running")
    answer(queues, check, "Rejected")
    queues.until_reason("Deactivated")
    assert queues.jobs.status()["attempts"][0]["reason"] == "StoppedByQueue"
    queues.jobs.until_true("why", lambda: queues.conditions()["Evicted"][1].startswith("DeactivatedDueTo"))
    queues.until_used(0)
    patch(queues, "workloads.kueue.x-k8s.io", "slicejob-train", {"spec": {"active": True}})
    queues.jobs.until_true("its turn", lambda: queues.conditions()["Requeued"] == ("True", "Reactivated"))
    queues.until_reason("UnsatisfiedAdmissionChecks", words=f"{check}: Pending")
    answer(queues, check, "Ready")
    queues.jobs.until("Running")


def answer(queues: Queues, check: str, state: str, **fields: Any) -> None:
    """An admission check's controller answers for the job."""
    one = {"name": check, "state": state, "message": "", "lastTransitionTime": "2026-01-01T00:00:00Z", **fields}
    body = {"status": {"admissionChecks": [one]}}
    patch(queues, "workloads.kueue.x-k8s.io", "slicejob-train", body, "--subresource=status")


@pytest.mark.thorough
def test_pods_that_kueue_gates_where_a_queue_is_named_default_are_said(queues: Queues) -> None:
    queues.open(CHIPS // 2, local="default")
    queues.kubectl.wait("localqueue/default", until="condition=Active", seconds=START_SECONDS)
    queues.jobs.apply(**TPU)
    # Kueue lets half of the pods go, one by one, and the others wait for ever.
    queues.until_reason("GatedByKueue", words="SliceJob.v1alpha1.slipway.dev")
    queues.kubectl("delete", "sj", "train")
    queues.open(CHIPS, local="default")
    # With the label Kueue counts the job, and its pods are free.
    queues.submit("queued", queue="default")
    queues.jobs.until("Running", "queued")
    assert all("schedulingGates" not in pod["spec"] for pod in queues.jobs.pods("queued"))
    queues.kubectl("delete", "sj", "queued")
    queues.until_gone("queued")
    # A Kueue that does not know SliceJobs counts the pods of such a job a second time.
    queues.server.stop()
    queues.server.start(integrations={"frameworks": ["pod"]})
    try:
        queues.submit("queued", queue="default")
        queues.until_reason("GatedByKueue", "queued", words="SliceJob.v1alpha1.slipway.dev")
    finally:
        queues.server.stop()
        queues.server.start()


@pytest.mark.thorough
def test_jobs_on_cpu_and_gpu_nodes_are_admitted_by_what_they_request(queues: Queues) -> None:
    queues.open(CHIPS)
    asked = {"cpu": "2", "memory": "1Gi"}
    quotas = {"cpu": 4, "memory": "8Gi", "nvidia.com/gpu": 8}
    flavor = {"name": queues.name, "resources": [{"name": key, "nominalQuota": most} for key, most in quotas.items()]}
    queues.apply("ResourceFlavor", queues.name, spec={"nodeLabels": {"example.com/pool": "general"}})
    group = {"coveredResources": list(quotas), "flavors": [flavor]}
    queues.apply("ClusterQueue", queues.name, spec={"namespaceSelector": {}, "resourceGroups": [group]})
    general = {"accelerator": None, "slices": None, "hosts": 2, "resources": {"requests": asked}}
    queues.submit("cpus", **general)
    queues.until_condition("Admitted", name="cpus")
    queues.submit("gpus", **general | {"accelerator": {"gpu": {"vendor": "nvidia", "count": 4}}})
    queues.until_reason("WaitingForQuota", "gpus", words="it begins when 4 more of cpu are free")
    queues.kubectl("delete", "sj", "cpus")
    queues.until_condition("Admitted", name="gpus")
    [given] = queues.workload("gpus")["status"]["admission"]["podSetAssignments"]
    assert given["resourceUsage"] == {"cpu": "4", "memory": "2Gi", "nvidia.com/gpu": "8"}
    queues.jobs.until_true("pods", lambda: len(queues.jobs.pods("gpus")) == 2)
    assert {pod["spec"]["nodeSelector"]["example.com/pool"] for pod in queues.jobs.pods("gpus")} == {"general"}


@pytest.mark.parametrize("topology", [False, True], ids=["without a topology", "workers have a topology"])
@pytest.mark.thorough
def test_a_ray_job_has_a_pod_set_for_its_head(queues: Queues, topology: bool) -> None:
    levels = [{"nodeLabel": POOL}, {"nodeLabel": "kubernetes.io/hostname"}]
    queues.apply("Topology", queues.name, spec={"levels": levels})
    queues.open(CHIPS, cpus=4, topology=queues.name if topology else None)
    queues.submit(ray={"entrypoint": "python train.py"})
    queues.jobs.until_true("pods", lambda: len(queues.jobs.pods()) == 5)
    assert [(one["name"], one["count"]) for one in queues.workload()["spec"]["podSets"]] == [("head", 1), ("slice", 4)]
    spot = {
        pod["metadata"]["labels"]["slipway.dev/role"]: pod["spec"].get("nodeSelector") for pod in queues.jobs.pods()
    }
    assert spot["worker"]["cloud.google.com/gke-spot"] == "true"
    assert not spot["head"]
    asked = [one["name"] for one in queues.workload()["spec"]["podSets"] if "topologyRequest" in one]
    assert asked == ["slice"] * topology


@pytest.mark.thorough
def test_3_kueue_places_each_slice_in_one_node_pool_in_the_order_of_its_hosts(queues: Queues) -> None:
    levels = [{"nodeLabel": POOL}, {"nodeLabel": "kubernetes.io/hostname"}]
    queues.apply("Topology", queues.name, spec={"levels": levels})
    queues.open(2 * CHIPS, topology=queues.name)
    queues.submit(slices=2, retries={"backoff": {"initialSeconds": 0}})
    queues.jobs.until("Running")
    before = nodes_of(queues)
    for index in (0, 1):
        of_slice = [before[index, host] for host in range(4)]
        assert len({pool for pool, _ in of_slice}) == 1
        assert [name for _, name in of_slice] == sorted(name for _, name in of_slice)
    assert before[0, 0][0] != before[1, 0][0]
    # A restart is on the same nodes.
    end_pods(queues, phase="Failed", only=1)
    queues.jobs.until_attempt(1)
    assert nodes_of(queues) == before


@pytest.mark.thorough
def test_a_slice_that_loses_a_node_is_placed_in_another_node_pool_by_kueue(
    queues: Queues, kueue_cluster: NativeCluster
) -> None:
    levels = [{"nodeLabel": POOL}, {"nodeLabel": "kubernetes.io/hostname"}]
    queues.apply("Topology", queues.name, spec={"levels": levels})
    queues.open(CHIPS, topology=queues.name)
    queues.submit()
    queues.jobs.until("Running")
    before = nodes_of(queues)
    pool, lost = before[0, 2]
    queues.kubectl("delete", "node", lost)
    try:
        with queues.never_more_than(CHIPS):
            status = queues.jobs.until_true("another attempt running", lambda: runs_again(queues))
    finally:
        create_nodes(kueue_cluster.api(), [plan for plan in kueue_cluster.spec.nodes() if plan.name == lost])
    *_, ended = status["attempts"]
    # Kueue evicts the Workload, or Slipway reads that the Node is gone: either may come first. Where Slipway does, its
    # next attempt may begin before the eviction, which ends that one as well.
    assert (status["preemptions"], status["failures"]) in ((1, 0), (2, 0))
    assert ended["cause"] == "preemption"
    words = {"PreemptedByQueue": f"no replacement for unhealthy node(s): {lost}", "NodeLost": "its node is gone"}
    assert words[ended["reason"]] in ended["message"]
    [other] = {where for where, _ in nodes_of(queues).values()}
    assert other != pool


def runs_again(queues: Queues) -> Any:
    """The status once an attempt after the first runs."""
    status = queues.jobs.status()
    return status if status["attempt"] > 0 and status["phase"] == "Running" else None


def nodes_of(queues: Queues) -> dict[tuple[int, int], tuple[str, str]]:
    """Node pool and node of the pods that run, by slice and host."""
    found = {}
    for pod in queues.jobs.pods():
        if pod["status"]["phase"] == "Running":
            labels, name = pod["metadata"]["labels"], pod["spec"]["nodeName"]
            pool = queues.kubectl.get("node", name)["metadata"]["labels"][POOL]
            found[int(labels["slipway.dev/slice"]), int(labels["slipway.dev/host"])] = (pool, name)
    return found


def reads_boosts(queues: Queues) -> bool | None:
    async def ask() -> bool | None:
        async with ApiConnection(await load_access(queues.kubectl.kubeconfig)) as api:
            return await kueue.reads_boosts(api, GROUP, queues.kubectl.namespace)

    return asyncio.run(ask())


@pytest.mark.thorough
def test_of_two_jobs_the_one_with_the_older_checkpoint_is_preempted_last(queues: Queues) -> None:
    queues.open(2 * CHIPS)
    assert reads_boosts(queues) is False
    queues.server.stop()
    queues.server.start(featureGates={"PriorityBoost": True})
    try:
        assert reads_boosts(queues) is True
        for name in ("first", "last"):
            queues.submit(name, priority="low")
            queues.jobs.until("Running", name)
            # Without a boost Kueue takes the one that was admitted last, by the second.
            pause(1)
        time_of_it = datetime.now(UTC).isoformat()
        boost = {"kueue.x-k8s.io/priority-boost": "4", "slipway.dev/priority-boost-time": time_of_it}
        patch(queues, "workloads.kueue.x-k8s.io", "slicejob-last", {"metadata": {"annotations": boost}})
        queues.submit("urgent", priority="high")
        queues.jobs.until("Running", "urgent")
        queues.jobs.until("Queued", "first")
        assert queues.jobs.status("last")["phase"] == "Running"
        queues.submit("other", priority="high")
        queues.jobs.until("Running", "other")
        queues.jobs.until("Queued", "last")
        assert not boost.keys() & queues.workload("last")["metadata"].get("annotations", {}).keys()
    finally:
        queues.server.stop()
        queues.server.start()


@pytest.mark.thorough
def test_kueue_away_and_a_start_that_takes_too_long(queues: Queues) -> None:
    queues.open(CHIPS)
    queues.submit()
    queues.jobs.until("Running")
    queues.until_condition("PodsReady")
    queues.server.stop(at_once=True)
    try:
        queues.submit("late")
        # An operator that was started again asks first whether it may create pods.
        said = queues.until_reason("WebhookUnavailable", "late")
        assert re.search(r"webhook m(workload|pod)\.kb\.io does not answer", said)
        assert queues.jobs.status()["phase"] == "Running"
    finally:
        queues.server.start(waitForPodsReady={"timeout": "15s"})
    try:
        queues.until_reason("WaitingForQuota", "late")
        queues.kubectl("cordon", "-l", POOL)
        queues.kubectl("delete", "sj", "train")
        queues.until_reason("PodsReadyTimeout", "late", words="it is queued again at 20")
        # Kueue may be faster than an attempt, and then stops one that begins after another turn.
        queues.jobs.until_true("an attempt that was stopped", lambda: "StoppedByQueue" in reasons(queues, "late"))
    finally:
        queues.kubectl("uncordon", "-l", POOL)
        queues.server.stop()
        queues.server.start()


def reasons(queues: Queues, name: str) -> list[str | None]:
    """Why the attempts of a job have ended."""
    return [one.get("reason") for one in queues.jobs.status(name).get("attempts", ())]


@pytest.mark.thorough
def test_the_age_of_each_watch_is_a_metric(measured_queues: Queues) -> None:
    kinds = {"workloads", "localqueues", "clusterqueues", "resourceflavors", "workloadpriorityclasses"}

    def aged() -> set[str]:
        # The operator may not have begun to serve them.
        with suppress(OSError):
            return {key[1] for key in scrape(measured_queues.jobs)[1] if key[0] == "slipway_watch_age_seconds"}
        return set()

    measured_queues.jobs.until_true("an age of each", lambda: aged() >= kinds)


@pytest.mark.thorough
def test_a_viewer_is_told_the_place_of_a_job_in_its_queue_while_it_waits(
    queues: Queues, kueue_cluster: NativeCluster, tmp_path: Path
) -> None:
    queues.open(CHIPS)
    queues.submit("runs", priority="high")
    queues.jobs.until("Running", "runs")
    for name, priority in (("first", "high"), ("second", "low"), ("train", None)):
        queues.submit(name, priority=priority)
    for name in ("first", "second", "train"):
        queues.until_condition("QuotaReserved", "False", name)
        queues.jobs.until("Queued", name)
    queues.kubectl("create", "serviceaccount", "viewer")
    shown = Jobs(
        replace(queues.kubectl, kubeconfig=access(kueue_cluster, queues.name, "viewer", tmp_path / "viewer")),
        queues.jobs.operator,
    )
    viewer = f"--serviceaccount={queues.name}:viewer"
    queues.kubectl("create", "rolebinding", "views", "--clusterrole=view", viewer)
    with queues.server.visible():
        until_places(shown, "train", 3)
        queues.kubectl("delete", "sj", "first")
        queues.until_gone("first")
        until_places(shown, "train", 2)
        assert places(shown, "runs") == []
    shown.until_true("no place where Kueue does not show it", lambda: places(shown, "train") == [])


def until_places(jobs: Jobs, name: str, number: int) -> None:
    """Wait until both commands say where a job stands; Kueue counts with an informer of its own."""
    wanted = [f"place: number {number} in LocalQueue tpu, number {number} in its ClusterQueue"] * 2
    jobs.until_true(f"place {number} of {name}", lambda: places(jobs, name) == wanted)


def places(jobs: Jobs, name: str) -> list[str]:
    """The lines of the commands that say where a job stands."""
    texts = [said(slipway(jobs, command, name)) for command in ("why", "describe")]
    return [line for text in texts for line in text.splitlines() if line.startswith("place:")]

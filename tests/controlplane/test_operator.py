"""The operator on a real API server with simulated nodes: what a user does, sees, and gets wrong."""

import json
import os
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bench.usage import peak_mib
from tests.kubectl import api_of
from tests.mistakes import note, shown
from tests.running import Jobs
from tests.waiting import ANSWER_SECONDS, pause

TPU: dict[str, Any] = {"accelerator": {"type": "v5p-16", "spot": True}, "slices": 2}
POOL = "cloud.google.com/gke-nodepool"
RUNS = {"image": "slipway.local/busybox:1", "command": ["sleep", "1000"]}


def finish(jobs: Jobs, name: str = "train", *, phase: str = "Succeeded") -> None:
    """Let every pod of a job end, as kubelets would."""
    ended = {"status": {"phase": phase, "containerStatuses": None}}
    for pod in jobs.pods(name):
        jobs.kubectl.patch("pod", pod["metadata"]["name"], ended, status=True)


def test_a_job_runs_and_succeeds(jobs: Jobs) -> None:
    jobs.apply(**TPU)
    status = jobs.until("Running")
    assert status["readySlices"] == "2/2"
    assert status["resolved"]["topology"] == "2x2x2"
    assert len(jobs.pods()) == 4
    finish(jobs)
    jobs.until("Succeeded")
    jobs.kubectl.wait("sj/train", until="condition=Complete")
    jobs.kubectl.wait("sj/train", until="condition=Finished")
    # They are posted after the status is written.
    told = ["Running", "Starting", "Succeeded"]
    # On a busy machine it waits for its nodes long enough to say that, too.
    jobs.until_true("its Events", lambda: sorted(one for one in jobs.events() if one != "WaitingForCapacity") == told)


def test_each_slice_gets_a_node_pool_of_its_own(jobs: Jobs) -> None:  # E2-21
    jobs.apply(**TPU)
    jobs.until("Running")
    pools: dict[str, set[str]] = {"0": set(), "1": set()}
    for pod in jobs.pods():
        node = jobs.kubectl.get("node", pod["spec"]["nodeName"])
        pools[pod["metadata"]["labels"]["slipway.dev/slice"]].add(node["metadata"]["labels"][POOL])
    assert len(pools["0"]) == len(pools["1"]) == 1
    assert pools["0"] != pools["1"]


def test_what_the_job_sets_itself_stands_in_its_pods_and_slipways_defaults_do_not(jobs: Jobs) -> None:  # K-04
    field = {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}
    jobs.apply(
        **TPU,
        env=[
            {"name": "MASTER_PORT", "value": "1"},
            {"name": "RANK", "value": "1"},
            {"name": "NODE_RANK", "value": "1"},
        ],
        podTemplate={
            "spec": {
                "containers": [
                    {
                        "name": "worker",
                        "env": [{"name": "RANK", "value": "2"}, {"name": "NODE_RANK", "valueFrom": field}],
                    }
                ]
            }
        },
    )
    jobs.until("Running")
    for pod in jobs.pods():
        [worker] = pod["spec"]["containers"]
        given = [one for one in worker["env"] if one["name"] in ("MASTER_PORT", "RANK", "NODE_RANK")]
        assert given == [
            {"name": "MASTER_PORT", "value": "1"},
            {"name": "RANK", "value": "2"},
            {"name": "NODE_RANK", "valueFrom": field},
        ]
        assert {"name": "JAX_PROCESS_ID", "value": "$(SLIPWAY_RANK)"} in worker["env"]


def pinned(jobs: Jobs) -> set[tuple[str, str, bool]]:
    """Of the pods of a job: slice, node pool by their label, and whether they have an affinity."""
    found = set()
    for pod in jobs.pods():
        labels = pod["metadata"]["labels"]
        pool = labels.get("slipway.dev/node-pool", "")
        if pool:
            assert jobs.kubectl.get("node", pod["spec"]["nodeName"])["metadata"]["labels"][POOL] == pool
        found.add((labels["slipway.dev/slice"], pool, "affinity" in pod["spec"]))
    return found


def start_anew(jobs: Jobs) -> None:
    """Start the operator again: it then knows what there is now, of which its watches may tell it only later."""
    jobs.operator.stop()
    jobs.operator.start().until_ready()


def test_slices_are_pinned_to_free_pools_and_elsewhere_where_somebody_is_in_them(jobs: Jobs) -> None:  # E2-21
    # One that has just begun prefers no pool for what it held before, so that the next one chooses the same.
    start_anew(jobs)
    jobs.apply(**TPU)
    jobs.until("Running")
    (_, first, _), (_, second, _) = sorted(pinned(jobs))
    assert pinned(jobs) == {("0", first, False), ("1", second, False)}
    assert first != second
    jobs.kubectl("delete", "sj", "train")
    jobs.until_true("no pods", lambda: not jobs.pods())
    start_anew(jobs)
    # Somebody whom this operator does not know takes the first one.
    for host in range(2):
        jobs.kubectl.apply(occupant(f"notebook-{host}", first))
        jobs.kubectl.wait(f"pod/notebook-{host}", until="condition=PodScheduled")
    jobs.apply(**TPU)
    status = jobs.until("Running")
    assert (status["attempt"], status["failures"], status["preemptions"], status["uncharged"]) == (1, 0, 0, 1)
    assert status["attempts"][-1]["reason"] == "NodePoolTaken"
    assert f"no room in {first}, though it looked free" in status["attempts"][-1]["message"]
    assert pinned(jobs) == {("0", "", True), ("1", "", True)}


@pytest.mark.thorough
def test_a_slice_without_a_free_pool_leaves_its_siblings_theirs(jobs: Jobs) -> None:  # E2-21
    nodes = jobs.kubectl.get("nodes", selector="cloud.google.com/gke-tpu-topology=2x2x2")["items"]
    names = {node["metadata"]["name"] for node in nodes}

    def free() -> bool:
        pods = api_of(jobs.kubectl.kubeconfig).read("/api/v1/pods")["items"]
        return names.isdisjoint(pod["spec"].get("nodeName") for pod in pods)

    def waiting() -> list[Any]:
        return [pod for pod in jobs.pods() if "nodeName" not in pod["spec"]]

    jobs.until_true("the pods of other tests gone", free)
    closed = nodes[0]["metadata"]["labels"][POOL]
    jobs.kubectl("cordon", "-l", f"{POOL}={closed}")
    try:
        start_anew(jobs)
        jobs.apply(**(TPU | {"slices": 4}))
        jobs.until("WaitingForCapacity")
        jobs.until_true("three slices on their nodes", lambda: len(waiting()) == 2)
        assert {pod["metadata"]["labels"]["slipway.dev/slice"] for pod in waiting()} == {"3"}
        given = {pool for _, pool, _ in pinned(jobs)} - {""}
        assert len(given) == 3
        for pod in waiting():
            rules = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
            [rule] = rules["nodeSelectorTerms"][0]["matchExpressions"]
            assert (rule["key"], rule["operator"], set(rule["values"])) == (POOL, "NotIn", given)
    finally:
        jobs.kubectl("uncordon", "-l", f"{POOL}={closed}")
    assert jobs.until("Running")["attempt"] == 0
    last = {pod["spec"]["nodeName"] for pod in jobs.pods() if pod["metadata"]["labels"]["slipway.dev/slice"] == "3"}
    assert last == {node["metadata"]["name"] for node in nodes if node["metadata"]["labels"][POOL] == closed}


def occupant(name: str, pool: str) -> dict[str, Any]:
    """A pod of somebody else's on a node of that pool."""
    chips = {"limits": {"google.com/tpu": "4"}}
    container = {"name": "notebook", "image": "slipway.local/busybox:1", "resources": chips}
    tolerations = [{"operator": "Exists"}]
    spec = {"nodeSelector": {POOL: pool}, "tolerations": tolerations, "containers": [container]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


@pytest.mark.row("B-50")
@pytest.mark.thorough
def test_a_job_waits_for_capacity_and_says_which_nodes_there_are(jobs: Jobs) -> None:
    jobs.apply(accelerator={"type": "v4-16"}, slices=1)
    status = jobs.until("WaitingForCapacity")
    assert status["capacityWaits"] >= 1
    said = "the slice has no room: no node pool is v4-16 (tpu-v4-podslice, 2x2x2); this cluster has tpu-v5"
    assert said in jobs.condition("CapacityAvailable")["message"]
    jobs.until_true(
        "the scheduler's words", lambda: "nodes are available" in (jobs.status()["hosts"][0].get("message") or "")
    )
    assert (status["failures"], status["preemptions"]) == (0, 0)
    jobs.kubectl.patch("sj", "train", '{"spec": {"timeouts": {"scheduleSeconds": 1}}}')
    status = jobs.until("Failed")
    assert status["result"]["reason"] == "ScheduleTimeout"


INVALID = {
    "B-01 no image": ({"image": None}, "no image: set spec.image"),
    "B-10 unknown type": ({"accelerator": {"type": "v9-8"}}, "v9-8"),
    "B-10 impossible number": ({"accelerator": {"type": "v4-7"}}, "v4-8"),
    "B-10 ambiguous": ({"accelerator": {"type": "v5litepod-8"}}, "chipsPerHost"),
    "B-15 port taken": (
        {"podTemplate": {"spec": {"containers": [{"name": "worker", "ports": [{"containerPort": 8081}]}]}}},
        "8081",
    ),
    "B-20 a mount without its volume": ({"volumeMounts": [{"name": "nowhere", "mountPath": "/v"}]}, "nowhere"),
    "a mount is named as its user knows it": (
        {"shmSize": "1Gi", "volumeMounts": [{"name": "nowhere", "mountPath": "/v"}]},
        "spec.containers[worker].volumeMounts[/v].name",
    ),
    "B-25 the engine's socket": (
        {"volumes": [{"name": "run", "hostPath": {"path": "/var/run/"}}]},
        "spec.volumes[0].hostPath.path '/var/run/' gives the pods the socket",
    ),
    "B-21 hostPID": (
        {"podTemplate": {"spec": {"hostPID": True}}},
        "spec.podTemplate.spec.hostPID true is not allowed here (the chart's values, site.limits.hostProcesses)",
    ),
    "B-21 privileged": (
        {"securityContext": {"privileged": True}},
        "spec.securityContext.privileged true is not allowed here",
    ),
    "a profile that is not there": ({"profile": "gpu"}, "has no SliceJobProfile of that name"),
    "a template the API server refuses": ({"podTemplate": {"spec": {"dnsPolicy": "Sometimes"}}}, "Sometimes"),
    "a malformed template": ({"podTemplate": {"spec": {"initContainers": "x"}}}, "initContainers is a string"),
    "an unknown field in the template": ({"podTemplate": {"spec": {"dnsPolicies": "x"}}}, "dnsPolicies"),
}


@pytest.mark.parametrize("mistake", INVALID)
@pytest.mark.row("B-01", "B-10", "B-15", "B-20", "B-21", "B-25")
def test_what_cannot_run_is_invalid_before_anything_exists(jobs: Jobs, mistake: str) -> None:
    spec, named = INVALID[mistake]
    jobs.apply(**spec)
    began = time.monotonic()
    status = jobs.until("Invalid")
    accepted = jobs.condition("Accepted")
    assert accepted["status"] == "False"
    assert named in accepted["message"]
    assert accepted["reason"] in jobs.kubectl("get", "sj", "train", "-o", "wide").stdout.split()
    assert jobs.pods() == []
    assert status.get("failures", 0) == 0
    assert "attempt" not in status
    note(shown(mistake, jobs, "train", seconds=time.monotonic() - began))


@pytest.mark.parametrize(("field", "phase"), [("suspend", "Suspended"), ("cancel", "Cancelled")])
def test_an_invalid_job_can_be_stopped(jobs: Jobs, field: str, phase: str) -> None:
    malformed = {"podTemplate": {"spec": {"initContainers": "x"}}}
    jobs.apply(**malformed)
    jobs.until("Invalid")
    jobs.apply(**malformed, **{field: True})
    jobs.until(phase)


def test_a_spec_nested_too_deep_harms_its_own_job_only(jobs: Jobs) -> None:
    deep = '{"a":' * 5000 + "1" + "}" * 5000
    head = '{"apiVersion":"slipway.dev/v1alpha1","kind":"SliceJob","metadata":{"name":"deep"},"spec":{"image":"a",'
    jobs.kubectl("create", "-f", "-", stdin=head + f'"podTemplate":{{"spec":{deep}}}}}}}')
    refused = 'jsonpath={.status.conditions[?(@.type=="Accepted")].message}'
    words = "spec.podTemplate is nested more than 64 levels deep"
    jobs.until_true("it is refused", lambda: words in jobs.kubectl("get", "sj", "deep", "-o", refused).stdout)
    jobs.operator.kill()
    jobs.operator.start_again()
    jobs.apply(**RUNS)
    jobs.until("Running")
    given = {"KUBECONFIG": str(jobs.kubectl.kubeconfig), "COLUMNS": "200"}
    command = [sys.executable, "-m", "slipway.cli.main", "list", "--namespace", jobs.kubectl.namespace]
    listed = subprocess.run(
        command, env=os.environ | given, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=True
    )
    assert [line.split()[:2] for line in listed.stdout.splitlines()[1:]] == [["deep", "Invalid"], ["train", "Running"]]


def test_a_running_job_goes_on_after_its_status_was_emptied(jobs: Jobs) -> None:
    jobs.apply(**RUNS)
    before, pods = jobs.until("Running"), {pod["metadata"]["uid"] for pod in jobs.pods()}
    jobs.kubectl.patch("sj", "train", {"status": None}, status=True)
    jobs.until_true("it is written again", lambda: jobs.status() == before)
    assert {pod["metadata"]["uid"] for pod in jobs.pods()} == pods


def test_an_invalid_job_runs_once_it_is_corrected(jobs: Jobs) -> None:
    jobs.apply(accelerator={"type": "v9-8"})
    jobs.until("Invalid")
    jobs.apply(accelerator={"type": "v5p-16", "spot": True})
    jobs.until("Running")


def test_a_job_with_a_queue_runs_without_kueue_once_its_label_is_gone(jobs: Jobs) -> None:
    label = "kueue.x-k8s.io/queue-name"
    body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}, "spec": RUNS}
    body["metadata"] = {"name": "train", "labels": {label: "research"}}
    jobs.kubectl.apply(body)
    jobs.until("Invalid")
    assert jobs.condition("Accepted")["reason"] == "KueueNotInstalled"
    jobs.kubectl("label", "sj", "train", f"{label}-")
    jobs.until("Running")


@pytest.mark.thorough
def test_pods_with_the_nodes_network_get_a_node_each(jobs: Jobs) -> None:  # E2-21
    jobs.apply(hosts=3, hostNetwork=True, **RUNS)
    jobs.until("Running")
    assert len({pod["spec"]["nodeName"] for pod in jobs.pods()}) == 3
    jobs.apply("wide", hosts=9, hostNetwork=True, **RUNS)
    status = jobs.until("WaitingForCapacity", "wide")
    said = jobs.condition("CapacityAvailable", "wide")["message"]
    assert "the 8 nodes that suit it have room for 8 of its pods" in said, status


def test_a_literal_secret_is_told_of_without_its_value(jobs: Jobs) -> None:  # F-33
    jobs.apply(env=[{"name": "HF_TOKEN", "value": "hunter22"}], **RUNS)
    jobs.until("Running")
    jobs.until_true("an Event", lambda: "LiteralSecret" in jobs.events())
    told = jobs.kubectl("get", "events", "--field-selector", "reason=LiteralSecret", "-o", "json").stdout
    assert "spec.env[HF_TOKEN]" in told
    assert '"Warning"' in told
    assert "hunter22" not in told


def test_a_quota_is_waited_for(jobs: Jobs) -> None:
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "none"},
        "spec": {"hard": {"pods": "0"}},
    }
    jobs.kubectl.apply(quota)
    jobs.kubectl.wait("resourcequota/none", until="jsonpath={.status.hard.pods}=0")
    jobs.apply(retries={"capacityRetrySeconds": 1})
    jobs.until("WaitingForCapacity")
    assert "exceeded quota none: a pod requests pods=1" in jobs.condition("CapacityAvailable")["message"]
    jobs.kubectl("delete", "resourcequota", "none")
    status = jobs.until("Running")
    assert status["attempt"] == 0


def test_a_job_restarts_though_the_quota_of_services_is_used_up(jobs: Jobs) -> None:
    jobs.apply(hosts=2, retries={"capacityRetrySeconds": 1})
    jobs.until("Running")
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": {"name": "services"},
        "spec": {"hard": {"services": "1"}},
    }
    jobs.kubectl.apply(quota)
    jobs.kubectl.wait("resourcequota/services", until="jsonpath={.status.used.services}=1")
    failed = '{"status": {"phase": "Failed", "containerStatuses": null}}'
    for attempt in (1, 2):
        pod = f"train-{attempt - 1}-0-1"
        jobs.kubectl.patch("pod", pod, failed, status=True)
        jobs.until_true(
            f"attempt {attempt} runs",
            lambda attempt=attempt: (jobs.status().get("attempt"), jobs.status().get("phase")) == (attempt, "Running"),
        )


@pytest.mark.row("B-59")
def test_a_deleted_job_takes_everything_along(jobs: Jobs) -> None:
    jobs.apply(accelerator={"type": "v5litepod-256"}, slices=2)
    jobs.until_true("all pods", lambda: len(jobs.pods()) == 128)
    assert len(jobs.kubectl.get("configmaps", selector="slipway.dev/job-name=train")["items"]) == 2
    jobs.kubectl("delete", "sj", "train")
    jobs.until_true("no pod left", lambda: not jobs.pods())
    kinds = "services,configmaps"
    jobs.until_true("nothing left", lambda: not jobs.kubectl.get(kinds, selector="slipway.dev/job-name=train")["items"])


@pytest.mark.thorough
def test_the_same_name_again_waits_for_the_old_pods(jobs: Jobs) -> None:
    jobs.apply(**TPU)
    old = jobs.until("Running") and jobs.kubectl.get("sj", "train")["metadata"]["uid"]
    jobs.kubectl("delete", "sj", "train", "--wait=false")
    jobs.kubectl.wait("sj/train", until="delete")
    jobs.apply(**TPU)
    status = jobs.until("Running")
    assert (status["attempt"], status["preemptions"]) == (0, 0)
    assert all(pod["metadata"]["labels"]["slipway.dev/job-uid"] != old for pod in jobs.pods())


@pytest.mark.row("B-57", "N-10")
def test_a_killed_operator_goes_on_where_it_was(jobs: Jobs) -> None:
    jobs.apply(**TPU)
    before = jobs.until("Running")
    pods = sorted(pod["metadata"]["uid"] for pod in jobs.pods())
    jobs.operator.kill()
    jobs.operator.start_again().until_ready()
    assert jobs.status() == before
    assert sorted(pod["metadata"]["uid"] for pod in jobs.pods()) == pods
    finish(jobs)
    assert jobs.until("Succeeded")["attempt"] == 0


def test_cancel_keeps_the_record(jobs: Jobs) -> None:
    jobs.apply(**TPU)
    jobs.until("Running")
    jobs.kubectl.patch("sj", "train", '{"spec": {"cancel": true}}')
    status = jobs.until("Cancelled")
    assert status["attempts"][0]["reason"] == "Cancelled"
    jobs.until_true("the pods are gone", lambda: not jobs.pods())


def test_a_finished_job_is_deleted_when_its_time_is_over(jobs: Jobs) -> None:
    jobs.apply(ttlSecondsAfterFinished=1)
    jobs.until("Running")
    finish(jobs)
    jobs.kubectl.wait("sj/train", until="delete")


@pytest.mark.row("B-61")
@pytest.mark.thorough
def test_applying_the_same_manifest_again_and_again_changes_nothing_while_a_job_runs_and_restarts(jobs: Jobs) -> None:
    body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}, "spec": RUNS | TPU}

    def applied() -> dict[str, Any]:
        """The job after a GitOps tool has applied it, which wins every conflict."""
        tool = ("--server-side", "--field-manager=gitops", "--force-conflicts")
        done = jobs.kubectl("apply", *tool, "-f", "-", "-o", "json", "--show-managed-fields", stdin=body)
        found: dict[str, Any] = json.loads(done.stdout)
        seen.append(found["metadata"]["generation"])
        return found

    seen: list[int] = []
    applied()
    jobs.until("Running")
    for attempt in (0, 1):
        [*_, last] = jobs.pods(attempt=attempt)
        failed = (
            "--subresource=status",
            "--type=merge",
            "-p",
            '{"status": {"phase": "Failed", "containerStatuses": null}}',
        )
        jobs.kubectl("patch", "pod", last["metadata"]["name"], *failed)
        jobs.until_true(
            f"attempt {attempt + 1} runs",
            lambda after=attempt + 1: (
                (status := applied()["status"])["attempt"] == after and status["phase"] == "Running"
            ),
        )
    status, pods = jobs.status(), {pod["metadata"]["uid"] for pod in jobs.pods()}
    assert (status["attempt"], status["failures"], status["preemptions"]) == (2, 2, 0)
    for _ in range(5):
        pause(0.5)
        # The operator may have written the status between the two.
        jobs.until_true("no change", lambda: applied()["metadata"] == applied()["metadata"])
    assert set(seen) == {1}
    assert {pod["metadata"]["uid"] for pod in jobs.pods()} == pods
    managers = {(one["manager"], one.get("subresource", "")) for one in applied()["metadata"]["managedFields"]}
    assert managers == {("gitops", ""), ("slipway", "status")}


@pytest.mark.parametrize("port", ["abc", "0", "70000"])
@pytest.mark.row("B-14")
def test_the_operator_refuses_a_senseless_port(port: str) -> None:
    import os
    import subprocess
    import sys

    done = subprocess.run(
        [sys.executable, "-m", "slipway.cli.main", "operator"],
        env=os.environ | {"COORD_PORT": port},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "COORD_PORT" in done.stderr
    assert port in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.row("B-58", "N-03")
@pytest.mark.thorough
def test_of_two_operators_one_stands_by(jobs: Jobs, tmp_path: Path) -> None:
    jobs.operator.until_ready()
    second = replace(jobs.operator, log=tmp_path / "second.log", process=None).start()
    try:
        jobs.until_true("the second stands by", lambda: second.said("standing by"))
        jobs.apply(**TPU)
        jobs.until("Running")
        assert len(jobs.pods()) == 4
        assert not second.said("train")
        jobs.operator.stop()
        second.until_ready()
        finish(jobs)
        assert jobs.until("Succeeded")["attempt"] == 0
    finally:
        second.stop()


@pytest.mark.timeout(1300)
@pytest.mark.row("B-66", "E1-52")
@pytest.mark.thorough
def test_a_thousand_jobs_at_once_all_come_to_their_end(jobs: Jobs) -> None:
    template = {"metadata": {"annotations": {"slipway.dev/simulated-exit-code": "0"}}}
    body = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "spec": RUNS | {"podTemplate": template}}
    listed = [body | {"metadata": {"name": f"job-{number:04}"}} for number in range(1000)]
    jobs.kubectl("create", "-f", "-", stdin={"apiVersion": "v1", "kind": "List", "items": listed}, seconds=600)

    peaks = []

    def all_succeeded() -> bool:
        assert jobs.operator.process is not None
        with suppress(FileNotFoundError):
            peaks.append(peak_mib(jobs.operator.process.pid))
        phases = jobs.kubectl("get", "sj", "-o", "jsonpath={.items[*].status.phase}").stdout.split()
        return phases.count("Succeeded") == 1000

    jobs.until_true("all succeed", all_succeeded, seconds=600, every=5)
    assert max(peaks) < 380

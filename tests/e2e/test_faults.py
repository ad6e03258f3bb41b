"""Faults on real nodes: every cause is told apart, the whole job comes back, and the counters are exact."""

import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from slipway.devcluster import NativeCluster
from tests.running import Jobs
from tests.waiting import START_SECONDS, pause

TPU: dict[str, Any] = {"accelerator": {"type": "v5p-16", "spot": True}, "slices": 2}


def program(first: str = "", *, later: str = "exit 0") -> list[str]:
    """A worker that does `first` and then waits in attempt 0, and `later` in the next ones."""
    wait = "trap 'exit 143' TERM; sleep 600 & wait"
    return ["sh", "-c", f'[ "$SLIPWAY_ATTEMPT" -gt 0 ] && {{ {later}; }}; {first or ":"}; {wait}']


def pod_of(jobs: Jobs, slice_index: int, host: int, attempt: int = 0) -> Any:
    return jobs.kubectl.get("pod", f"train-{attempt}-{slice_index}-{host}")


def counters(status: Any) -> tuple[int, int]:
    return status["failures"], status["preemptions"]


@pytest.mark.row("B-48")
def test_a_preempted_node_restarts_the_whole_job(real_jobs: Jobs, real_nodes: NativeCluster) -> None:
    real_jobs.apply(**TPU, command=program())
    real_jobs.until("Running")
    node = pod_of(real_jobs, 1, 0)["spec"]["nodeName"]
    real_nodes.preempt(node)
    try:
        real_jobs.until_true("attempt 1", lambda: real_jobs.status()["attempt"] == 1)
        assert {pod["status"]["phase"] for pod in real_jobs.pods(attempt=0)} <= {"Failed"}
    finally:
        real_nodes.restore(node)
    status = real_jobs.until("Succeeded")
    assert counters(status) == (0, 1)
    ended = status["attempts"][1]
    assert (ended["cause"], ended["root"]["node"], ended["root"]["slice"]) == ("preemption", node, 1)


def processes(marker: str) -> list[str]:
    """Command lines of this machine, and so of every container on its nodes, in which the marker stands."""
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            found += [words] if marker in (words := one.read_bytes().replace(b"\0", b" ").decode()) else []
    return [words for words in found if words.startswith("sleep ")]


def test_a_node_object_deleted_by_hand_lets_no_two_attempts_run_at_once(
    real_jobs: Jobs, real_nodes: NativeCluster
) -> None:
    """The machine lives, and its kubelet takes 3 s to terminate a container that cleans up."""
    until_term = "trap 'sleep 3.4711; exit 143' TERM; sleep 600.4711 & wait"
    command = ["sh", "-c", f'[ "$SLIPWAY_ATTEMPT" -gt 0 ] && exit 0; {until_term}']
    # After this time Slipway takes for dead what has not ended; 5 s are few for a kubelet on a busy machine.
    real_jobs.apply(**TPU, command=command, retries={"gracePeriodSeconds": 30})
    real_jobs.until("Running")
    real_jobs.until_true("four programs", lambda: len(processes(".4711")) == 4)
    node = pod_of(real_jobs, 1, 0)["spec"]["nodeName"]
    real_jobs.kubectl("delete", "node", node)
    try:
        real_jobs.until_true("pods of attempt 1", lambda: real_jobs.pods(attempt=1))
        assert processes(".4711") == []
    finally:
        real_nodes.stop_kubelet(node)
        real_nodes.start_kubelet(node)
    status = real_jobs.until("Succeeded")
    # Until the device plugin has registered again, a kubelet that has just started may refuse the next pods.
    assert (status["failures"], status["preemptions"] - status["infrastructureFailures"]) == (0, 1)
    assert status["attempts"][-1]["reason"] == "NodeLost"


@pytest.mark.row("B-46")
def test_an_exit_code_on_one_host_is_a_failure_with_its_last_words(real_jobs: Jobs) -> None:
    last_words = 'echo "token=s3cr3t-value"; echo "ValueError: NaN"'  # one stream: two may be logged in any order
    fault = f'if [ "$SLIPWAY_RANK" = 3 ]; then sleep 2; {last_words}; exit 7; fi'
    # The pods of attempt 0 go when attempt 1 ends.
    until_read = 'if [ "$SLIPWAY_RANK" = 0 ]; then until test -e /tmp/read; do sleep 0.1; done; fi; exit 0'
    real_jobs.apply(**TPU, command=program(fault, later=until_read))
    real_jobs.until_true("attempt 1", lambda: real_jobs.status().get("attempt") == 1)
    assert "ValueError: NaN" in real_jobs.kubectl("logs", "train-0-1-1").stdout
    touch = ("exec", "train-1-0-0", "--", "touch", "/tmp/read")
    real_jobs.until_true("host 0", lambda: real_jobs.kubectl(*touch, check=False).returncode == 0)
    status = real_jobs.until("Succeeded")
    assert counters(status) == (1, 0)
    root = status["attempts"][1]["root"]
    assert (root["slice"], root["host"], root["exitCode"]) == (1, 1, 7)
    assert "ValueError: NaN" in root["log"]
    assert "ValueError: NaN" in status["attempts"][1]["message"]
    assert "s3cr3t" not in json.dumps(status)


@pytest.mark.row("B-47")
@pytest.mark.thorough
def test_running_out_of_memory_is_a_failure(real_jobs: Jobs) -> None:
    # The kernel tells containerd of the OOM through the container's cgroup, so the shell keeps that for a while.
    # Nothing shows in the container that containerd has heard of it.
    fault = 'if [ "$SLIPWAY_RANK" = 0 ]; then sleep 1; tail /dev/zero; code=$?; sleep 30; exit $code; fi'
    real_jobs.apply(**TPU, command=program(fault), resources={"limits": {"memory": "64Mi"}})
    status = real_jobs.until("Succeeded")
    assert counters(status) == (1, 0)
    assert status["attempts"][1]["reason"] == "OOMKilled"
    assert "limit 64Mi" in status["attempts"][1]["message"]


@pytest.mark.row("B-49")
@pytest.mark.thorough
def test_a_program_that_says_it_was_preempted_was_not(real_jobs: Jobs) -> None:
    fault = 'if [ "$SLIPWAY_RANK" = 1 ]; then sleep 1; echo "the worker was preempted"; exit 1; fi'
    real_jobs.apply(**TPU, command=program(fault))
    assert counters(real_jobs.until("Succeeded")) == (1, 0)


def evict(jobs: Jobs, _: NativeCluster) -> None:
    name, space = "train-0-0-1", jobs.kubectl.namespace
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": space}}
    path = f"/api/v1/namespaces/{space}/pods/{name}/eviction"
    jobs.kubectl("create", "--raw", path, "-f", "-", stdin=body)


def delete_pod(jobs: Jobs, _: NativeCluster) -> None:
    jobs.kubectl("delete", "pod", "train-0-1-0", "--wait=false")


def taint(jobs: Jobs, _: NativeCluster) -> None:
    node = pod_of(jobs, 0, 0)["spec"]["nodeName"]
    jobs.kubectl("taint", "node", node, "maintenance=now:NoExecute")
    try:
        jobs.until_true(
            "the restart", lambda: jobs.status()["attempts"][0].get("endTime") or jobs.status()["attempt"] > 0
        )
    finally:
        jobs.kubectl("taint", "node", node, "maintenance-")


@pytest.mark.parametrize(
    ("disturb", "reason"),
    [(evict, "Disrupted"), (delete_pod, "PodDeleted"), (taint, "Disrupted")],
    ids=["eviction API", "B-53 kubectl delete pod", "NoExecute taint"],
)
@pytest.mark.row("B-53")
@pytest.mark.thorough
def test_what_others_do_to_a_pod_is_a_preemption(
    real_jobs: Jobs, real_nodes: NativeCluster, disturb: Any, reason: str
) -> None:
    real_jobs.apply(**TPU, command=program())
    real_jobs.until("Running")
    disturb(real_jobs, real_nodes)
    status = real_jobs.until("Succeeded")
    assert counters(status) == (0, 1), status["attempts"]
    assert status["attempts"][1]["reason"] == reason


@pytest.mark.row("B-57")
def test_an_operator_killed_at_any_point_loses_and_doubles_nothing(real_jobs: Jobs) -> None:
    fault = 'if [ "$SLIPWAY_RANK" = 2 ]; then sleep 3; exit 1; fi'

    def again() -> None:
        real_jobs.operator.kill()
        real_jobs.operator.start_again()

    real_jobs.apply(**TPU, command=program(fault, later='[ "$SLIPWAY_ATTEMPT" = 1 ] && sleep 4; exit 0'))
    real_jobs.until_true("the first pods", real_jobs.pods)
    again()
    real_jobs.until("Running")
    again()
    real_jobs.until_true("the end of attempt 0", lambda: real_jobs.status()["attempts"][-1].get("endTime"))
    again()
    # A host that succeeds before the others exist cannot be told from one whose peers have vanished.
    real_jobs.until_true("attempt 1", lambda: len(real_jobs.pods(attempt=1)) == 4)
    again()
    status = real_jobs.until("Succeeded")
    assert counters(status) == (1, 0)
    assert status["attempt"] == 1


@pytest.mark.row("B-56")
@pytest.mark.thorough
def test_the_api_server_may_be_away_for_a_while(real_jobs: Jobs, real_nodes: NativeCluster) -> None:
    fault = 'if [ "$SLIPWAY_RANK" = 0 ]; then sleep 10; exit 5; fi'
    real_jobs.apply(**TPU, command=program(fault))
    real_jobs.until("Running")
    leader = real_jobs.operator.process
    assert leader is not None
    real_nodes.stop_api_server()
    try:
        pause(30)
    finally:
        real_nodes.start_api_server()
    # Kubelets that could not reach the API server ask again only after a while.
    status = real_jobs.until("Succeeded")
    assert counters(status) == (1, 0)
    assert leader.poll() is None, "its Lease is long enough"


def test_a_suspended_job_holds_nothing_and_resumes_uncharged(real_jobs: Jobs) -> None:
    real_jobs.apply(**TPU, command=program())
    real_jobs.until("Running")
    real_jobs.kubectl.patch("sj", "train", '{"spec": {"suspend": true}}')
    real_jobs.kubectl.wait("sj/train", until="condition=Suspended", seconds=START_SECONDS)
    assert not [pod for pod in real_jobs.pods() if pod["status"]["phase"] == "Running"]
    real_jobs.kubectl.patch("sj", "train", '{"spec": {"suspend": false}}')
    status = real_jobs.until("Succeeded")
    assert counters(status) == (0, 0)
    assert (status["uncharged"], status["attempt"]) == (1, 1)


@pytest.mark.thorough
def test_twenty_jobs_at_once_share_two_slices(real_jobs: Jobs) -> None:
    names = [f"job-{number:02}" for number in range(20)]
    for name in names:
        real_jobs.apply(name, accelerator={"type": "v5p-16", "spot": True}, command=["true"])
    for name in names:
        status = real_jobs.until("Succeeded", name)
        assert counters(status) == (0, 0)


@pytest.mark.row("B-18")
def test_any_value_reaches_the_program_byte_for_byte(real_jobs: Jobs) -> None:
    value = "ümlaut\n\ttab $(X) 'quote' " + "x" * 10_000
    check = 'printf %s "$GIVEN" | md5sum'
    real_jobs.apply(env=[{"name": "GIVEN", "value": value}], command=["sh", "-c", check])
    real_jobs.until("Succeeded")
    import hashlib

    expected = hashlib.md5(value.encode(), usedforsecurity=False).hexdigest()
    assert expected in real_jobs.kubectl("logs", "train-0-0-0").stdout

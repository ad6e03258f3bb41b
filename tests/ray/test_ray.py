"""A real Ray on real nodes: entrypoints, losses, kept clusters, and who may use them."""

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway.devcluster import NativeCluster
from tests.clusters import having_gpus
from tests.places import ROOT
from tests.ray.image import IMAGE
from tests.ray.page import MARKED, blocks, run
from tests.running import Jobs
from tests.waiting import START_SECONDS

SMALL = {"resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}
TPU: dict[str, Any] = {"accelerator": {"type": "v5p-16", "spot": True}, "slices": 2, "image": IMAGE}
CPU: dict[str, Any] = {"hosts": 1, "image": IMAGE}


def program(name: str) -> str:
    return (ROOT / "tests/ray/programs" / name).read_text()


def running(name: str, **env: str) -> dict[str, Any]:
    """Fields of a job whose entrypoint is a program of these tests."""
    variables = [{"name": key, "value": value} for key, value in {"PROGRAM": program(name), **env}.items()]
    return {"env": variables, "ray": {"entrypoint": 'python3 -c "$PROGRAM"', "head": SMALL}}


def printed(jobs: Jobs, attempt: int = 0, name: str = "train") -> str:
    return jobs.kubectl("logs", f"{name}-{attempt}-head", "-c", "driver", check=False).stdout


def until_begun(jobs: Jobs, attempt: int, name: str = "train") -> float:
    """Wait for the entrypoint's first line; returns when that was."""
    said = f"begin attempt={attempt}"
    jobs.until_true(said, lambda: said in printed(jobs, attempt, name), seconds=START_SECONDS, every=0.3)
    return time.monotonic()


def counters(status: Any) -> tuple[int, int]:
    return status["failures"], status["preemptions"]


def measured(capsys: pytest.CaptureFixture[str], what: str, since: float, until: float) -> None:
    with capsys.disabled():
        print(f"\n{what}: {until - since:.1f} s")


def token(jobs: Jobs, name: str = "train") -> str:
    secret = jobs.kubectl.get("secret", jobs.status(name)["ray"]["tokenSecret"])
    return base64.b64decode(secret["data"]["token"]).decode()


def test_the_example_reaches_every_host_though_the_operator_is_killed(
    real_jobs: Jobs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:  # E2-10, E2-30, E2-79
    script, _ = blocks("sh", MARKED)
    start = time.monotonic()
    with ThreadPoolExecutor(1) as background:
        shown = background.submit(run, real_jobs, script, tmp_path)
        measured(capsys, "apply -> entrypoint running, 2x2", start, until_begun(real_jobs, 0, "fan-out"))
        real_jobs.operator.kill()
        real_jobs.operator.start_again()
        log = shown.result()
    status = real_jobs.until("Succeeded", "fan-out")
    assert (status["attempt"], counters(status)) == (0, (0, 0))
    assert status["result"]["message"] == "the entrypoint of attempt 0 exited 0"
    assert log.count("begin attempt=0 slices=2 hosts=2 chips=4") == 1
    hosts = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    assert [(one["TPU_NAME"], one["TPU_WORKER_ID"], one["SLIPWAY_RANK"]) for one in hosts] == [
        ("fan-out-s0", "0", "0"),
        ("fan-out-s0", "1", "1"),
        ("fan-out-s1", "0", "2"),
        ("fan-out-s1", "1", "3"),
    ]
    assert len({one["hostname"] for one in hosts}) == 4
    space = real_jobs.kubectl.namespace
    for one in hosts:
        assert one["MEGASCALE_COORDINATOR_ADDRESS"] == f"0-0-0.fan-out.{space}.svc:8081"
        assert (one["MEGASCALE_PORT"], one["MEGASCALE_NUM_SLICES"]) == ("8081", "2")
        assert one["MEGASCALE_SLICE_ID"] == one["TPU_NAME"][-1]
    assert_no_secret_is_told(real_jobs, token(real_jobs, "fan-out"))


def assert_no_secret_is_told(jobs: Jobs, secret: str) -> None:
    assert len(secret) == 64
    told = jobs.kubectl("get", "sj,pods,services,events,networkpolicies", "-o", "yaml").stdout
    assert secret not in told + jobs.operator.log.read_text()


KILL_GCS = (
    "import os; [os.kill(int(p), 9) for p in os.listdir('/proc') if p.isdigit() "
    "and os.path.realpath(f'/proc/{p}/exe').endswith('gcs_server')]"
)


@pytest.mark.row("B-65", "E2-80", "E2-81")
@pytest.mark.thorough
def test_a_preempted_host_and_then_a_killed_head_each_mean_a_new_cluster(
    real_jobs: Jobs, real_nodes: NativeCluster, capsys: pytest.CaptureFixture[str]
) -> None:
    real_jobs.apply(**TPU, **running("wait_or_place.py"))
    until_begun(real_jobs, 0)
    node = real_jobs.kubectl.get("pod", "train-0-1-1")["spec"]["nodeName"]
    start = time.monotonic()
    real_nodes.preempt(node)
    try:
        real_jobs.until_true("attempt 1", lambda: real_jobs.status()["attempt"] == 1)
    finally:
        real_nodes.restore(node)
    back = time.monotonic()
    begun = until_begun(real_jobs, 1)
    measured(capsys, "worker's node gone -> next entrypoint running, 2x2", start, begun)
    measured(capsys, "  of it after the node was back", back, begun)
    start = time.monotonic()
    # The container may end before it has answered.
    real_jobs.kubectl("exec", "train-1-head", "-c", "ray-head", "--", "python3", "-c", KILL_GCS, check=False)
    measured(capsys, "head killed -> next entrypoint running, 2x2", start, until_begun(real_jobs, 2))
    status = real_jobs.until("Succeeded")
    assert counters(status) == (1, 1), status["attempts"]
    _, second, first = status["attempts"]
    root = first["root"]
    assert (first["cause"], root["node"], root["slice"], root["host"]) == ("preemption", node, 1, 1)
    assert (second["cause"], second["root"]["pod"]) == ("failure", "train-1-head"), second
    # Ray's own placement helpers find the slices by what the workers offer.
    assert printed(real_jobs, 2).count("begin attempt=2") == 1
    placed = next(json.loads(line) for line in printed(real_jobs, 2).splitlines() if line.startswith("{"))
    assert placed == {
        "ready": 2,
        "hosts": 4,
        "placed": [["train-s0", "0"], ["train-s0", "1"], ["train-s1", "0"], ["train-s1", "1"]],
    }


def entrypoint(command: str, **fields: Any) -> dict[str, Any]:
    return CPU | {"ray": {"entrypoint": command, "head": SMALL}} | fields


@pytest.mark.row("B-65", "E2-23")
@pytest.mark.thorough
def test_ray_offers_the_gpus_of_a_host(real_nodes: NativeCluster, real_jobs: Jobs) -> None:  # E2-11
    with having_gpus(real_nodes, "cpu-0"):
        tolerant = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}
        gpus = {"accelerator": {"gpu": {"vendor": "nvidia", "count": 2}}}
        real_jobs.apply(**CPU, **gpus, **tolerant, **running("take_gpus.py"))
        real_jobs.until("Succeeded", seconds=START_SECONDS)
    [found] = [json.loads(line) for line in printed(real_jobs).splitlines() if line.startswith('{"offered"')]
    assert found == {"offered": 2.0, "taken": 2}


@pytest.mark.thorough
def test_an_entrypoint_that_fails_or_is_missing_is_charged_with_its_last_words(real_jobs: Jobs) -> None:
    says = 'echo "RuntimeError: worker was preempted, owner died" >&2; exit 7'
    command = f"if [ $SLIPWAY_ATTEMPT = 0 ]; then {says}; fi; python3 /no/such.py"
    real_jobs.apply(**entrypoint(command, retries={"maxFailures": 2}))
    status = real_jobs.until("Failed", seconds=2 * START_SECONDS)
    assert counters(status) == (2, 0)
    second, first = status["attempts"]
    assert (first["reason"], first["root"]["exitCode"]) == ("ExitCode", 7)
    assert "RuntimeError: worker was preempted" in first["root"]["log"]
    assert (second["reason"], second["root"]["exitCode"]) == ("ExitCode", 2)
    assert "/no/such.py" in second["message"]
    assert status["result"]["exitCode"] == 2
    # The logs of what failed can still be read.
    assert "No such file" in printed(real_jobs, 1)


@pytest.mark.row("B-65")
@pytest.mark.thorough
def test_a_worker_with_another_ray_version_is_a_failure(real_jobs: Jobs) -> None:
    other = {"name": "PYTHONPATH", "value": "/other_version"}
    template = {"spec": {"containers": [{"name": "worker", "env": [other]}]}}
    real_jobs.apply(**entrypoint("true", podTemplate=template, retries={"maxFailures": 1}))
    status = real_jobs.until("Failed", seconds=2 * START_SECONDS)
    assert counters(status) == (1, 0)
    [attempt] = status["attempts"]
    assert (attempt["reason"], attempt["root"]["pod"]) == ("ExitCode", "train-0-0-0")
    assert "Version mismatch" in attempt["root"]["log"]
    assert "2.52.0" in attempt["root"]["log"]


CLIENT = """
import sys, ray
try:
    ray.init("ray://session-head:10001")
except Exception as error:
    sys.exit(f"refused: {type(error).__name__}: {error}")
print("workers", sum(node["Resources"].get("CPU", 0) > 0 for node in ray.nodes()))
print("answer", ray.get(ray.remote(lambda: 6 * 7).remote()))
"""


ASK_FOR_JOBS = (
    "import json, sys, urllib.request as r; "
    "r.urlopen(r.Request('http://session-head:8265/api/jobs/', headers=json.loads(sys.argv[1])))"
)


def client(name: str, env: list[dict[str, Any]], tries: int = 1) -> dict[str, Any]:
    """A pod that connects to the Ray cluster, in a new process for each try."""
    shell = 'for _ in $(seq $TRIES); do python3 -c "$CLIENT" && exit; done; exit 1'
    given = [{"name": "CLIENT", "value": CLIENT}, {"name": "TRIES", "value": str(tries)}, *env]
    container = {"name": "client", "image": IMAGE, "command": ["sh", "-c", shell], "env": given}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": {"slipway.dev/ray-client": "session"}},
        "spec": {
            "restartPolicy": "Never",
            "nodeName": "cpu-0",
            "containers": [container | {"imagePullPolicy": "Never"}],
        },
    }


def with_token(secret: str) -> list[dict[str, Any]]:
    reference = {"secretKeyRef": {"name": secret, "key": "token"}}
    return [{"name": "RAY_AUTH_MODE", "value": "token"}, {"name": "RAY_AUTH_TOKEN", "valueFrom": reference}]


@pytest.mark.timeout(900)
@pytest.mark.thorough
def test_a_kept_cluster_serves_who_has_the_token(real_jobs: Jobs, tmp_path: Path) -> None:  # E2-62
    kubectl = real_jobs.kubectl
    [kept] = blocks("yaml", MARKED)
    _, script = blocks("sh", MARKED)
    kubectl.apply(yaml.safe_load(kept))
    kubectl.wait("sj/session", until="condition=Ready", seconds=START_SECONDS)
    status = real_jobs.status("session")
    assert (status["phase"], status["ray"]["service"]) == ("Running", "session-head")
    # Ray forks a client's server from a process that has threads, and now and then the child dies of that
    # (ray-project/ray#63408): who is let in may have to try again.
    knows = client("knows", with_token(status["ray"]["tokenSecret"]), tries=3)
    code, log = real_jobs.ran(knows)
    assert (code, "answer 42" in log) == (0, True), log
    code, log = real_jobs.ran(client("asks", [{"name": "RAY_AUTH_MODE", "value": "disabled"}]))
    assert (code, "refused" in log) == (1, True), log
    for header, answer in (({}, "401"), ({"Authorization": "Bearer " + "0" * 64}, "403")):
        done = kubectl("exec", "session-0-0-0", "--", "python3", "-c", ASK_FOR_JOBS, json.dumps(header), check=False)
        assert f"HTTP Error {answer}" in done.stderr
    policy = kubectl.get("networkpolicy", "session-ray")["spec"]
    assert policy["podSelector"]["matchLabels"] == {
        "slipway.dev/job-uid": kubectl.get("sj", "session")["metadata"]["uid"]
    }
    assert_no_secret_is_told(real_jobs, token(real_jobs, "session"))
    assert real_jobs.status("session")["phase"] == "Running"
    assert "ray_version" in run(real_jobs, script, tmp_path)
    real_jobs.until_true("the cluster's end", lambda: not real_jobs.pods("session"))

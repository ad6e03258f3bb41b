"""Mistakes that only a kubelet or a registry finds: what the job says of them, on real nodes."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from slipway.devcluster.native.provider import NativeCluster
from tests.clusters import create_namespace, kubectl_for, served
from tests.mistakes import Outcome, condition, note, seconds_between, shown
from tests.running import Jobs, Operator
from tests.stages import thorough_but
from tests.waiting import START_SECONDS, pause

NODE = "cpu-0"
WATCHED = 100
"""For how many seconds the jobs are watched at least, for the page. Slipway releases their nodes after 60 s."""
ANSWERS = {5401: "401 Unauthorized", 5404: "404 Not Found", 5503: "503 Unavailable"}
"""Ports of the node, and what the registry there answers to everything."""


def answering(port: int, answer: str) -> dict[str, Any]:
    """A container that is such a registry. It reads the request before it answers: else the connection is reset."""
    lines = f"HTTP/1.1 {answer}\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n"
    program = f"while read -r line && [ ${{#line}} -gt 1 ]; do :; done; printf '{lines}'"
    command = ["nc", "-ll", "-p", str(port), "-e", "sh", "-c", program]
    listens = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    return {
        "name": f"port-{port}", "image": "slipway.local/busybox:1", "command": command, "readinessProbe": listens,
    }  # fmt: skip


@contextmanager
def registries(jobs: Jobs) -> Iterator[None]:
    """Registries on a node, which containerd asks without TLS because they are at a loopback address."""
    spec = {"hostNetwork": True, "nodeName": NODE, "terminationGracePeriodSeconds": 1}
    spec |= {"containers": [answering(port, answer) for port, answer in ANSWERS.items()]}
    jobs.kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "registries"}, "spec": spec})
    jobs.kubectl.wait("pod/registries", until="condition=Ready", seconds=START_SECONDS)
    yield
    jobs.kubectl("delete", "pod", "registries", "--wait=true")


def secret_key(kind: str, name: str, key: str) -> dict[str, Any]:
    return {"env": [{"name": "A", "valueFrom": {f"{kind}KeyRef": {"name": name, "key": key}}}]}


MISTAKES: dict[str, tuple[dict[str, Any], str, str]] = {
    "E1-22 an image that is not there": ({"image": "127.0.0.1:5404/a:typo"}, "ImageUnavailable", "a:typo"),
    "a registry that wants credentials": ({"image": "127.0.0.1:5401/a:1"}, "ImageUnavailable", "imagePullSecrets"),
    "a registry that is unwell": ({"image": "127.0.0.1:5503/a:1"}, "ImageUnavailable", "a:1"),
    "no registry at that address": ({"image": "127.0.0.1:1/a:1"}, "ImageUnavailable", "127.0.0.1:1/a:1"),
    "an image that is not on the node": (
        {"image": "nobody/has:this", "imagePullPolicy": "Never"},
        "ImageUnavailable",
        "imagePullPolicy",
    ),
    "B-24 a missing Secret": (secret_key("secret", "token", "value"), "MissingObjects", "Secret token is missing"),
    "a missing ConfigMap": (
        {"envFrom": [{"configMapRef": {"name": "settings"}}]},
        "MissingObjects",
        "ConfigMap settings is missing",
    ),
    "a missing key": (
        secret_key("configMap", "kube-root-ca.crt", "nothing"),
        "MissingObjects",
        "key nothing of ConfigMap kube-root-ca.crt is missing",
    ),
    "B-24 a missing Secret as a volume": (
        {
            "volumes": [{"name": "token", "secret": {"secretName": "token"}}],
            "volumeMounts": [{"name": "token", "mountPath": "/token"}],
        },
        "MissingObjects",
        "Secret token is missing",
    ),
    "a folder that is not on the node": (
        {
            "volumes": [{"name": "data", "hostPath": {"path": "/no/such/folder", "type": "Directory"}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        },
        "VolumeNotMounted",
        "hostPath type check failed",
    ),
}
RELEASED = [name for name, row in MISTAKES.items() if row[1] != "VolumeNotMounted"]


def is_named(outcome: Outcome) -> bool:
    """Whether all that people look at says what the mistake is."""
    _, reason, words = MISTAKES[outcome.mistake]
    phase = "Pending" if reason == "MissingObjects" else "Starting"
    return (outcome.phase, outcome.reason, outcome.event) == (phase, reason, reason) and words in outcome.message


@pytest.fixture(scope="module")
def outcomes(real_nodes: NativeCluster, node_operator: Operator) -> Iterator[dict[str, Outcome]]:
    """What was said of every mistake, all made at once, and for how long each job's first attempt held its node."""
    kubectl = kubectl_for(real_nodes, "mistakes")
    create_namespace(real_nodes, kubectl.namespace)
    for jobs in served(Jobs(kubectl, node_operator.running(), START_SECONDS), wait=False):
        with registries(jobs):
            yield watched(jobs)
    kubectl("delete", "namespace", kubectl.namespace, "--wait=false")


def watched(jobs: Jobs) -> dict[str, Outcome]:
    names = {f"mistake-{number}": mistake for number, mistake in enumerate(MISTAKES)}
    began: dict[str, float] = {}
    said: dict[str, Outcome] = {}
    held: dict[str, float] = {}
    start = time.monotonic()
    for name, mistake in names.items():
        jobs.apply(name, hosts=1, nodeSelector={"kubernetes.io/hostname": NODE}, **MISTAKES[mistake][0])
        began[name] = time.monotonic()

    def look() -> bool:
        stored = {one["metadata"]["name"]: one for one in jobs.kubectl.get("sj")["items"]}
        events = jobs.kubectl.get("events.events.k8s.io")["items"]
        told = {(one["regarding"]["name"], one["reason"]) for one in events}
        for name, mistake in names.items():
            reason, first = MISTAKES[mistake][1], first_attempt(stored[name])
            if "endTime" in first:
                held[name] = seconds_between(first["startTime"], first["endTime"])
            if name in said and is_named(said[name]):
                continue
            # A registry that resets a connection first, or an attempt between two, is said in other words for a while.
            if condition(stored[name], "Running").get("reason") == reason and (name, reason) in told:
                said[name] = shown(mistake, jobs, name, seconds=time.monotonic() - began[name])
        named = {one.mistake for one in said.values() if is_named(one)}
        return named == MISTAKES.keys() and {names[name] for name in held} >= set(RELEASED)

    while not look() and time.monotonic() - start < START_SECONDS:
        pause(0.5)
    watched = max(WATCHED, time.monotonic() - start)
    # What is not released goes on holding its node.
    while time.monotonic() - start < watched:
        look()
        pause(0.5)
    return {
        names[name]: note(replace(one, held=held.get(name, watched), watched=watched)) for name, one in said.items()
    }


def first_attempt(stored: Mapping[str, Any]) -> Mapping[str, Any]:
    """As long as the status has it; nothing before and after that."""
    return next((one for one in stored.get("status", {}).get("attempts", ()) if one["number"] == 0), {})


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.thorough
def test_a_mistake_that_keeps_pods_from_starting_is_named(mistake: str, outcomes: dict[str, Outcome]) -> None:
    assert mistake in outcomes, f"{MISTAKES[mistake][1]} was not said"
    assert is_named(outcomes[mistake]), outcomes[mistake]


@pytest.mark.parametrize("mistake", RELEASED)
@pytest.mark.thorough
def test_a_job_that_waits_for_people_holds_its_nodes_for_a_minute_only(
    mistake: str, outcomes: dict[str, Outcome]
) -> None:
    outcome = outcomes[mistake]
    assert outcome.held < outcome.watched, "they were not released"
    # The minute begins when Slipway sees what is wrong, and on a busy machine a kubelet takes long to say it.
    assert outcome.held < outcome.seconds + 2 * 60


@pytest.mark.row("B-24")
def test_a_job_starts_when_the_missing_object_appears(real_jobs: Jobs) -> None:
    real_jobs.apply(hosts=1, command=["true"], **secret_key("secret", "token", "value"))
    real_jobs.until_true("a reason", lambda: (real_jobs.condition("Running") or {}).get("reason") == "MissingObjects")
    real_jobs.kubectl("create", "secret", "generic", "token", "--from-literal=value=1")
    status = real_jobs.until("Succeeded")
    assert (status["failures"], status["attempt"]) == (0, 0)


NEVER: dict[str, tuple[dict[str, Any], str]] = {
    "a command that is not in the image": ({"command": ["trian.py"]}, "the command trian.py is not in the image"),
    "a command that may not be executed": ({"command": ["/etc/hostname"]}, "/etc/hostname"),
    "root, where that is forbidden": ({"securityContext": {"runAsNonRoot": True}}, "runAsUser"),
}


@pytest.mark.parametrize("mistake", thorough_but({"root, where that is forbidden"}, NEVER))
def test_what_never_starts_ends_the_job_after_three_attempts(mistake: str, real_jobs: Jobs) -> None:
    fields, words = NEVER[mistake]
    real_jobs.apply(hosts=2, **fields)
    began = time.monotonic()
    status = real_jobs.until("Failed")
    assert status["result"]["reason"] == "StartFailureLimitExceeded"
    assert [one["reason"] for one in status["attempts"]] == ["CannotStart"] * 3
    assert words in status["result"]["message"]
    held = sum(seconds_between(one["startTime"], one["endTime"]) for one in status["attempts"])
    note(shown(mistake, real_jobs, "train", seconds=time.monotonic() - began, held=held))

"""Mistakes that only a kubelet or a registry finds: what the job says of them, on real nodes."""

from collections.abc import Iterator
from typing import Any

import pytest

from slipway.local_cluster.provider import NativeCluster
from tests.running import Jobs

NODE = "cpu-0"
ANSWERS = {5401: "401 Unauthorized", 5404: "404 Not Found", 5503: "503 Unavailable"}
"""Ports of the node, and what the registry there answers to everything."""


def answering(port: int, answer: str) -> dict[str, Any]:
    """A container that is such a registry."""
    lines = f"HTTP/1.1 {answer}\\r\\nContent-Length: 0\\r\\nConnection: close\\r\\n\\r\\n"
    program = f"while true; do printf '{lines}' | nc -l -p {port} > /dev/null; done"
    return {"name": f"port-{port}", "image": "slipway.local/busybox:1", "command": ["sh", "-c", program]}


@pytest.fixture
def registries(real_jobs: Jobs, real_nodes: NativeCluster) -> Iterator[str]:
    """Registries on a node, which containerd asks without TLS because they are at a loopback address."""
    spec = {"hostNetwork": True, "nodeName": NODE, "terminationGracePeriodSeconds": 1}
    spec |= {"containers": [answering(port, answer) for port, answer in ANSWERS.items()]}
    real_jobs.kubectl.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "registries"}, "spec": spec})
    real_jobs.kubectl("wait", "pod/registries", "--for=condition=Ready", "--timeout=60s")
    yield NODE
    real_jobs.kubectl("delete", "pod", "registries", "--wait=true")


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


@pytest.mark.parametrize(("fields", "reason", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_that_keeps_pods_from_starting_is_named(
    fields: dict[str, Any], reason: str, words: str, registries: str, real_jobs: Jobs
) -> None:
    real_jobs.apply(hosts=1, nodeSelector={"kubernetes.io/hostname": registries}, **fields)
    real_jobs.until_true(reason, lambda: (real_jobs.condition("Running") or {}).get("reason") == reason)
    running = real_jobs.condition("Running")
    assert words in running["message"]
    assert real_jobs.status()["phase"] == ("Pending" if reason == "MissingObjects" else "Starting")
    assert reason in real_jobs.kubectl("get", "sj", "train").stdout
    real_jobs.until_true("an Event", lambda: reason in real_jobs.events())


def test_a_job_starts_when_the_missing_object_appears(real_jobs: Jobs) -> None:
    real_jobs.apply(hosts=1, command=["true"], **secret_key("secret", "token", "value"))
    real_jobs.until_true("a reason", lambda: (real_jobs.condition("Running") or {}).get("reason") == "MissingObjects")
    real_jobs.kubectl("create", "secret", "generic", "token", "--from-literal=value=1")
    status = real_jobs.until("Succeeded", seconds=120)
    assert (status["failures"], status["attempt"]) == (0, 0)


NEVER: dict[str, tuple[dict[str, Any], str]] = {
    "a command that is not in the image": ({"command": ["trian.py"]}, "the command trian.py is not in the image"),
    "a command that may not be executed": ({"command": ["/etc/hostname"]}, "/etc/hostname"),
    "root, where that is forbidden": ({"securityContext": {"runAsNonRoot": True}}, "runAsUser"),
}


@pytest.mark.parametrize(("fields", "words"), NEVER.values(), ids=NEVER)
def test_what_never_starts_ends_the_job_after_three_attempts(
    fields: dict[str, Any], words: str, real_jobs: Jobs
) -> None:
    real_jobs.apply(hosts=2, **fields)
    status = real_jobs.until("Failed")
    assert status["result"]["reason"] == "StartFailureLimitExceeded"
    assert [one["reason"] for one in status["attempts"]] == ["CannotStart"] * 3
    assert words in status["result"]["message"]

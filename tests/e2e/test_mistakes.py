"""Mistakes that only a kubelet or a registry finds: what the job says of them, on real nodes."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from tests.running import Jobs

ANSWERS = {"away": 503, "denied": 401, "limited": 429, "missing": 404}
"""What the registry of these tests answers for each repository."""


class Registry(BaseHTTPRequestHandler):
    """A registry that has nothing to give."""

    def do_HEAD(self) -> None:
        self.send_response(next((code for name, code in ANSWERS.items() if f"/{name}/" in self.path), 200))
        self.end_headers()

    def do_GET(self) -> None:
        self.do_HEAD()

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture(scope="module")
def registry() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"127.0.0.1:{server.server_address[1]}"
    server.shutdown()


def secret_key(kind: str, name: str, key: str) -> dict[str, Any]:
    return {"env": [{"name": "A", "valueFrom": {f"{kind}KeyRef": {"name": name, "key": key}}}]}


MISTAKES: dict[str, tuple[dict[str, Any], str, str]] = {
    "E1-22 an image that is not there": ({"image": "{registry}/missing:typo"}, "ImageNotFound", "missing:typo"),
    "a registry that wants credentials": ({"image": "{registry}/denied:1"}, "ImagePullDenied", "imagePullSecrets"),
    "a registry that limits": ({"image": "{registry}/limited:1"}, "RegistryRateLimited", "limited:1"),
    "a registry that is unwell": ({"image": "{registry}/away:1"}, "RegistryUnavailable", "away:1"),
    "no registry at that address": ({"image": "127.0.0.1:1/a:1"}, "RegistryUnavailable", "127.0.0.1:1/a:1"),
    "an image that is not on the node": (
        {"image": "nobody/has:this", "imagePullPolicy": "Never"},
        "ImageNotOnNode",
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
    "root, where that is forbidden": ({"securityContext": {"runAsNonRoot": True}}, "ImageRunsAsRoot", "runAsUser"),
}


@pytest.mark.parametrize(("fields", "reason", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_that_keeps_pods_from_starting_is_named(
    fields: dict[str, Any], reason: str, words: str, registry: str, real_jobs: Jobs
) -> None:
    told = {name: value.format(registry=registry) if name == "image" else value for name, value in fields.items()}
    real_jobs.apply(**({"hosts": 1, "slices": 1} | told))
    real_jobs.until_true(reason, lambda: (real_jobs.condition("Running") or {}).get("reason") == reason)
    running = real_jobs.condition("Running")
    assert words in running["message"]
    assert real_jobs.status()["phase"] == "Starting"
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
    "an image name that is none": ({"image": "Busybox:1"}, "write it as registry/repository:tag"),
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

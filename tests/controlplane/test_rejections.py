"""Pods that a rule of the namespace or of the cluster refuses: the job says whose rule it is, and what would help."""

import base64
import json
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from slipway.devcluster.native import pki
from tests.mistakes import note, shown
from tests.running import Jobs

NOWHERE = "https://127.0.0.1:1/"
ADMISSION = "admissionregistration.k8s.io/v1"


@contextmanager
def nothing(jobs: Jobs) -> Iterator[None]:
    yield


@contextmanager
def there(jobs: Jobs, kind: str, api: str = "v1", /, **fields: Any) -> Iterator[None]:
    """An object named `rule`, for as long as the test runs."""
    jobs.kubectl.apply({"apiVersion": api, "kind": kind, "metadata": {"name": "rule"}} | fields)
    try:
        yield
    finally:
        jobs.kubectl("delete", kind, "rule")


@contextmanager
def quota(jobs: Jobs) -> Iterator[None]:
    with there(jobs, "ResourceQuota", spec={"hard": {"pods": "0"}}):
        jobs.kubectl.wait("resourcequota/rule", until="jsonpath={.status.hard.pods}=0")
        yield


@contextmanager
def quota_of_cpu(jobs: Jobs) -> Iterator[None]:
    with there(jobs, "ResourceQuota", spec={"hard": {"limits.cpu": "10"}}):
        jobs.kubectl.wait("resourcequota/rule", until="jsonpath={.status.hard.limits\\.cpu}=10")
        yield


def limit_range(jobs: Jobs) -> AbstractContextManager[None]:
    return there(jobs, "LimitRange", spec={"limits": [{"type": "Container", "max": {"cpu": "1"}}]})


@contextmanager
def pod_security(jobs: Jobs) -> Iterator[None]:
    label = "pod-security.kubernetes.io/enforce"
    jobs.kubectl("label", "namespace", jobs.kubectl.namespace, f"{label}=restricted")
    try:
        yield
    finally:
        jobs.kubectl("label", "namespace", jobs.kubectl.namespace, f"{label}-")


PODS = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]}]


def here(jobs: Jobs) -> dict[str, Any]:
    return {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": jobs.kubectl.namespace}}}


@contextmanager
def policy(jobs: Jobs) -> Iterator[None]:
    wanted = {"expression": "object.spec.containers[0].image.contains('@')", "message": "images need a digest"}
    spec = {"matchConstraints": {"resourceRules": PODS} | here(jobs), "validations": [wanted]}
    binding = {"policyName": "rule", "validationActions": ["Deny"]}
    with (
        there(jobs, "ValidatingAdmissionPolicy", ADMISSION, spec=spec),
        there(jobs, "ValidatingAdmissionPolicyBinding", ADMISSION, spec=binding),
    ):
        until_refused(jobs, "digest")
        yield


@contextmanager
def webhook(jobs: Jobs, url: str, bundle: bytes = b"", *, seconds: int) -> Iterator[None]:
    config = {"url": url} | ({"caBundle": base64.b64encode(bundle).decode()} if bundle else {})
    hook = {"name": "images.example.com", "clientConfig": config, "rules": PODS, "sideEffects": "None"} | here(jobs)
    hook |= {"admissionReviewVersions": ["v1"], "failurePolicy": "Fail", "timeoutSeconds": seconds}
    with there(jobs, "ValidatingWebhookConfiguration", ADMISSION, webhooks=[hook]):
        until_refused(jobs, "webhook")
        yield


def webhook_away(jobs: Jobs) -> AbstractContextManager[None]:
    return webhook(jobs, NOWHERE, seconds=2)


class Denies(BaseHTTPRequestHandler):
    """A webhook that admits nothing."""

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        status = {"code": 403, "message": "images come from registry.example.com only"}
        answer = {"uid": review["request"]["uid"], "allowed": False, "status": status}
        body = json.dumps({key: review[key] for key in ("apiVersion", "kind")} | {"response": answer}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Nobody reads it."""


@contextmanager
def webhook_denies(jobs: Jobs) -> Iterator[None]:
    folder = jobs.operator.log.parent / "webhook"
    pki.create(folder, ["127.0.0.1"])
    server = ThreadingHTTPServer(("127.0.0.1", 0), Denies)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "apiserver.crt", folder / "apiserver.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        url, bundle = f"https://127.0.0.1:{server.server_port}/", (folder / "ca.crt").read_bytes()
        with webhook(jobs, url, bundle, seconds=10):
            yield
    finally:
        server.shutdown()
        server.server_close()


def until_refused(jobs: Jobs, word: str) -> None:
    """The API server notices new policies and webhooks after a moment."""
    container = {"name": "probe", "image": "busybox"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "probe"}, "spec": {"containers": [container]}}

    def refused() -> bool:
        done = jobs.kubectl("create", "--dry-run=server", "-f", "-", stdin=body, check=False)
        return word in done.stderr

    jobs.until_true(f"a refusal by {word}", refused)


Scene = Callable[[Jobs], AbstractContextManager[None]]
CPUS = {"resources": {"requests": {"cpu": 2}, "limits": {"cpu": 2}}}
REJECTED: dict[str, tuple[Scene, dict[str, Any], str, str, str]] = {
    "a quota that is used up": (
        quota,
        {},
        "WaitingForCapacity",
        "QuotaExceeded",
        "exceeded quota rule: a pod requests pods=1, and pods=0 of pods=0 are used; let other",
    ),
    "a quota of CPU, and no limit": (
        quota_of_cpu,
        {},
        "Invalid",
        "QuotaNeedsResources",
        "the ResourceQuota rule takes only pods that specify limits.cpu for: worker; set them in resources",
    ),
    "more CPU than a LimitRange allows": (
        limit_range,
        CPUS,
        "Invalid",
        "LimitRangeExceeded",
        "a LimitRange of the namespace refuses the pod: maximum cpu usage per Container is 1, but limit is 2; change",
    ),
    "a namespace with restricted Pod Security": (
        pod_security,
        {},
        "Invalid",
        "PodSecurityViolated",
        "the namespace enforces the Pod Security Standard restricted, which forbids: allowPrivilegeEscalation != false",
    ),
    "a priority class that is not there": (
        nothing,
        {"priorityClassName": "high"},
        "Pending",
        "MissingObjects",
        "PriorityClass high is missing; create it",
    ),
    "an admission policy": (
        policy,
        {},
        "Invalid",
        "PolicyDenied",
        "the ValidatingAdmissionPolicy rule denies the pod: images need a digest; change what it names",
    ),
    "a webhook that denies": (
        webhook_denies,
        {},
        "Invalid",
        "WebhookDenied",
        "the admission webhook images.example.com denies the pod: images come from registry.example.com only; change",
    ),
    "a webhook that does not answer": (
        webhook_away,
        {},
        "Pending",
        "WebhookUnavailable",
        "the admission webhook images.example.com does not answer, and without it the API server creates no pods",
    ),
}


@pytest.mark.parametrize("mistake", REJECTED)
def test_the_rule_that_refuses_the_pods_is_named(mistake: str, jobs: Jobs) -> None:
    scene, fields, phase, reason, words = REJECTED[mistake]
    with scene(jobs):
        # No two are equal, or the operator would not ask again: it knows for a minute what the API server accepts.
        jobs.apply(hosts=1, args=[mistake], retries={"capacityRetrySeconds": 2}, **fields)
        began = time.monotonic()
        jobs.until_said(phase, reason, words)
        jobs.until_true("an Event", lambda: {phase, reason} & set(jobs.events()))
        assert jobs.pods() == []
        note(shown(mistake, jobs, "train", seconds=time.monotonic() - began))
    if mistake == "a priority class that is not there":
        jobs.kubectl("create", "priorityclass", "high", "--value=1")
    assert jobs.until("Running")["failures"] == 0

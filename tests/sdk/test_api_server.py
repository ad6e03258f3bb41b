"""Calls against a real API server without an operator: what it stores, defaults and refuses."""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slipway import (
    TPU,
    AlreadyExists,
    Client,
    DockerConfig,
    InvalidJob,
    RayExecutor,
    Session,
    WaitTimeout,
    run_docker_async,
)
from slipway.client import background_loop
from slipway.client.errors import Refused
from slipway.client.manifests.reading import manifest
from slipway.sdk import jobs, session
from tests.kubectl import Kubectl
from tests.waiting import ANSWER_SECONDS

CONFIG = DockerConfig("acme/train:1", ["--x"], entrypoint="python train.py", environment=["A=1"], ipc_mode="host")


def wait_for_post(client: Client, spec: dict[str, Any]) -> None:
    run = jobs.Run(client, "train", "CPU")

    async def post() -> None:
        async with client.connect() as api:
            await run.post(api, spec)

    background_loop.run(post())


@pytest.fixture
def client(kubectl: Kubectl) -> Client:
    return Client(kubectl.namespace, kubectl.kubeconfig)


def test_a_container_is_stored_when_the_call_returns(kubectl: Kubectl, client: Client) -> None:  # E1-51, N-35
    future = run_docker_async(CONFIG, name="train", client=client)
    spec = kubectl.get("sj/train")["spec"]
    assert (spec["command"], spec["args"]) == (["python", "train.py"], ["--x"])
    assert (spec["env"], spec["podTemplate"]["spec"]) == ([{"name": "A", "value": "1"}], {"hostIPC": True})
    with pytest.raises(AlreadyExists, match=r"SliceJob train in .* exists already: choose another name"):
        run_docker_async(CONFIG, name="train", client=client)
    future.cancel()
    assert kubectl.get("sj/train")["spec"]["cancel"] is True


UNKNOWN: dict[str, tuple[dict[str, Any], str]] = {
    "Python's spelling": ({"retries": {"max_failures": 1}}, "did you mean maxFailures?"),
    "Python's spelling at the top": ({"node_selector": {"a": "b"}}, "did you mean nodeSelector?"),
    "another tool's word": ({"backoffLimit": 3}, "spec.backoffLimit is not a known field"),
}


@pytest.mark.parametrize(("fields", "said"), UNKNOWN.values(), ids=UNKNOWN)
def test_a_field_that_would_be_dropped_is_refused_by_every_way_in(
    kubectl: Kubectl, client: Client, fields: dict[str, Any], said: str
) -> None:  # B-07
    body = manifest("train", {"image": "busybox:1"} | fields)
    with pytest.raises(Refused, match=re.escape(said)):
        client.submit(body)
    with pytest.raises(ValueError, match=re.escape(said)):
        run_docker_async(CONFIG, spec=fields, name="train", client=client)
    assert kubectl.get("sj")["items"] == []


def test_the_api_server_drops_no_field_that_this_client_knows_and_its_definition_does_not(
    kubectl: Kubectl, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A definition of an older version is in the cluster, say."""
    monkeypatch.setattr("slipway.client.manifests.reading.check", lambda body: None)
    with pytest.raises(Refused, match=r'unknown field "spec\.newer"'):
        client.submit(manifest("train", {"image": "busybox:1", "newer": 1}))
    with pytest.raises(InvalidJob, match=r'unknown field "spec\.newer"'):
        wait_for_post(client, {"image": "busybox:1", "newer": 1})
    assert kubectl.get("sj")["items"] == []


@pytest.mark.parametrize(("call", "said"), [
    (lambda client: run_docker_async(DockerConfig("Acme/Train"), client=client), "image Acme/Train is not an image"),
    (lambda client: run_docker_async(CONFIG, name="No_Name", client=client), "No_Name"),
])  # fmt: skip
def test_what_can_never_start_is_told_at_once(client: Client, call: Callable[[Client], Any], said: str) -> None:
    with pytest.raises(InvalidJob, match=said):
        call(client)


def test_a_session_knows_its_equals(kubectl: Kubectl, client: Client, monkeypatch: pytest.MonkeyPatch) -> None:  # E2-63
    monkeypatch.setattr(session, "GONE_SECONDS", ANSWER_SECONDS)
    mine = RayExecutor(TPU("v5litepod-16", 2, spot=True), "acme/ray:1", client=client, timeout=1.0, quiet=True)
    run_by_another = Session(replace(mine, timeout=None), name="lab")
    waiting = run_by_another.start_function(len, ("",))
    kubectl("wait", "--for=create", "sj/lab", f"--timeout={ANSWER_SECONDS}s")
    same = Session(replace(mine, accelerator=TPU("v5e-4x4", 2, spot=True)), name="lab")
    with pytest.raises(WaitTimeout, match="it is not ready after timeout=1 s"):
        same.ensure()
    other = Session(replace(mine, image="acme/ray:2", timeout=None), name="lab")
    with pytest.raises(AlreadyExists, match="exists with image 'acme/ray:1' and not 'acme/ray:2': choose"):
        other.ensure()
    waiting.cancel()
    Session(mine, name="lab").close()
    assert kubectl.get("sj")["items"] == []

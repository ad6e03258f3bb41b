"""Calls against a real API server without an operator: what it stores, defaults and refuses."""

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
from slipway.sdk import session
from tests.kubectl import Kubectl
from tests.waiting import ANSWER_SECONDS

CONFIG = DockerConfig("acme/train:1", ["--x"], entrypoint="python train.py", environment=["A=1"], ipc_mode="host")


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

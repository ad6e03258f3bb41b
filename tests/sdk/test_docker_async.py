"""A container that nobody waits for: what is known when the call returns, and what stays when the caller goes."""

import re
import subprocess
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest

from slipway import DockerConfig, InvalidJob, run_docker_async
from slipway.api.places import Place
from slipway.client.logs import Item, Line, Opening
from slipway.sdk import outputs
from tests.sdk.server import Server, until
from tests.waiting import ANSWER_SECONDS

CONFIG = DockerConfig("acme/train:1")


def test_the_job_is_there_when_the_call_returns(server: Server) -> None:  # E1-51
    server.log = "done\n"
    future = run_docker_async(CONFIG, name="train", client=server.client)
    assert list(server.jobs) == ["train"]
    assert not future.done()
    server.tell("train", phase="Succeeded")
    done = future.result(timeout=ANSWER_SECONDS)
    assert (done.exit_code, done.stdout, server.jobs) == (0, "done\n", {})


def test_a_refusal_is_told_at_once(server: Server) -> None:
    server.refusal = "image is empty"
    with pytest.raises(InvalidJob, match="image is empty"):
        run_docker_async(CONFIG, client=server.client)


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"hosts": 2}, "runs on 1 host, not 2 (slices: 1, hosts of each: 2)"),
        ({"slices": 3}, "runs on 1 host, not 3 (slices: 3, hosts of each: 1)"),
        ({"acceptableSlices": [1, 2]}, "runs on 1 host, not 2 (slices: 2, hosts of each: 1)"),
        ({"accelerator": {"type": "v5p-16"}}, "runs on 1 host, not 2 (slices: 1, hosts of each: 2)"),
    ],
    ids=["hosts", "slices", "acceptable slices", "a TPU slice of several hosts"],
)
def test_several_hosts_are_refused_before_there_is_a_job(server: Server, spec: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        run_docker_async(CONFIG, spec=spec, client=server.client)
    assert server.asked == 0


def test_a_job_that_failed_stays(server: Server) -> None:
    server.log = "no\n"
    future = run_docker_async(CONFIG, name="train", client=server.client)
    server.tell("train", phase="Failed", attempts=[{"number": 0, "root": {"exitCode": 3}}])
    assert (future.result(timeout=ANSWER_SECONDS).exit_code, list(server.jobs)) == (3, ["train"])


def test_output_that_could_not_be_followed_is_read_once_and_a_warning_says_so(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    server.log, server.hides_pods = "done\n", True
    future = run_docker_async(CONFIG, name="train", client=server.client)
    server.tell("train", phase="Succeeded")
    assert future.result(timeout=ANSWER_SECONDS).stdout == "done\n"
    [warning] = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert warning.startswith("SliceJob train in x: its log could not be followed, and is read once after its end: ")
    assert "pods is forbidden: User u cannot list it" in warning


WORKERS = tuple(Place("worker", 0, host) for host in range(65))


async def too_many(*_: Any) -> AsyncIterator[Item]:
    yield Opening(0, WORKERS)


async def by_surprise(*_: Any) -> AsyncIterator[Item]:
    yield Opening(0, WORKERS[:1])
    yield Line(0, WORKERS[0], "train-0-0-0", 0, b"half\n")
    raise KeyError("train-0-0-0")


@pytest.mark.parametrize(
    ("followed", "why"),
    [(too_many, "of 65 hosts, more than 64"), (by_surprise, "KeyError('train-0-0-0')")],
    ids=["more hosts than streams", "a mistake of ours"],
)
def test_output_that_is_not_followed_to_the_end_is_read_once(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, followed: Any, why: str
) -> None:
    monkeypatch.setattr(outputs, "follow", followed)
    server.log = "whole\n"
    future = run_docker_async(CONFIG, name="train", client=server.client)
    server.tell("train", phase="Succeeded")
    assert future.result(timeout=ANSWER_SECONDS).stdout == "whole\n"
    assert f"its log could not be followed, and is read once after its end: {why}" in caplog.text


def test_lines_that_may_be_missing_are_warned_of(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    server.log, server.log_time = "the rest\n", "2026-01-01T00:20:00Z"
    future = run_docker_async(CONFIG, name="train", client=server.client)
    server.tell("train", phase="Succeeded")
    assert future.result(timeout=ANSWER_SECONDS).stdout == "the rest\n"
    [warning] = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert "its log begins at 2026-01-01T00:20:00.000Z: the kubelet may have rotated earlier lines away" in warning


def test_cancelling_the_future_cancels_the_job(server: Server) -> None:
    future = run_docker_async(CONFIG, name="train", client=server.client)
    assert future.cancel()
    assert server.jobs["train"]["spec"]["cancel"] is True


def test_a_job_that_could_not_be_cancelled_is_named(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    future = run_docker_async(CONFIG, name="train", client=server.client)
    until(lambda: server.watched)
    (server.folder / "kubeconfig").unlink()
    assert future.cancel()
    assert "SliceJob train could not be cancelled: cannot connect to a Kubernetes cluster" in caplog.text


PROGRAM = """
from pathlib import Path
from slipway import Client, DockerConfig, run_docker_async
future = run_docker_async(DockerConfig("a/b:1"), name="train", client=Client(kubeconfig=Path("{kubeconfig}")))
{then}
"""


@pytest.mark.parametrize(("then", "cancelled"), [("", False), ("future.cancel()", True)])
def test_the_job_outlives_the_script(server: Server, then: str, cancelled: bool) -> None:
    text = PROGRAM.format(kubeconfig=server.folder / "kubeconfig", then=then)
    done = subprocess.run(
        [sys.executable, "-c", text], capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert server.jobs["train"]["spec"].get("cancel", False) is cancelled


CALLBACK = """
import sys
from pathlib import Path
from slipway import Client, DockerConfig, run_docker_async
client = Client(kubeconfig=Path("{kubeconfig}"))
first, second = (run_docker_async(DockerConfig("a/b:1"), name=name, client=client) for name in ("first", "second"))
first.add_done_callback(lambda _: second.cancel())
print("ready", flush=True)
sys.stdin.read()
print(first.result(timeout=1).stdout, second.cancelled())
"""


def test_the_end_of_one_container_may_cancel_another(server: Server) -> None:
    server.log = "done"
    text = CALLBACK.format(kubeconfig=server.folder / "kubeconfig")
    pipe = subprocess.PIPE
    process = subprocess.Popen([sys.executable, "-c", text], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
    assert process.stdout is not None
    process.stdout.readline()
    server.tell("first", phase="Succeeded")
    try:
        until(lambda: server.jobs["second"]["spec"].get("cancel"))
        assert process.communicate(timeout=ANSWER_SECONDS) == ("done True\n", "")
    finally:
        process.kill()

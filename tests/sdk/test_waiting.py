"""What a call says while it waits, and what becomes of its job when it waits no longer."""

import errno
import io
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TextIO

import pytest

from slipway import (
    CPU,
    CapacityUnavailable,
    DockerConfig,
    RayExecutor,
    Session,
    WaitTimeout,
    run_docker_async,
    run_docker_on_pod,
)
from slipway.client.errors import SlipwayError
from tests.sdk.server import Server, until
from tests.waiting import ANSWER_SECONDS

CONFIG = DockerConfig("acme/train:1")
SHORT = 2.0


def running(message: str) -> list[dict[str, str]]:
    return [{"type": "Accepted", "status": "True"}, {"type": "Running", "status": "False", "message": message}]


@pytest.mark.parametrize("quiet", [False, True])
def test_each_change_is_one_line(server: Server, capsys: pytest.CaptureFixture[str], quiet: bool) -> None:
    server.log = ""
    with ThreadPoolExecutor(1) as background:
        call = background.submit(run_docker_on_pod, CONFIG, CPU(), name="train", client=server.client, quiet=quiet)
        until(lambda: server.watched)
        for message in ("1 of 2 nodes", "1 of 2 nodes", "2 of 2 nodes"):
            server.tell("train", phase="WaitingForCapacity", conditions=running(message))
        server.tell("train", phase="Running", conditions=running("attempt 0 runs"))
        server.tell("train", phase="Succeeded", conditions=running("attempt 0 succeeded"))
        assert call.result(timeout=ANSWER_SECONDS) == ""
    network = "its hosts have the network of the pods (network='auto'): for jobs on CPUs"
    told = (network, "WaitingForCapacity: 1 of 2 nodes", "WaitingForCapacity: 2 of 2 nodes", "Running: attempt 0 runs")
    lines = [] if quiet else [f"SliceJob train: {one}" for one in told]
    assert capsys.readouterr().err.splitlines() == lines


class PipeWithoutReader(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def closed_file() -> TextIO:
    found = io.StringIO()
    found.close()
    return found


@pytest.mark.parametrize("make", [PipeWithoutReader, closed_file])
def test_a_call_goes_on_when_nobody_reads_what_it_prints(
    server: Server, monkeypatch: pytest.MonkeyPatch, make: Callable[[], TextIO]
) -> None:
    server.log = "done"
    server.status = {"phase": "Running", "conditions": running("attempt 0 runs")}
    monkeypatch.setattr(sys, "stderr", make())
    with ThreadPoolExecutor(1) as background:
        call = background.submit(run_docker_on_pod, CONFIG, CPU(), name="train", client=server.client)
        until(lambda: server.watched or call.done())
        server.tell("train", phase="Succeeded")
        assert call.result(timeout=ANSWER_SECONDS) == "done"


def test_nothing_is_printed_for_a_job_that_nobody_waits_for(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    server.log = ""
    future = run_docker_async(CONFIG, name="train", client=server.client)
    server.tell("train", phase="Running", conditions=running("attempt 0 runs"))
    server.tell("train", phase="Succeeded")
    future.result(timeout=ANSWER_SECONDS)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(("phase", "kind"), [("WaitingForCapacity", CapacityUnavailable), ("Running", WaitTimeout)])
@pytest.mark.row("B-50")
def test_a_call_that_took_too_long_cancels_its_job(server: Server, phase: str, kind: type[SlipwayError]) -> None:
    server.status = {"phase": phase, "conditions": running("so it is")}
    with pytest.raises(kind, match=rf"it was cancelled after timeout=2 s: {phase}: so it is"):
        run_docker_on_pod(CONFIG, CPU(), name="train", client=server.client, timeout=SHORT)
    assert server.jobs["train"]["spec"]["cancel"] is True


def test_a_function_that_took_too_long_cancels_its_job(server: Server, executor: RayExecutor) -> None:
    def train() -> None:
        import threading

        threading.Event().wait(600)

    with pytest.raises(WaitTimeout, match=r"SliceJob train-.* in x: it was cancelled after"):
        replace(executor, timeout=SHORT).autoscale_execute(train)
    assert [one["spec"]["cancel"] for one in server.jobs.values()] == [True]


def test_a_session_that_does_not_come_is_deleted_by_its_maker_only(server: Server, executor: RayExecutor) -> None:
    server.ready = False
    short = replace(executor, timeout=SHORT)
    with pytest.raises(WaitTimeout, match="SliceJob lab in x: it was deleted after"):
        Session(short, name="lab").ensure()
    assert server.jobs == {}
    with ThreadPoolExecutor(1) as background:
        made = background.submit(Session(executor, name="lab").ensure)
        until(lambda: server.jobs)
        with pytest.raises(WaitTimeout, match="SliceJob lab in x: it is not ready after"):
            Session(short, name="lab").run_function(len, ("abc",))
        server.tell("lab", phase="Running", conditions=[{"type": "Ready", "status": "True"}])
        made.result(timeout=ANSWER_SECONDS)


def test_a_session_whose_making_was_not_answered_in_time_is_deleted(server: Server, executor: RayExecutor) -> None:
    server.mute = True
    with pytest.raises(WaitTimeout, match="it was deleted after timeout=3 s"):
        Session(replace(executor, timeout=3.0)).ensure()
    assert server.jobs == {}


def test_a_time_that_is_over_is_refused(server: Server, executor: RayExecutor) -> None:
    for call in (
        lambda: run_docker_on_pod(CONFIG, CPU(), client=server.client, timeout=0),
        lambda: replace(executor, timeout=-1),
    ):
        with pytest.raises(ValueError, match="timeout must be more than 0 s, not"):
            call()
    assert server.history == []

"""What Ctrl-C and SIGTERM do to a call, and what is said of it."""

import re
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from slipway import CPU, DockerConfig, RayExecutor, run_docker_multislice, run_docker_on_pod
from tests.sdk.server import Server, until
from tests.waiting import ANSWER_SECONDS

PROGRAM = """
import signal, sys, threading, time
from pathlib import Path
from slipway import CPU, Client, DockerConfig, RayExecutor, Session, run_docker_on_pod

def train():
    Path("{folder}/began").touch()
    time.sleep(600)

def own(*_):
    raise SystemExit("the program's own handler")

on_interrupt = {how!r}
client = Client(kubeconfig=Path("{folder}/kubeconfig"))
executor = RayExecutor(CPU(slices=2), "acme/ray:1", client=client, on_interrupt=on_interrupt or "detach")
how = {{"on_interrupt": on_interrupt}} if on_interrupt else {{}}
docker = DockerConfig("acme/train:1")
{call}
"""


def interrupted(server: Server, call: str, number: int, when: Callable[[], Any], how: str = "") -> str:
    """What a program says that waits in this call and gets this signal."""
    text = PROGRAM.format(folder=server.folder, call=call, how=how)
    process = subprocess.Popen([sys.executable, "-c", text], stderr=subprocess.PIPE, text=True)
    until(lambda: when() or process.poll() is not None)
    process.send_signal(number)
    return process.communicate(timeout=ANSWER_SECONDS)[1]


CALL = "executor.autoscale_execute_resumable(train)"
DOCKER = "run_docker_on_pod(docker, CPU(), name='train', client=client, **how)"
GOES_ON = (
    r"detached from SliceJob (train\S*) in x: it goes on by itself. Follow it with `slipway logs \1 -f (-n x "
    r"--kubeconfig \S+/kubeconfig)`, wait for its end with `slipway wait \1 \2`, end it with `slipway cancel \1 \2`"
)


@pytest.mark.parametrize(("call", "number", "how", "said", "cancelled"), [
    (CALL, signal.SIGINT, "", GOES_ON, False),
    (CALL, signal.SIGTERM, "cancel", "SliceJob train-.* in x: it was cancelled", True),
    (DOCKER, signal.SIGINT, "cancel", "SliceJob train in x: it was cancelled", True),
    (DOCKER, signal.SIGTERM, "", GOES_ON, False),
])  # fmt: skip
@pytest.mark.row("N-14", "N-25", "B-68")
def test_an_interrupt_says_what_it_did(
    server: Server, call: str, number: int, how: str, said: str, cancelled: bool
) -> None:
    error = interrupted(server, call, number, lambda: server.watched, how)
    assert re.search(f"KeyboardInterrupt: {said}", error), error
    assert [one["spec"].get("cancel", False) for one in server.jobs.values()] == [cancelled]


NOT_STORED: dict[str, tuple[str, Callable[[Server], Any], str, list[bool]]] = {
    "the call is not answered": ("deaf_to_secrets", lambda server: server.asked_for_secrets, "was cancelled", [True]),
    "the job is not answered": ("mute", lambda server: server.jobs, "was cancelled", [True]),
    "the job is not stored": ("deaf", lambda server: server.asked, "is not there", []),
}


@pytest.mark.parametrize("how", ["detach", "cancel"])
@pytest.mark.parametrize(("fault", "when", "said", "cancelled"), NOT_STORED.values(), ids=NOT_STORED)
@pytest.mark.thorough
def test_a_job_is_not_left_without_its_call(
    server: Server, fault: str, when: Callable[[Server], Any], said: str, cancelled: list[bool], how: str
) -> None:
    setattr(server, fault, True)
    error = interrupted(server, CALL, signal.SIGINT, lambda: when(server), how)
    assert re.search(f"KeyboardInterrupt: SliceJob train-.* in x: its call was not stored yet: it {said}", error), error
    assert [one["spec"].get("cancel", False) for one in server.jobs.values()] == cancelled


@pytest.mark.thorough
def test_an_interrupt_stays_one_though_the_job_cannot_be_cancelled(server: Server) -> None:
    def loses_its_configuration() -> bool:
        if server.watched:
            (server.folder / "kubeconfig").unlink()
        return server.watched > 0

    error = interrupted(server, DOCKER, signal.SIGINT, loses_its_configuration, "cancel")
    assert re.search("KeyboardInterrupt: SliceJob train in .*: it could not be cancelled: cannot connect", error), error


def test_an_interrupt_ends_a_sessions_call(server: Server) -> None:
    call = "Session(executor, name='lab').run_function(train)"
    error = interrupted(server, call, signal.SIGTERM, (server.folder / "began").exists)
    assert "KeyboardInterrupt: the call was cancelled; session lab stays" in error
    assert len(server.jobs) == 1


CLOSES = """
from slipway.sdk import session as sessions
sessions.CLOSE_SECONDS = 600
session = Session(executor)
session.ensure()
session.start_function(train)
while not Path("FOLDER/began").exists():
    time.sleep(0.02)
try:
    Path("FOLDER/closing").touch()
    session.close()
except KeyboardInterrupt:
    sessions.CLOSE_SECONDS = 0.1
    session.close()
"""


@pytest.mark.thorough
def test_a_session_whose_closing_was_interrupted_can_be_closed(server: Server) -> None:
    call = CLOSES.replace("FOLDER", str(server.folder))
    assert interrupted(server, call, signal.SIGINT, (server.folder / "closing").exists) == ""
    assert server.jobs == {}


STARTS = (
    r"detached while session lab starts: it goes on by itself.* end it with `slipway cancel lab -n x --kubeconfig \S+`"
)


@pytest.mark.parametrize(("call", "how", "said", "stay"), [
    ("with Session(executor, name='lab'): pass", "cancel", "session lab in x was closed", 0),
    ("with Session(executor, name='lab'): pass", "detach", STARTS, 1),
    ("Session(executor, name='lab').ensure()", "", STARTS, 1),
])  # fmt: skip
@pytest.mark.thorough
def test_an_interrupt_while_a_session_starts_says_what_it_did(
    server: Server, call: str, how: str, said: str, stay: int
) -> None:
    server.ready = False
    error = interrupted(server, call, signal.SIGINT, lambda: server.watched, how)
    assert re.search(f"KeyboardInterrupt: {said}", error), error
    assert len(server.jobs) == stay


@pytest.mark.thorough
def test_a_session_whose_making_was_not_answered_is_closed_too(server: Server) -> None:
    server.mute = True
    error = interrupted(server, "with Session(executor): pass", signal.SIGINT, lambda: server.jobs, "cancel")
    assert re.search("KeyboardInterrupt: session session-.* in x was closed", error), error
    assert server.jobs == {}


@pytest.mark.parametrize(("how", "said"), [
    ("detach", "detached from SliceJob train in x: whether it was created is not known"),
    ("cancel", "SliceJob train in x: it is not there"),
])  # fmt: skip
@pytest.mark.thorough
def test_nothing_is_claimed_of_a_job_whose_creation_was_not_answered(server: Server, how: str, said: str) -> None:
    server.deaf = True
    body = {"metadata": {"name": "train", "uid": "u"}, "spec": {}}
    server.jobs["train"] = body
    error = interrupted(server, DOCKER, signal.SIGINT, lambda: server.asked, how)
    assert f"KeyboardInterrupt: {said}" in error
    assert body["spec"] == {}


def test_a_programs_own_handler_stays(server: Server) -> None:
    error = interrupted(server, f"signal.signal(signal.SIGTERM, own); {DOCKER}", signal.SIGTERM, lambda: server.watched)
    assert error.endswith("the program's own handler\n")


def test_other_words_for_an_interrupt_are_refused_before_any_request(server: Server, executor: RayExecutor) -> None:
    said = "on_interrupt must be 'cancel' or 'detach', not 'kill'"
    config: Any = DockerConfig("acme/train:1"), CPU()
    for call in (
        lambda: run_docker_on_pod(*config, client=server.client, on_interrupt="kill"),  # type: ignore[arg-type]
        lambda: run_docker_multislice(*config, client=server.client, on_interrupt="kill"),  # type: ignore[arg-type]
        lambda: replace(executor, on_interrupt="kill"),  # type: ignore[arg-type]
    ):
        with pytest.raises(ValueError, match=said):
            call()
    assert server.history == []

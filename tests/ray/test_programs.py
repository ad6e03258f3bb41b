"""What runs in the pods, without Ray: a job server that answers as Ray's does, and a `ray` that is a shell script."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from slipway.core.manifests.ray.driver_program import NOT_RUN
from tests.places import ROOT
from tests.waiting import START_SECONDS, pause, until

PROGRAMS = ROOT / "operator/slipway/core/manifests/ray"


BUSY = "No available agent to submit job, please try again later."
"""What Ray answers with 500 while it is too busy with its start."""


PROXY = {"HTTP_PROXY": "http://127.0.0.1:9", "http_proxy": "http://127.0.0.1:9"}
"""As an image or a job may have it for addresses outside the cluster; nothing listens there."""


class Server(ThreadingHTTPServer):
    """Ray's job server as far as the driver asks it."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answers)
        self.workers, self.submitted, self.tokens = 2, [], set()  # type: ignore[var-annotated]
        self.job: Any = {"status": "SUCCEEDED", "driver_exit_code": 0}
        self.posts: list[str] = []
        """What becomes of the first submissions; the others are answered."""
        self.refusal = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answers(BaseHTTPRequestHandler):
    server: Server

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def reply(self, body: Any, code: int = 200) -> None:
        self.send_response(code)
        self.end_headers()
        self.wfile.write(body.encode() if isinstance(body, str) else json.dumps(body).encode())

    def do_GET(self) -> None:
        self.server.tokens.add(self.headers["Authorization"])
        if self.path.startswith("/api/v0/nodes"):
            nodes = [{"state": "ALIVE", "is_head_node": index == 0} for index in range(self.server.workers + 1)]
            self.reply({"data": {"result": {"result": [*nodes, {"state": "DEAD", "is_head_node": False}]}}})
        elif not self.server.submitted or self.server.job is None:
            self.reply("no such job", 404)
        else:
            self.reply(self.server.job)

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.server.refusal:
            self.reply(self.server.refusal, 400)
            return
        if body in self.server.submitted:
            self.reply("RuntimeError: Request failed with status code 400: the job already exists", 500)
            return
        post = self.server.posts.pop(0) if self.server.posts else "taken"
        if "taken" in post:
            self.server.submitted.append(body)
        if "lost" in post:
            self.connection.close()
        elif "refused" in post:
            self.reply(BUSY, 500)
        else:
            self.reply({"submission_id": body["submission_id"]})


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    threading.Thread(target=made.serve_forever, daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


def driver(
    server: Server, folder: Path, submission: Any = "train-0", patience: float = 120.0
) -> "subprocess.Popen[str]":
    text = (PROGRAMS / "driver_program.py").read_text().replace("SECONDS = 120.0", f"SECONDS = {patience}")
    text = text.replace("http://127.0.0.1:8265", server.url).replace("/tmp/ray", str(folder))
    (folder / "session_latest/logs").mkdir(parents=True, exist_ok=True)
    (folder / "token").write_text("abc")
    wanted = {"submission_id": submission, "entrypoint": "true"} if submission else None
    order = json.dumps({"workers": 2, "submission": wanted})
    return subprocess.Popen(
        [sys.executable, "-c", text, order], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        env={"RAY_AUTH_TOKEN_PATH": str(folder / "token"), **PROXY},
    )  # fmt: skip


ENDS: dict[str, tuple[dict[str, Any], int, str]] = {
    "success": ({}, 0, ""),
    "its own code": ({"job": {"status": "FAILED", "driver_exit_code": 7}}, 7, ""),
    "a signal": ({"job": {"status": "FAILED", "driver_exit_code": -9}}, 137, ""),
    "Ray gave up": (
        {"job": {"status": "FAILED", "message": "its node was preempted"}},
        NOT_RUN,
        "Ray did not run the entrypoint to its end: its node was preempted",
    ),
    "its own code of 1": ({"job": {"status": "FAILED", "driver_exit_code": 1}}, 1, ""),
    "Ray was started anew": ({"job": None}, NOT_RUN, "Ray knows nothing of the entrypoint"),
    "Ray says what nobody expects": ({"job": [1]}, NOT_RUN, "AttributeError"),
    "Ray refuses it": ({"refusal": "Traceback\nValueError: bad runtime_env"}, NOT_RUN, "ValueError: bad runtime_env"),
    "the answer is lost": ({"posts": ["taken and lost"]}, 0, ""),
    "it is lost": ({"posts": ["lost", "lost"]}, 0, ""),
    "Ray is busy": ({"posts": ["refused", "refused"]}, 0, ""),
    "Ray is busy and has it": ({"posts": ["taken and refused"]}, 0, ""),
    "Ray is busy after a loss": ({"posts": ["lost", "refused", "taken and lost"]}, 0, ""),
}


@pytest.mark.parametrize(("how", "code", "said"), ENDS.values(), ids=ENDS)
def test_the_driver_ends_as_the_entrypoint_does(
    server: Server, tmp_path: Path, how: dict[str, Any], code: int, said: str
) -> None:
    for name, value in how.items():
        setattr(server, name, value)
    log = tmp_path / "session_latest/logs/job-driver-train-0.log"
    log.parent.mkdir(parents=True)
    log.write_text("line 1\nümlaut\n")
    process = driver(server, tmp_path)
    output, _ = process.communicate(timeout=START_SECONDS)
    assert (process.returncode, said in output) == (code, True), output
    assert len(server.submitted) == (0 if "refusal" in how else 1)
    assert server.tokens == {"Bearer abc"}
    if code in (0, 7):
        assert "line 1\nümlaut\n" in output


def test_the_driver_gives_up_a_ray_that_is_always_busy(server: Server, tmp_path: Path) -> None:
    server.posts = ["refused"] * 1000
    process = driver(server, tmp_path, patience=2.0)
    output, _ = process.communicate(timeout=START_SECONDS)
    assert (process.returncode, server.submitted) == (NOT_RUN, [])
    assert output.endswith(f"Ray did not take the entrypoint: {BUSY}\n")


def test_a_ray_that_was_started_anew_is_not_given_what_another_may_have_run(server: Server, tmp_path: Path) -> None:
    latest = tmp_path / "session_latest"
    for name in ("session_1", "session_2"):
        (tmp_path / name / "logs").mkdir(parents=True)
    latest.symlink_to("session_1")
    server.posts = [*["refused"] * 3, *["lost"] * 1000]
    process = driver(server, tmp_path)
    until("three refusals", lambda: len(server.posts) <= 1000)
    latest.unlink()
    latest.symlink_to("session_2")
    output, _ = process.communicate(timeout=START_SECONDS)
    assert (process.returncode, server.submitted) == (NOT_RUN, [])
    assert "Ray did not take the entrypoint: it was started anew" in output


def test_the_page_names_the_exit_code_of_an_entrypoint_that_has_none() -> None:
    assert f"exit code {NOT_RUN}" in (ROOT / "docs/ray.md").read_text()


def test_the_driver_waits_for_all_workers(server: Server, tmp_path: Path) -> None:
    server.workers = 1
    process = driver(server, tmp_path, None)
    pause(2)
    assert not (tmp_path / "slipway-joined").exists()
    server.workers = 2
    until("all have joined", (tmp_path / "slipway-joined").exists)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=START_SECONDS)
    assert process.returncode == 143


def node(script: str, folder: Path, health: str = "", pause: float = 0.1) -> "subprocess.Popen[str]":
    text = (PROGRAMS / "node_program.py").read_text().replace("PAUSE_SECONDS = 2.0", f"PAUSE_SECONDS = {pause}")
    text = text.replace("http://127.0.0.1:52365/api/local_raylet_healthz", "http://127.0.0.1:9/")
    return subprocess.Popen(
        [sys.executable, "-c", text, health, "sh", "-c", script], cwd=folder, stdout=subprocess.DEVNULL, text=True,
        env=os.environ | PROXY,
    )  # fmt: skip


def test_a_start_that_fails_is_tried_again(tmp_path: Path) -> None:
    process = node("echo x >> tries; exit 5", tmp_path)
    assert process.wait(timeout=START_SECONDS) == 5
    assert (tmp_path / "tries").read_text().count("x") == 3


def test_a_node_that_is_told_to_stop_says_so(tmp_path: Path) -> None:
    process = node("trap 'exit 1' TERM; touch up; sleep 60 & wait", tmp_path)
    until("it runs", (tmp_path / "up").exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=START_SECONDS) == 143


def test_a_node_that_is_told_to_stop_between_two_tries_begins_none(tmp_path: Path) -> None:
    process = node("echo x >> tries; exit 5", tmp_path, pause=3.0)
    until("the first try", (tmp_path / "tries").exists)
    pause(1.0)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=START_SECONDS) == 143
    assert (tmp_path / "tries").read_text().count("x") == 1


def test_a_worker_waits_for_the_head(server: Server, tmp_path: Path) -> None:
    server.shutdown()
    process = node("touch started", tmp_path, f"{server.url}/api/v0/nodes")
    pause(1.5)
    assert not (tmp_path / "started").exists()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    assert process.wait(timeout=START_SECONDS) == 0


def test_a_worker_waits_while_something_else_answers_in_the_place_of_the_head(tmp_path: Path) -> None:
    """What is no HTTP is no end of the worker, which would be charged as a failure."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        process = node("touch started", tmp_path, f"http://127.0.0.1:{listener.getsockname()[1]}/")
        for _ in range(3):
            connection, _ = listener.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"\x00\x01garbage\r\n\r\n")
        assert process.poll() is None
        assert not (tmp_path / "started").exists()
        process.kill()
        process.wait()

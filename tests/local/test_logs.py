"""The logs of a job's containers: from the engine, and those that are kept."""

import asyncio
import json
import os
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any

import pytest

from slipway.api import names
from slipway.client.logs.interface import STDERR, STDOUT, LogQuery
from slipway.local.client import container_logs as local_logs
from slipway.local.client.container_logs import ContainerLogStream
from slipway.local.client.containers_as_pods import kept_pods
from slipway.local.containers.containers import Containers
from slipway.local.containers.kept_logs import forget_oldest, keep_log, stand_in
from slipway.local.engine.address import Address, connect
from slipway.local.jobs.job_files import JobFolder, folder
from slipway.local.jobs.options import Options
from tests.waiting import START_SECONDS

BODY = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}, "spec": {"image": "i"}}
POD = "train-0-0-0"


def test_the_newest_logs_are_kept(tmp_path: Path) -> None:
    for age, name in enumerate(("newest", "newer", "older", "oldest")):
        path = tmp_path / f"{name}.log"
        path.write_bytes(b"x" * 8)
        path.with_suffix(".stdout").write_bytes(b"x")
        path.with_suffix(".stderr").write_bytes(b"x")
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "supervisor.txt").write_text("no log of a container")
    forget_oldest(tmp_path, 25)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "newer.log", "newer.stderr", "newer.stdout", "newest.log", "newest.stderr", "newest.stdout", "supervisor.txt",
    ]  # fmt: skip


def test_a_log_that_stands_for_another_is_read_and_goes_with_it(tmp_path: Path) -> None:
    job = JobFolder(tmp_path / "train")
    own, init = job.log("train-0-0-0"), job.log("train-0-0-0.fetch")
    own.parent.mkdir(parents=True)
    init.write_bytes(b"no such bucket")
    init.with_suffix(".stderr").write_bytes(b"no such bucket")
    stand_in(own, init)
    assert read(job, stream=STDERR) == b"no such bucket"
    [kept] = kept_pods(job)
    assert kept["status"]["initContainerStatuses"][0]["name"] == "fetch"
    forget_oldest(own.parent, 1)
    assert kept_pods(job) == []


def read(job: JobFolder, **query: Any) -> bytes:
    """What a stream of the log of the one container brings."""

    async def joined() -> bytes:
        stream = ContainerLogStream(job, "uid", POD, LogQuery(names.WORKER_CONTAINER, **query))
        return b"".join([chunk async for chunk in stream.chunks()])

    return asyncio.run(joined())


LOADING = b"2026-01-01T00:00:01.000000000Z loading\n"
BAR = b"2026-01-01T00:00:05.000000000Z \r 10%\r 50%\r100%\n"
"""How a progress bar is written: it is one line."""


@pytest.mark.parametrize(
    ("query", "found"),
    [
        pytest.param({"tail": 1}, BAR, id="the last line"),
        pytest.param({"tail": 2}, LOADING + BAR, id="the last lines"),
        pytest.param({"tail": 1, "stream": STDERR}, BAR, id="the last line of one stream"),
        pytest.param({"since": datetime(2026, 1, 1, 0, 0, 2, tzinfo=UTC)}, BAR, id="since a time"),
    ],
)
def test_a_progress_bar_is_one_line_of_a_log_that_is_kept(query: dict[str, Any], found: bytes, tmp_path: Path) -> None:
    job = JobFolder(tmp_path)
    (tmp_path / "logs").mkdir()
    job.log(POD).write_bytes(LOADING + BAR)
    job.log(POD).with_suffix(".stderr").write_bytes(BAR)
    assert read(job, **query) == found


OUT, ERR = 1, 2
AT = b"2026-01-01T00:00:0%d.000000000Z "
FRAMES = (
    (ERR, AT % 1 + b"10%"),
    (OUT, AT % 2 + b"step 1\n"),
    (ERR, AT % 3 + b"20%\n"),
    (OUT, AT % 4 + b"step 2\n"),
)
"""What a program has written while it was in the middle of a long line of stderr, which the engine has cut."""


class Logged(BaseHTTPRequestHandler):
    """An engine that has the log of that program."""

    def do_GET(self) -> None:
        path, _, query = self.path.partition("?")
        chosen = (query.find("stdout=1") >= 0, query.find("stderr=1") >= 0)
        frames = [struct.pack(">BxxxL", kind, len(one)) + one for kind, one in FRAMES if chosen[kind - 1]]
        said = {"ApiVersion": "1.43", "Config": {"Tty": False}}
        content = b"".join(frames) if path.endswith("/logs") else json.dumps(said).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *values: object) -> None:
        """Say nothing."""


@pytest.fixture
def logged() -> Iterator[Containers]:
    with ThreadingHTTPServer(("127.0.0.1", 0), Logged) as server:
        Thread(target=server.serve_forever).start()
        with closing(connect(Address(f"tcp://127.0.0.1:{server.server_port}"))) as api:
            yield Containers(api, "uid")
        server.shutdown()


def test_each_stream_is_kept_as_it_was_written(logged: Containers, tmp_path: Path) -> None:
    job = JobFolder(tmp_path)
    keep_log(logged, "abc", job.log(POD))
    assert read(job, stream=STDOUT) == AT % 2 + b"step 1\n" + AT % 4 + b"step 2\n"
    assert read(job, stream=STDERR) == AT % 1 + b"10%20%\n"
    assert read(job) == AT % 1 + b"10%\n" + AT % 2 + b"step 1\n" + AT % 3 + b"20%\n" + AT % 4 + b"step 2\n"


def test_a_progress_bar_is_one_line_of_a_stream_of_which_the_engine_has_the_last_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    job = folder("train")
    job.create(BODY, {"options": Options().to_json()})
    engine = SimpleNamespace(close=lambda: None, inspect_container=lambda name: {}, logs=lambda *_, **__: iter([BAR]))
    monkeypatch.setattr(local_logs, "connect", lambda address: engine)
    assert read(job, tail=1, stream=STDERR) == BAR


class Silent:
    """The stream of a program that writes nothing, until somebody closes it."""

    def __init__(self) -> None:
        self.closed = Event()
        self._response = SimpleNamespace(close=lambda: None)

    def __iter__(self) -> Iterator[bytes]:
        self.closed.wait()
        return iter(())

    def close(self) -> None:
        self.closed.set()


def test_a_stream_that_is_given_up_before_it_is_open_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    job = folder("train")
    job.create(BODY, {"options": Options().to_json()})
    given_up, disconnected = Event(), Event()

    def opened(*_: Any, **__: Any) -> Silent:
        given_up.wait()
        return Silent()

    engine = SimpleNamespace(close=disconnected.set, inspect_container=lambda name: {}, logs=opened)
    monkeypatch.setattr(local_logs, "connect", lambda address: engine)

    async def give_up() -> None:
        stream = ContainerLogStream(job, "uid", POD, LogQuery(names.WORKER_CONTAINER, follow=True))
        with suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                async for _ in stream.chunks():
                    pass

    asyncio.run(give_up())
    given_up.set()
    assert disconnected.wait(START_SECONDS)

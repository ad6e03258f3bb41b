"""The operator's process, kopf included, through what an API server does at its edge once a month."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from weakref import ref

import kopf
import pytest
import uvloop
from aiohttp import web

from slipway.controller import main, namespaces
from slipway.controller.engine import Engine
from slipway.controller.lease import Lease
from slipway.controller.main import EXIT_FAILED, EXIT_OK, run
from slipway.controller.namespaces import Served
from slipway.controller.observability import log_format
from slipway.controller.settings import OperatorSettings
from tests.controller.api_server import RESOURCES, Answer, ApiServer, api_server, refusal, resources
from tests.serving import kubeconfig
from tests.waiting import ANSWER_SECONDS, holds, passing


@pytest.fixture(autouse=True)
def quiet_kopf() -> None:
    """As in a process: `main` says why kopf ended."""
    log_format.hush_kopf()


def test_the_process_runs_on_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    loops: list[type[asyncio.AbstractEventLoop]] = []

    async def note_loop(_: OperatorSettings) -> int:
        loops.append(type(asyncio.get_running_loop()))
        return EXIT_OK

    monkeypatch.setattr(main, "run", note_loop)
    monkeypatch.setattr(log_format, "configure", lambda *_: None)
    assert main.main() == EXIT_OK
    assert loops == [uvloop.Loop]


@dataclass
class Operating:
    """A process and its API server."""

    server: ApiServer
    process: "asyncio.Task[int]"

    async def until(self, condition: Callable[[], Any]) -> None:
        """Until a condition holds, while the process runs."""
        await holds(lambda: condition() or self.process.done(), seconds=ANSWER_SECONDS)
        assert not self.process.done()


@asynccontextmanager
async def operating(
    folder: Path, instead: Callable[[web.Request], Answer] = lambda _: None, **given: Any
) -> AsyncIterator[Operating]:
    """A process that is told to stop in the end."""
    stop = asyncio.Event()
    async with api_server(instead) as server:
        chosen = OperatorSettings(kubeconfig=kubeconfig(folder, server.url), health_port=0, metrics_port=0, **given)
        running = Operating(server, asyncio.create_task(run(chosen, stop)))
        try:
            yield running
        finally:
            stop.set()
            await asyncio.wait_for(running.process, ANSWER_SECONDS)


def watches_slicejobs(request: web.Request) -> bool:
    return "watch" in request.query and request.path.endswith("/slicejobs")


UNDISCOVERED: dict[str, Callable[[], web.Response]] = {
    "the list of its group is not there": lambda: web.Response(status=404, text="404 page not found"),
    "the list of its group names others only": lambda: web.json_response(resources("slicejobprofiles")),
    "the list of its group is empty": lambda: web.json_response({"resources": None}),
}


@pytest.mark.parametrize("lacks", UNDISCOVERED)
async def test_slicejobs_that_can_be_listed_are_waited_for_until_kopf_will_find_them(
    lacks: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    missing = [True]

    def instead(request: web.Request) -> Answer:
        return UNDISCOVERED[lacks]() if missing and request.path == RESOURCES else None

    async with operating(tmp_path, instead) as running:
        await running.until(lambda: "does not know SliceJobs" in caplog.text)
        missing.clear()
        await running.until(lambda: running.server.watches)
    assert running.process.result() == EXIT_OK


async def test_kopf_that_was_told_of_no_slicejobs_by_another_server_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(namespaces, "UNASKED_SECONDS", 0.5)
    servers = [True, False]
    """Whether they have discovered the CRD, in the order in which they answer; later ones have."""

    def instead(request: web.Request) -> Answer:
        knows = request.path != RESOURCES or not servers or servers.pop(0)
        return None if knows else web.json_response(resources("slicejobprofiles"))

    async with operating(tmp_path, instead) as running:
        await running.until(lambda: "SliceJobs are not watched" in caplog.text)
        await running.until(lambda: running.server.watches)
        await passing(1.0)
        assert running.server.watches == 1, "who watches them is left alone"
    assert running.process.result() == EXIT_OK


async def test_an_engine_is_gone_from_memory_before_another_one_fills_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "RIGHTS_SECONDS", 0.2)
    engines: list[ref[Engine]] = []
    left: list[int] = []

    def remembered(*given: Any) -> Engine:
        left.append(sum(one() is not None for one in engines))
        engines.append(ref(made := Engine(*given)))
        return made

    def leads() -> bool:
        return (engine := engines[0]()) is not None and engine.leads

    monkeypatch.setattr(main, "Engine", remembered)
    refused = [True]

    def instead(request: web.Request) -> Answer:
        return refusal(403, "Forbidden") if refused and "/namespaces/b/" in request.path else None

    async with operating(tmp_path, instead, namespaces=("a", "b")) as running:
        await running.until(lambda: engines and leads())
        refused.clear()
        await running.until(lambda: len(engines) == 2)
    assert left == [0, 0]


async def test_a_process_that_goes_on_after_kopf_ended_is_not_killed_by_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    killed: list[Any] = []
    gone = asyncio.Event()
    made = kopf.OperatorSettings

    def hasty() -> kopf.OperatorSettings:
        settings = made()
        settings.process.ultimate_exiting_timeout = 0.1
        return settings

    def instead(request: web.Request) -> Answer:
        return refusal(404, "NotFound") if gone.is_set() and "slipway.dev" in request.path else None

    monkeypatch.setattr(kopf, "OperatorSettings", hasty)
    monkeypatch.setattr("signal.pthread_kill", lambda *given: killed.append(given))
    async with operating(tmp_path, instead) as running:
        await running.until(lambda: running.server.watches)
        gone.set()
        running.server.end_watches()
        await running.until(lambda: "does not know SliceJobs" in caplog.text)
        await passing(0.5)
    assert killed == []


async def test_a_mistake_in_the_look_at_what_is_served_is_told_and_is_no_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(namespaces, "RIGHTS_SECONDS", 0.2)

    async def mistaken(_: Served) -> bool:
        raise ValueError("of no API server")

    monkeypatch.setattr(Served, "changed", mistaken)
    async with operating(tmp_path, namespaces=("a",)) as running:
        assert await asyncio.wait_for(asyncio.shield(running.process), ANSWER_SECONDS) == EXIT_FAILED
    assert "stopped by a mistake in Slipway" in caplog.text
    assert "ValueError: of no API server" in caplog.text


ERROR = {"type": "ERROR", "object": {"kind": "Status", "code": 500, "message": "etcdserver: leader changed"}}
BAD_WATCHES: dict[str, tuple[Callable[[], web.Response], str]] = {
    "an error in the stream": (lambda: web.json_response(ERROR), "etcdserver: leader changed"),
    "half a line": (lambda: web.Response(text='{"type":"ADDED","object":{"api'), "Unterminated string"),
    "a version that is too old": (lambda: refusal(410, "Expired", "too old resource version"), "too old resource"),
    "a request that cannot be read": (lambda: refusal(400, "BadRequest"), "BadRequest"),
}


@pytest.mark.parametrize("bad", BAD_WATCHES)
async def test_a_bad_answer_to_kopfs_watch_ends_no_process(
    bad: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(main, "PAUSES", (0.2, 0.2))
    answer, words = BAD_WATCHES[bad]

    def instead(request: web.Request) -> Answer:
        return answer() if watches_slicejobs(request) and running.server.watches <= 2 else None

    async with operating(tmp_path, instead) as running:
        await running.until(lambda: running.server.watches == 3)
    assert running.process.result() == EXIT_OK
    said = [one.getMessage() for one in caplog.records if one.name.startswith("slipway") and one.levelname != "INFO"]
    assert len(said) == 2
    assert all("the watch of SliceJobs ended and begins anew" in one and words in one for one in said)


async def test_watches_that_end_again_and_again_within_a_minute_end_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(main, "PAUSES", (0.1, 0.2))

    def instead(request: web.Request) -> Answer:
        return refusal(400, "BadRequest") if watches_slicejobs(request) else None

    async with operating(tmp_path, instead) as running:
        assert await asyncio.wait_for(asyncio.shield(running.process), ANSWER_SECONDS) == EXIT_FAILED
        assert running.server.watches == 3
    assert "ended again and again" in caplog.text


def test_ends_that_are_more_than_a_minute_apart_are_no_reason_to_end() -> None:
    seconds = 0.0
    ends = main._Ends(lambda: seconds)
    for _ in range(20):
        assert ends.add(ValueError("once in a while")) is None
        seconds += main.AGAIN_SECONDS


def tell_to_stop() -> None:
    os.kill(os.getpid(), signal.SIGTERM)


async def test_a_process_that_is_told_to_stop_while_its_engine_is_replaced_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(namespaces, "RIGHTS_SECONDS", 0.2)
    refused, released = [True], []
    real = Lease.release

    async def release(lease: Lease) -> None:
        released.append(lease)
        tell_to_stop()
        await real(lease)

    def instead(request: web.Request) -> Answer:
        return refusal(403, "Forbidden") if refused and "/namespaces/b/" in request.path else None

    monkeypatch.setattr(Lease, "release", release)
    async with operating(tmp_path, instead, namespaces=("a", "b")) as running:
        await running.until(lambda: running.server.watches)
        refused.clear()
        assert await asyncio.wait_for(asyncio.shield(running.process), ANSWER_SECONDS) == EXIT_OK
    assert len(released) == 1


async def test_a_process_that_is_told_to_stop_in_the_pause_before_another_watch_stops(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(main, "PAUSES", (2.0 * ANSWER_SECONDS,))

    def instead(request: web.Request) -> Answer:
        return refusal(400, "BadRequest") if watches_slicejobs(request) else None

    async with operating(tmp_path, instead) as running:
        await running.until(lambda: "begins anew" in caplog.text)
        tell_to_stop()
        assert await asyncio.wait_for(asyncio.shield(running.process), ANSWER_SECONDS) == EXIT_OK

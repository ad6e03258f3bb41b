"""The engine alone, against a server that answers by path."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from slipway.cluster.access import open_access
from slipway.cluster.connection import ApiConnection
from slipway.cluster.lease import Lease
from slipway.cluster.watch import Applied, Deleted
from slipway.planner.actions import Plan
from slipway.planner.snapshot import Snapshot
from slipway.shell import engine as engine_module
from slipway.shell.clock import Clock
from slipway.shell.engine import CALM_SECONDS_PER_POD, Engine, EngineFailed
from slipway.shell.settings import OperatorSettings
from tests.cluster.replay import Replay, replaying
from tests.cluster.things import job_json, pod, pod_json

KEY = ("ns", "train")


class Server:
    """Lists by the last word of the path; watches say nothing; what is created is taken."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.lists: dict[str, list[Any]] = {}
        self.refused: set[str] = set()
        self.deleted: list[str] = []

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        what = request.path.rsplit("/", 1)[-1]
        if what in self.refused:
            return web.json_response({"reason": "Forbidden", "message": f"may not list {what}"}, status=403)
        if "watch" in request.query:
            await self.replay.until_closed()
        if request.method == "DELETE":
            self.deleted.append(request.query["labelSelector"])
        if "/leases" in request.path:
            if request.method == "GET":
                return web.json_response({"reason": "NotFound"}, status=404)
            return web.json_response({"metadata": {"resourceVersion": "1"}})
        return web.json_response({"metadata": {"resourceVersion": "100"}, "items": self.lists.get(what, [])})


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with replaying() as replay:
        replay.otherwise = made = Server(replay)
        yield made


@asynccontextmanager
async def resting(server: Server, clock: Clock) -> AsyncIterator[Engine]:
    """An engine that was not started."""
    async with ApiConnection(open_access(server.replay.url)) as api:
        lease = Lease(api, "ns", "slipway", "me", now=clock.now, clock=clock.monotonic)
        yield Engine(api, lease, OperatorSettings(), clock)


@asynccontextmanager
async def running(server: Server) -> AsyncIterator[tuple[Engine, "asyncio.Future[None]"]]:
    async with resting(server, Clock()) as engine:
        over = engine.start()
        try:
            yield engine, over
        finally:
            await engine.stop()


async def until(condition: Callable[[], Any]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[Snapshot]:
    """Every snapshot that was decided on; the decision is to leave everything as it is."""
    seen: list[Snapshot] = []

    def decide(snapshot: Snapshot, now: Any) -> Plan:
        seen.append(snapshot)
        return Plan(snapshot.job.status)

    monkeypatch.setattr(engine_module, "plan", decide)
    return seen


async def test_the_first_decision_is_made_when_everything_is_known(server: Server, planned: list[Snapshot]) -> None:
    server.lists["pods"] = [pod_json("train-0-0-0"), pod_json("train-0-0-1")]
    async with running(server) as (engine, _):
        engine.observe(None, job_json())
        await until(lambda: planned)
        assert len(planned[0].pods) == 2


async def test_without_a_role_for_nodes_it_works_without_them(
    server: Server, planned: list[Snapshot], caplog: pytest.LogCaptureFixture
) -> None:
    server.refused.add("nodes")
    async with running(server) as (engine, _):
        engine.observe(None, job_json())
        await until(lambda: planned)
        assert engine.health()
    assert caplog.text.count("nodes cannot be watched") == 1


async def test_without_a_role_for_pods_it_ends_with_a_sentence(server: Server) -> None:
    server.refused.add("pods")
    async with running(server) as (_, over):
        with pytest.raises(EngineFailed, match="pods cannot be watched: may not list pods"):
            await asyncio.wait_for(over, 5)


async def test_a_mistake_in_one_job_leaves_the_others_alone(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fine: list[str] = []

    def decide(snapshot: Snapshot, now: Any) -> Plan:
        if snapshot.job.name == "bad":
            raise ZeroDivisionError
        fine.append(snapshot.job.name)
        return Plan(snapshot.job.status)

    monkeypatch.setattr(engine_module, "plan", decide)
    async with running(server) as (engine, over):
        engine.observe(None, job_json(name="bad", uid="b"))
        engine.observe(None, job_json(name="good", uid="g"))
        await until(lambda: fine)
        assert not over.done()
    assert "a mistake in Slipway; next try in 0.5 s" in caplog.text


async def test_a_deleted_job_takes_its_pods_along_at_once(server: Server, planned: list[Snapshot]) -> None:
    server.lists["pods"] = [pod_json("train-0-0-0")]
    async with running(server) as (engine, _):
        engine.observe(None, job_json())
        await until(lambda: planned)
        engine.observe("DELETED", job_json(version=2))
        await until(lambda: server.deleted)
        assert server.deleted[-1].startswith("slipway.dev/job-uid=job-1")
        assert engine.cache.snapshot(KEY) is None


async def test_a_job_that_went_unnoticed_is_dropped_by_the_slow_look_at_names(
    server: Server, planned: list[Snapshot]
) -> None:
    async with running(server) as (engine, _):
        engine.observe(None, job_json())
        await until(lambda: planned)
        await engine._resync_namespace("")
        assert engine.cache.snapshot(KEY) is None


async def test_progress_waits_for_its_siblings_and_trouble_for_nobody(server: Server) -> None:
    async with resting(server, Clock(monotonic=lambda: 100.0)) as engine:
        for host in range(1000):
            engine.cache.pods.applied(pod(f"train-0-0-{host}"))
        engine._see_pod(Applied(pod("train-0-0-7", version=2, phase="Running")), "")
        assert engine.queue._due[KEY] == pytest.approx(100.0 + 1000 * CALM_SECONDS_PER_POD)
        engine._see_pod(Applied(pod("train-0-0-8", version=3, phase="Failed")), "")
        assert engine.queue._due[KEY] == 100.0


async def test_the_last_pod_to_start_waits_for_nobody(server: Server) -> None:
    async with resting(server, Clock(monotonic=lambda: 100.0)) as engine:
        for host in range(3):
            engine.cache.pods.applied(pod(f"train-0-0-{host}"))
        due = []
        for name, version in (("train-0-0-0", 2), ("train-0-0-1", 3), ("train-0-0-2", 4), ("train-0-0-2", 5)):
            engine._see_pod(Applied(pod(name, version, node=f"n{version}", runs=True)), "")
            due.append(engine.queue._due.pop(KEY) - 100.0)
        waits = 3 * CALM_SECONDS_PER_POD
        assert due == pytest.approx([waits, waits, 0.0, waits])


async def test_pods_of_an_attempt_that_has_ended_go_without_hurry(server: Server) -> None:
    async with resting(server, Clock(monotonic=lambda: 100.0)) as engine:
        for host in range(1000):
            engine.cache.pods.applied(pod(f"train-0-0-{host}"))
        ended = {"number": 0, "startTime": "2026-11-05T10:00:00Z", "endTime": "2026-11-05T10:15:00Z"}
        engine.cache.jobs.upsert(job_json() | {"status": {"attempt": 0, "attempts": [ended]}})
        engine._see_pod(Deleted(pod("train-0-0-9", version=5, phase="Failed")), "")
        assert engine.queue._due[KEY] == pytest.approx(100.0 + 999 * CALM_SECONDS_PER_POD)

"""The engine alone, against a server that answers by path."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
from aiohttp import web

from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.request_counts import Calls
from slipway.apiserver.watch import Applied
from slipway.controller import engine as engine_module
from slipway.controller.clock import Clock
from slipway.controller.engine import WORKERS, Engine, EngineFailed
from slipway.controller.gauges import Gauges
from slipway.controller.lease import Lease
from slipway.controller.observability import health
from slipway.controller.observability.metric_table import METRICS, Kind
from slipway.controller.observability.metrics import Metrics
from slipway.controller.seen import job_lists, watches
from slipway.controller.settings import OperatorSettings
from slipway.core.planner.contract.actions import Plan
from slipway.core.planner.contract.snapshot import Snapshot
from tests.apiserver.replay import Replay, open_access, replaying
from tests.controller.kueue_crds import KINDS, NEWER
from tests.controller.things import job_json, node_json, pod, pod_json
from tests.waiting import holds, passing

KEY = ("ns", "train")
PROFILE: dict[str, Any] = {
    "metadata": {"name": "default", "namespace": "ns", "uid": "profile", "resourceVersion": "1", "generation": 1},
    "spec": {},
}


class Server:
    """Lists by the last word of the path; watches say nothing; what is created is taken."""

    def __init__(self, replay: Replay) -> None:
        self.replay = replay
        self.lists: dict[str, list[Any]] = {"slicejobs": [job_json()]}
        self.objects: dict[str, Any] = {"apis": {"groups": []}}
        self.refused: set[str] = set()
        self.absent: set[str] = set()
        self._watches_end = asyncio.Event()
        self.deleted: list[str] = []
        self.slow: dict[str, float] = {}
        self.begun: list[tuple[str, str]] = []
        self.done: list[tuple[str, str]] = []

    def end_watches(self) -> None:
        """Those there are now; what is watched from now on stays open."""
        self._watches_end.set()
        self._watches_end = asyncio.Event()

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        what = request.path.rsplit("/", 1)[-1]
        self.begun.append((request.method, what))
        if request.method == "POST":
            await passing(self.slow.get(what, 0.0))
        answer = await self.answer(request, what)
        self.done.append((request.method, what))
        return answer

    async def answer(self, request: web.Request, what: str) -> web.StreamResponse:
        if what in self.objects:
            return web.json_response(self.objects[what])
        if what in self.absent:
            return web.Response(status=404, text="404 page not found")
        if what in self.refused:
            return web.json_response({"reason": "Forbidden", "message": f"may not list {what}"}, status=403)
        if "watch" in request.query:
            closed = asyncio.ensure_future(self.replay.until_closed())
            ended = asyncio.ensure_future(self._watches_end.wait())
            await asyncio.wait((closed, ended), return_when=asyncio.FIRST_COMPLETED)
            closed.cancel()
            ended.cancel()
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
async def resting(server: Server, clock: Clock, **given: Any) -> AsyncIterator[Engine]:
    """An engine that was not started."""
    access = open_access(server.replay.url)
    async with ApiConnection(access) as api, ApiConnection(access) as lease_api:
        lease = Lease(lease_api, "ns", "slipway", "me", now=clock.now, clock=clock.monotonic)
        yield Engine(api, lease, OperatorSettings(**given), clock, Metrics())


@asynccontextmanager
async def leading(server: Server, clock: Clock, **given: Any) -> AsyncIterator[Engine]:
    """An engine that leads as far as it knows, and does nothing by itself."""
    async with resting(server, clock, **given) as engine:
        engine._ready.set()
        yield engine


@asynccontextmanager
async def running(server: Server) -> AsyncIterator[tuple[Engine, "asyncio.Future[None]"]]:
    async with resting(server, Clock()) as engine:
        engine._api.guard = engine._lease.check
        over = engine.start()
        try:
            yield engine, over
        finally:
            await engine.stop()


until = partial(holds, seconds=60)


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
        shown = samples(engine)
    assert shown["slipway_nodes_watched", ()] == 0
    assert {labels for name, labels in shown if name == "slipway_watch_age_seconds"} == {
        ("slicejobs",), ("pods",), ("slicejobprofiles",),
    }  # fmt: skip
    assert caplog.text.count("nodes cannot be watched") == 1


async def test_a_silent_watch_of_kueue_is_shown_and_is_no_reason_to_replace_the_process(server: Server) -> None:
    clock = Clock(monotonic=lambda: 1000.0)
    async with resting(server, clock) as engine:
        engine.queues._sources = [*engine.queues._kinds(NEWER)]
        for one in engine.queues._sources:
            one.watcher.heard = 100.0 if one.kind == "workloads" else 999.0
        assert engine.health()
        assert samples(engine, clock=clock)["slipway_watch_age_seconds", ("workloads",)] == 900.0


OF_LEADER = {row.name for row in METRICS.values() if row.of_leader and row.kind is Kind.GAUGE}


async def test_only_the_leader_has_gauges_of_jobs(server: Server, planned: list[Snapshot]) -> None:
    async with running(server) as (engine, _):
        engine.observe(None, job_json())
        await until(lambda: planned)
        assert {name for name, _ in samples(engine)} >= OF_LEADER - {"slipway_jobs_waiting"}
    async with resting(server, Clock()) as engine:
        engine.observe(None, job_json())
        shown = samples(engine)
    assert not {name for name, _ in shown} & OF_LEADER
    assert shown["slipway_leader", ()] == 0


WATCHED: dict[str, tuple[dict[str, float], float]] = {
    "every namespace, the one earlier": ({paths.jobs("a"): 95.0, paths.jobs("b"): 90.0}, 10.0),
    "one that was deleted a day before": ({paths.jobs("a"): 99.0, paths.jobs("b"): 98.0, paths.jobs("gone"): 1.0}, 2.0),
    "one, and another not yet: since the start": ({paths.jobs("a"): 99.0}, 20.0),
    "both by an engine before this one: since the start": ({paths.jobs("a"): 10.0, paths.jobs("b"): 10.0}, 20.0),
    "both, through a proxy": ({f"/proxy{paths.jobs('a')}": 97.0, f"/proxy{paths.jobs('b')}": 98.0}, 3.0),
}


@pytest.mark.parametrize("watched", WATCHED)
async def test_the_age_of_kopfs_watches_is_that_of_the_namespaces_that_are_served(server: Server, watched: str) -> None:
    seconds = 80.0
    clock, calls = Clock(monotonic=lambda: seconds), Calls()
    calls._watched.update(WATCHED[watched][0])
    async with resting(server, clock, namespaces=("a", "b")) as engine:
        seconds = 100.0
        assert samples(engine, calls, clock)["slipway_watch_age_seconds", ("slicejobs",)] == WATCHED[watched][1]


def samples(
    engine: Engine, calls: Calls | None = None, clock: Clock | None = None
) -> dict[tuple[str, tuple[str, ...]], float]:
    """What a scrape shows of an engine, by name and labels."""
    gauges = Gauges(calls or Calls(), clock or Clock())
    gauges.follow(engine, engine._lease)
    found = (one for family in gauges.collect() for one in family.samples)
    return {(one.name, tuple(one.labels.values())): one.value for one in found}


async def test_a_standby_does_not_ask_whether_kueue_reads_boosts_and_goes_on_standing_by(server: Server) -> None:
    body = job_json(spec={"image": "busybox", "progress": {"pattern": "saved (?P<checkpoint>[0-9]+)"}})
    body["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "tpu"}
    body["status"] = {"phase": "Running", "attempt": 0, "progress": {"attempt": 0, "checkpoint": 7}}
    server.objects |= {"apis": {"groups": [{"versions": [{"groupVersion": NEWER}]}]}}
    server.objects |= {"v1beta2": {"resources": [{"name": one} for one in KINDS]}}
    server.objects |= {"slipway": {"metadata": {"resourceVersion": "1"}, "spec": {"holderIdentity": "other"}}}
    server.lists["slicejobs"] = [body]
    async with running(server) as (engine, over):
        engine.observe(None, body)
        await until(lambda: engine.cache.kueue.listed or over.done())
        await passing(0.2)
        assert not over.done()
        assert ("POST", "workloads") not in server.begun
        server.objects["slipway"] = {"metadata": {"resourceVersion": "2"}}
        await until(lambda: ("POST", "workloads") in server.begun)
        assert not over.done()


async def test_without_a_role_for_pods_it_ends_with_a_sentence(server: Server) -> None:
    server.refused.add("pods")
    async with running(server) as (_, over):
        with pytest.raises(EngineFailed, match="pods cannot be watched: may not list pods"):
            await asyncio.wait_for(over, 60)


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


async def test_a_job_made_anew_while_the_workload_of_the_last_one_is_let_go_stays_known(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leading(server, Clock()) as engine:

        async def release(_: Any) -> bool:
            engine.observe("ADDED", job_json(version=3, uid="job-2"))
            return True

        monkeypatch.setattr(engine._applier.workloads, "release", release)
        engine.observe("ADDED", job_json())
        engine.observe("DELETED", job_json(version=2))
        await engine._reconcile(KEY)
        assert {job.key: job.uid for job in engine.cache.jobs.all()} == {KEY: "job-2"}


async def test_a_job_that_went_unnoticed_is_dropped_by_the_slow_look_at_names(
    server: Server, planned: list[Snapshot]
) -> None:
    async with running(server) as (engine, _):
        engine.observe(None, job_json())
        await until(lambda: planned)
        server.lists["slicejobs"] = []
        await engine._job_lists._compare("")
        assert engine.cache.snapshot(KEY) is None


async def test_an_edit_that_went_unnoticed_is_found_by_the_slow_look(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_lists, "BEHIND_SECONDS", 0.0)
    async with leading(server, Clock()) as engine:
        engine.observe(None, job_json(version=1))
        server.lists["slicejobs"] = [job_json(version=9)]
        server.objects["train"] = job_json(version=9, generation=2, spec={"image": "b", "hosts": 2, "cancel": True})
        await engine._job_lists._compare("")
        job = engine.cache.jobs.get(KEY)
        assert job is not None
        assert job.resource_version == "9"


async def test_a_job_that_is_known_as_listed_is_not_fetched(server: Server) -> None:
    async with leading(server, Clock()) as engine:
        engine.observe(None, job_json(version=9))
        server.lists["slicejobs"] = [job_json(version=9)]
        await engine._job_lists._compare("")
        assert [one.path for one in server.replay.requests if one.path.endswith("/train")] == []


MISLABELLED: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
    "a pod of the job, with another job's name": ((), {"job": "quarantine"}),
    "a copy of a pod, with another job's name": ((), {"job": "debug", "owner": ""}),
    "a copy of a pod, in another namespace": ((), {"namespace": "other", "owner": ""}),
    "a copy of a pod, in another namespace of those that are named": (("ns", "other"), {"namespace": "other"}),
}


@pytest.mark.parametrize(("namespaces", "of_pod"), MISLABELLED.values(), ids=MISLABELLED.keys())
async def test_labels_of_a_pod_are_no_proof_that_a_job_is_gone(
    server: Server, namespaces: tuple[str, ...], of_pod: dict[str, Any]
) -> None:
    async with leading(server, Clock(), namespaces=namespaces) as engine:
        engine.observe(None, job_json(version=1))
        for one in (pod("train-0-0-0"), pod("train-0-0-1", **of_pod)):
            engine._see_pod(Applied(one), "")
        for namespace in engine.namespaces:
            server.lists["slicejobs"] = [job_json(version=1)] if namespace in ("", "ns") else []
            await engine._job_lists._compare(namespace)
        assert engine._orphans == {}
        engine.observe("MODIFIED", job_json(version=2))
        job = engine.cache.jobs.get(KEY)
        assert job is not None
        assert job.resource_version == "2"


async def test_a_standby_keeps_nothing_of_jobs_that_come_and_go(server: Server) -> None:
    async with resting(server, Clock()) as engine:
        for number in range(50):
            engine.observe("ADDED", job_json(name=f"j{number}", uid=f"u{number}"))
            engine._see_pod(Applied(pod(f"j{number}-0-0-0", job=f"j{number}")), "")
            engine.observe("DELETED", job_json(2, name=f"j{number}", uid=f"u{number}"))
        assert not engine._orphans
        assert not engine.queue._due


async def test_a_new_leader_deletes_the_pods_of_jobs_that_went_before_and_no_others(
    server: Server, planned: list[Snapshot]
) -> None:
    server.lists["pods"] = [pod_json("gone-0-0-0", job="gone", job_uid="gone-1"), pod_json("train-0-0-0")]
    async with running(server) as (engine, _):
        await until(lambda: server.deleted)
        engine.observe(None, job_json())
        await until(lambda: planned)
        assert all("job-uid=gone-1" in selector for selector in server.deleted)


async def test_the_wait_of_jobs_counts_from_when_this_process_leads(server: Server) -> None:
    seconds = 0.0
    async with resting(server, Clock(monotonic=lambda: seconds)) as engine:
        engine.observe(None, job_json())
        await engine._lease.acquire()
        seconds = 6.0
        engine._unsynced.clear()
        engine._maybe_ready()
        engine.queue.add_at(KEY, -7200.0)
        seconds = 7.0
        assert engine.health()["oldestWait"] == "1.000"


async def test_jobs_that_wait_while_every_worker_is_at_work_are_not_forgotten(server: Server) -> None:
    seconds = 0.0
    async with resting(server, Clock(monotonic=lambda: seconds)) as engine:
        await engine._lease.acquire()
        engine._unsynced.clear()
        engine._maybe_ready()
        for number in range(WORKERS + 1):
            engine.queue.add((f"team-{number}", "train"))
        seconds = 7.0
        for _ in range(WORKERS - 1):
            engine.queue.take()
        engine.queue._taken = 0.0
        assert engine.health()["oldestWait"] == "7.000"
        engine.queue.take()
        assert engine.health()["oldestWait"] == "0.000"


async def test_a_uid_that_comes_while_another_is_deleted_is_not_lost(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with leading(server, Clock()) as engine:
        deleted: list[str] = []

        async def delete(key: Any, uid: str) -> None:
            deleted.append(uid)
            if uid == "a":
                engine._gone(KEY, "b")

        monkeypatch.setattr(engine._applier.remover, "delete_orphans", delete)
        engine._gone(KEY, "a")
        await engine._reconcile(KEY)
        assert (deleted, engine._orphans) == (["a", "b"], {})


@pytest.mark.parametrize(("own", "made_here"), [("", "!slipway.dev/operator-id"), ("b", "slipway.dev/operator-id=b")])
async def test_pods_of_another_operator_are_not_its_orphans(server: Server, own: str, made_here: str) -> None:  # N-32
    async with leading(server, Clock(), operator_id=own) as engine:
        engine._see_pod(Applied(pod()), "")
        engine.observe("DELETED", job_json())
        await engine._reconcile(KEY)
        assert [selector for selector in server.deleted if made_here not in selector.split(",")] == []
        assert server.deleted


@pytest.mark.parametrize(("hosts", "parts"), [(0, 0), (1, 0), (8, 0), (9, 2)])
async def test_few_pods_of_a_deleted_job_take_one_request(server: Server, hosts: int, parts: int) -> None:
    async with leading(server, Clock()) as engine:
        for host in range(hosts):
            engine._see_pod(Applied(pod(f"train-0-0-{host}")), "")
        engine.observe("DELETED", job_json())
        await engine._reconcile(KEY)
        *of_parts, of_all = server.deleted
        assert len(of_parts) == parts
        assert of_all == "slipway.dev/job-uid=job-1,!slipway.dev/operator-id"


@pytest.mark.parametrize("known", ["as it was deleted", "by its pods only"])
async def test_pods_that_were_orphaned_on_purpose_stay(server: Server, known: str) -> None:
    async with leading(server, Clock()) as engine:
        owner = "" if known == "by its pods only" else "job-1"
        engine._see_pod(Applied(pod(owner=owner)), "")
        body = job_json()
        body["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan"]}
        if known == "as it was deleted":
            engine.observe(None, body)
        engine.observe("DELETED", body)
        await engine._reconcile(KEY)
        assert server.deleted == []


async def test_nodes_that_may_be_listed_later_are_watched_from_then_on(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    monkeypatch.setattr(watches, "PAUSES", (0.02, 0.05))
    server.refused.add("nodes")
    async with running(server) as (engine, _):
        await until(lambda: not engine.cache.nodes.watched)
        assert engine.health()["nodesWatched"] == "false"
        await passing(0.2)
        server.lists["nodes"] = [node_json("n1")]
        server.refused.clear()
        await until(lambda: engine.cache.nodes.watched)
        assert engine.health()["nodesWatched"] == "true"
        assert "n1" in engine.cache.nodes.view
    assert caplog.text.count("nodes cannot be watched") == 1
    assert caplog.text.count("nodes are watched from now on") == 1


async def test_profiles_that_can_no_longer_be_read_start_nothing_until_they_can(
    server: Server, monkeypatch: pytest.MonkeyPatch, planned: list[Snapshot]
) -> None:
    monkeypatch.setattr(watches, "PAUSES", (0.02, 0.05))
    server.lists["slicejobprofiles"] = [PROFILE]

    def problem() -> str:
        found = planned[-1].job.site.choice.problem if planned else None
        return found[0] if found is not None else ""

    async with running(server) as (engine, _):
        engine.observe(None, job_json())
        await until(lambda: planned and planned[-1].job.site.choice.profile is not None)
        assert problem() == ""
        server.refused.add("slicejobprofiles")
        server.end_watches()
        await until(lambda: problem() == "ProfileUnreadable")
        assert planned[-1].job.site.choice.profile is not None, "what was known of it stays"
        server.refused.clear()
        await until(lambda: problem() == "")


@pytest.mark.parametrize(
    ("answers", "healthy"),
    [("profiles", False), ("nothing of profiles, by their role", True), ("that there is no CRD", True)],
)
async def test_silence_of_profiles_counts_unless_the_api_server_refuses_them(
    server: Server, monkeypatch: pytest.MonkeyPatch, answers: str, healthy: bool
) -> None:
    if answers == "that there is no CRD":
        server.absent.add("slicejobprofiles")
    elif not healthy:
        server.lists["slicejobprofiles"] = [PROFILE]
    else:
        server.refused.add("slicejobprofiles")
    async with running(server) as (engine, _):
        await until(engine._ready.is_set)
        assert engine.health()
        monkeypatch.setattr(health, "MAX_SILENCE_SECONDS", 0.2)
        others = [one.watcher for one in engine.sources if one.kind != "slicejobprofiles"]
        end = asyncio.get_running_loop().time() + 0.4
        while asyncio.get_running_loop().time() < end:
            await passing(0.05)
            for one in others:
                one.heard = engine._clock.monotonic()
        if healthy:
            assert engine.health()
        else:
            with pytest.raises(health.Unhealthy, match="silent"):
                engine.health()


async def test_the_lease_is_released_only_when_no_write_can_land_any_more(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    server.slow["pods"] = 0.3
    async with running(server) as (engine, _):
        await until(engine._ready.is_set)

        async def write() -> None:
            await engine._api.create("/api/v1/namespaces/ns/pods", {}, object)

        engine._tasks.append(asyncio.create_task(write()))
        await until(lambda: ("POST", "pods") in server.begun)
        await engine.stop()
    assert server.done.index(("POST", "pods")) < max(
        index for index, (method, what) in enumerate(server.done) if (method, what) == ("PUT", "slipway")
    )

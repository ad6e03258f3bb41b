"""What is no proof that an object is gone: a 404 that is no Status, as a load balancer answers for a moment."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from aiohttp import web

from slipway.api.status import Phase, SliceJobStatus
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import NoSuchPath
from slipway.apiserver.watch import Applied
from slipway.controller.act.apply import Applier
from slipway.controller.act.events import EventRecorder
from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Job, Settings
from slipway.core.model.workload import Workload
from slipway.core.planner.contract.actions import Action, DeleteJob, DeleteWorkload, ForceDeletePod, Plan, Refresh
from tests.apiserver.replay import Replay, refusal
from tests.controller.kueue_crds import NEWER
from tests.controller.things import Time, job_json, node

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = ("ns", "train")
WORKLOAD: dict[str, Any] = {
    "metadata": {
        "name": "slicejob-train",
        "namespace": "ns",
        "uid": "workload",
        "resourceVersion": "1",
        "labels": {"slipway.dev/job-name": "train", "slipway.dev/job-uid": "job-1"},
    }
}


async def default_backend(_: web.Request) -> web.Response:
    return web.Response(status=404, text="default backend - 404")


@pytest.fixture
async def applier(replay: Replay, api: ApiConnection, time: Time) -> Applier:
    cache = Cache(Settings(), lambda: NOW, time)
    cache.jobs.upsert(job_json())
    cache.nodes.observe(Applied(node("n1")))
    cache.kueue.version = NEWER
    cache.kueue.workloads.applied(msgspec.convert(WORKLOAD, Workload))
    replay.otherwise = default_backend
    return Applier(api, cache, EventRecorder(api, "tests", now=lambda: NOW, clock=time), now=lambda: NOW)


def known(cache: Cache) -> Job:
    job = cache.jobs.get(KEY)
    assert job is not None
    return job


WRITTEN = Plan(SliceJobStatus(phase=Phase.PENDING))
REQUESTS: dict[str, Plan | Action] = {
    "a status is written": WRITTEN,
    "a pod whose machine may be gone is deleted by force": ForceDeletePod("train-0-0-0", "uid", "n1"),
    "a node is looked at": Refresh(nodes=("n1",)),
    "the Lease of a kubelet is looked at": Refresh(kubelets=("n1",)),
    "a Workload is looked at": Refresh(workload=True),
    "a Workload is deleted": DeleteWorkload(NEWER, "slicejob-train", "workload"),
    "the job is deleted": DeleteJob(),
}


@pytest.mark.parametrize("what", REQUESTS.values(), ids=REQUESTS.keys())
async def test_nothing_is_taken_for_gone_and_the_request_is_made_again(
    replay: Replay, applier: Applier, what: Plan | Action
) -> None:
    cache = applier._cache
    job = known(cache)
    with pytest.raises(NoSuchPath):
        await applier.apply(what if isinstance(what, Plan) else Plan(job.status, (what,)), job)
    snapshot = cache.snapshot(KEY)
    assert snapshot is not None
    assert (set(snapshot.nodes), set(snapshot.lost_nodes), dict(snapshot.kubelets)) == ({"n1"}, set(), {})
    assert snapshot.kueue.workload is not None
    assert [one.method for one in replay.requests if "/pods/" in one.path] == []


async def test_a_job_that_is_read_again_after_a_conflict_is_not_taken_for_gone(
    replay: Replay, applier: Applier
) -> None:
    replay.then(refusal(409, "Conflict"))
    with pytest.raises(NoSuchPath):
        await applier.apply(WRITTEN, known(applier._cache))
    assert known(applier._cache).uid == "job-1"

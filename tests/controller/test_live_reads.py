"""What is asked with `Refresh` is answered: a decision that waits for an answer would wait for ever."""

from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from slipway.apiserver.connection import ApiConnection
from slipway.controller.act.apply import Applier
from slipway.controller.act.events import EventRecorder
from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Settings
from slipway.core.planner.contract.actions import Plan, Refresh
from tests.apiserver.replay import Replay, listing, refusal
from tests.controller.things import Time, job_json

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = ("ns", "train")


async def dropped(request: web.Request) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


ANSWERS: dict[str, Any] = {
    "nothing is there": listing("1"),
    "it is forbidden": refusal(403, "Forbidden", "may not"),
    "the API server fails": refusal(500, "InternalError"),
    "the connection is dropped": dropped,
}


@pytest.fixture
def applier(replay: Replay, api: ApiConnection, time: Time) -> Applier:
    cache = Cache(Settings(), lambda: NOW, time)
    cache.jobs.upsert(job_json())
    return Applier(api, cache, EventRecorder(api, "tests", now=lambda: NOW, clock=time), now=lambda: NOW)


async def asked(applier: Applier, what: Refresh) -> Cache:
    job = applier._cache.jobs.get(KEY)
    assert job is not None
    await applier.apply(Plan(job.status, (what,)), job)
    return applier._cache


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
async def test_events_and_visitors_are_known_at_that_time_whatever_the_answer(
    replay: Replay, applier: Applier, answer: Any
) -> None:
    replay.otherwise = answer
    cache = await asked(applier, Refresh(events=("pod-1",), visitors=("n1",)))
    assert (cache.pod_events["pod-1"].read_at, cache.visitors["n1"].read_at) == (NOW, NOW)


@pytest.mark.parametrize("answer", [ANSWERS["it is forbidden"], refusal(404, "NotFound")], ids=["forbidden", "none"])
async def test_the_lease_of_a_kubelet_is_known_at_that_time_where_it_cannot_be_had(
    replay: Replay, applier: Applier, answer: Any
) -> None:
    replay.otherwise = answer
    found = (await asked(applier, Refresh(kubelets=("n1",)))).kubelets["n1"]
    assert (found.read_at, found.renewed_at) == (NOW, None)

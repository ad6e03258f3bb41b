"""How soon a job is looked at again when a write to it has come to nothing."""

from datetime import UTC, datetime

import pytest

from slipway.api.status import Phase, SliceJobStatus
from slipway.cluster.apply import Applier
from slipway.cluster.cache import Cache
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import Conflict
from slipway.cluster.events import EventRecorder
from slipway.planner.actions import DeleteJob, Plan
from slipway.planner.snapshot import Job, Settings
from tests.cluster.replay import Replay, answer, refusal
from tests.cluster.things import Time, job_json

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = ("ns", "train")


@pytest.fixture
async def applier(api: ApiConnection, time: Time) -> Applier:
    cache = Cache(Settings(), lambda: NOW, time)
    cache.jobs.upsert(job_json(version=50))
    return Applier(api, cache, EventRecorder(api, "tests", now=lambda: NOW, clock=time), now=lambda: NOW)


def known(applier: Applier) -> Job:
    job = applier._cache.jobs.get(KEY)
    assert job is not None
    return job


REFUSED: dict[str, Plan] = {
    "its status": Plan(SliceJobStatus(phase=Phase.PENDING)),
    "its deletion": Plan(SliceJobStatus(), (DeleteJob(),)),
}


@pytest.mark.parametrize("plan", REFUSED.values(), ids=REFUSED.keys())
async def test_a_job_that_has_changed_is_decided_on_anew_at_once(replay: Replay, applier: Applier, plan: Plan) -> None:
    replay.then(refusal(409, "Conflict"), answer(job_json(version=51)))
    assert await applier.apply(plan, known(applier)) == 0
    assert known(applier).resource_version == "51"


UNCHANGED: dict[str, int] = {
    "a webhook refuses the request": 50,
    "etcd was restored from a backup": 40,
}


@pytest.mark.parametrize("plan", REFUSED.values(), ids=REFUSED.keys())
@pytest.mark.parametrize("version", UNCHANGED.values(), ids=UNCHANGED.keys())
async def test_a_conflict_over_a_job_that_has_not_changed_is_an_error(
    replay: Replay, applier: Applier, version: int, plan: Plan
) -> None:
    replay.then(refusal(409, "Conflict", "not now"), answer(job_json(version=version)))
    with pytest.raises(Conflict, match="not now"):
        await applier.apply(plan, known(applier))


async def test_a_conflict_over_a_job_that_the_watch_has_shown_meanwhile_is_none(
    replay: Replay, applier: Applier
) -> None:
    job = known(applier)
    applier._cache.jobs.upsert(job_json(version=51))
    replay.then(refusal(409, "Conflict"), answer(job_json(version=51)))
    assert await applier.apply(REFUSED["its status"], job) == 0

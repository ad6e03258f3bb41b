"""How soon a job is looked at again when a write to it has come to nothing."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from slipway.api.status import Attempt, Phase, Resolved, SliceJobStatus
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import Conflict, NotFound
from slipway.apiserver.wire import JsonObject
from slipway.controller.act.apply import Applier
from slipway.controller.act.dropped_fields import DROPPED_SECONDS
from slipway.controller.act.events import EventRecorder
from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Job, Settings
from slipway.core.model.workload import Workload
from slipway.core.planner.contract.actions import DeleteJob, DeleteWorkload, PatchWorkload, Plan
from tests.apiserver.replay import Handler, Replay, answer, refusal
from tests.controller.kueue_crds import NEWER
from tests.controller.things import Time, job_json

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
async def applier(api: ApiConnection, time: Time) -> Applier:
    cache = Cache(Settings(), lambda: NOW, time)
    cache.jobs.upsert(job_json(version=50))
    return Applier(api, cache, EventRecorder(api, "tests", now=lambda: NOW, clock=time), now=lambda: NOW)


def known(applier: Applier, name: str = "train") -> Job:
    job = applier._cache.jobs.get(("ns", name))
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


async def test_a_job_is_gone_only_when_a_look_says_so_too(replay: Replay, applier: Applier) -> None:
    plan = REFUSED["its status"]
    replay.then(refusal(404, "NotFound", "a webhook found no team"), answer(job_json(version=50)))
    with pytest.raises(NotFound, match="no team"):
        await applier.apply(plan, known(applier))
    replay.then(refusal(404, "NotFound"), refusal(404, "NotFound"))
    assert await applier.apply(plan, known(applier)) == 0
    assert applier._cache.jobs.get(("ns", "train")) is None


async def test_a_conflict_over_a_job_that_the_watch_has_shown_meanwhile_is_none(
    replay: Replay, applier: Applier
) -> None:
    job = known(applier)
    applier._cache.jobs.upsert(job_json(version=51))
    replay.then(refusal(409, "Conflict"), answer(job_json(version=51)))
    assert await applier.apply(REFUSED["its status"], job) == 0


RESOLVED = Resolved(
    hosts=2, gpu_vendor="nvidia", coordinator_port=8476, schedule_seconds=1, start_seconds=1, grace_period_seconds=30,
    template_hash="h",
)  # fmt: skip
ATTEMPTS = (Attempt(number=0, start_time=NOW, running_time=NOW),)
WANTED = SliceJobStatus(phase=Phase.PENDING, ready_slices="0/1", resolved=RESOLVED, attempts=ATTEMPTS)
STORED = WANTED.model_dump(mode="json", by_alias=True, exclude_none=True)
DROPPED: dict[str, tuple[dict[str, Any], float, str]] = {
    "all": (STORED, 0.0, ""),
    "all but a field": ({**STORED, "readySlices": None}, DROPPED_SECONDS, "status.readySlices"),
    "all but a field of an object": (
        {**STORED, "resolved": {**STORED["resolved"], "gpuVendor": None}}, DROPPED_SECONDS, "status.resolved.gpuVendor",
    ),
    "all but an object": ({**STORED, "resolved": None}, DROPPED_SECONDS, "status.resolved.templateHash"),
    "all but a field of an entry": (
        {**STORED, "attempts": [{**STORED["attempts"][0], "runningTime": None}]}, DROPPED_SECONDS, "status.attempts",
    ),
    "all, and a default of its own in an entry": (
        {**STORED, "attempts": [{**STORED["attempts"][0], "newer": 1}]}, 0.0, "",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("kept", "pause", "named"), DROPPED.values(), ids=DROPPED.keys())
async def test_a_status_of_which_the_api_server_keeps(
    replay: Replay, applier: Applier, caplog: pytest.LogCaptureFixture, kept: dict[str, Any], pause: float, named: str
) -> None:
    for name, uid in (("train", "job-1"), ("other", "job-2")):
        applier._cache.jobs.upsert(job_json(version=50, name=name, uid=uid))
        replay.then(answer(job_json(version=51, name=name, uid=uid, status=kept)))
        assert await applier.apply(Plan(WANTED), known(applier, name)) == pause
    assert caplog.text.count("the API server has dropped") == bool(named)
    assert f"{named} of a SliceJob" in caplog.text or not named


def workload(version: int, **about: Any) -> JsonObject:
    known = {"name": "slicejob-train", "namespace": "ns", "uid": "w", "resourceVersion": str(version)}
    return {"metadata": known | about}


OF_WORKLOAD: dict[str, Plan] = {
    "its status": Plan(SliceJobStatus(), (PatchWorkload(NEWER, "slicejob-train", "50", {"status": {}}, True),)),
    "its priority": Plan(SliceJobStatus(), (PatchWorkload(NEWER, "slicejob-train", "50", {"spec": {"priority": 1}}),)),
    "its deletion": Plan(SliceJobStatus(), (DeleteWorkload(NEWER, "slicejob-train", "w"),)),
}


@pytest.fixture
def queued(applier: Applier) -> Applier:
    applier._cache.kueue.workloads.applied(msgspec.convert(workload(50), Workload))
    return applier


@pytest.mark.parametrize("plan", OF_WORKLOAD.values(), ids=OF_WORKLOAD.keys())
@pytest.mark.parametrize("version", UNCHANGED.values(), ids=UNCHANGED.keys())
@pytest.mark.parametrize(("code", "reason"), [(409, "Conflict"), (404, "NotFound")])
async def test_a_refusal_over_a_workload_that_has_not_changed_is_an_error(
    replay: Replay, queued: Applier, code: int, reason: str, version: int, plan: Plan
) -> None:
    replay.then(refusal(code, reason, "not now"), answer(workload(version)))
    with pytest.raises((Conflict, NotFound), match="not now"):
        await queued.apply(plan, known(queued))


FOUND_THEN: dict[str, Handler] = {
    "it has changed": answer(workload(51, deletionTimestamp="2026-01-01T12:00:00Z")),
    "it is another": answer(workload(51, uid="other")),
    "it is gone": refusal(404, "NotFound"),
}


@pytest.mark.parametrize("plan", OF_WORKLOAD.values(), ids=OF_WORKLOAD.keys())
@pytest.mark.parametrize("found", FOUND_THEN.values(), ids=FOUND_THEN.keys())
async def test_a_workload_that_has_changed_is_decided_on_anew_at_once(
    replay: Replay, queued: Applier, found: Handler, plan: Plan
) -> None:
    replay.then(refusal(409, "Conflict"), found)
    assert await queued.apply(plan, known(queued)) == 0

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import msgspec
import pytest

from slipway.api.status import Phase
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.wire import JsonObject
from slipway.controller.act import events
from slipway.controller.act.events import BURST, EventRecorder
from slipway.core.model.job import Job
from slipway.core.planner.contract.actions import EventRecord
from tests.apiserver.replay import Replay, answer, refusal
from tests.controller.bench import Bench
from tests.controller.things import Time, job_json, job_store
from tests.waiting import passing


@pytest.fixture
async def recorder(api: ApiConnection, time: Time) -> AsyncIterator[EventRecorder]:
    made = EventRecorder(api, "me", now=lambda: datetime(2026, 1, 1, tzinfo=UTC), clock=time)
    running = asyncio.create_task(made.run())
    yield made
    running.cancel()


@pytest.fixture
def job(time: Time) -> Job:
    jobs = job_store(time)
    jobs.upsert(job_json(status={"attempt": 2}))
    found = jobs.get(("ns", "train"))
    assert found is not None
    return found


def bodies(replay: Replay) -> list[dict[str, Any]]:
    return [msgspec.json.decode(body) for body in replay.bodies]


async def test_an_announcement_becomes_an_event_about_the_job(
    replay: Replay, recorder: EventRecorder, job: Job
) -> None:
    replay.otherwise = answer({})
    recorder.record(job, EventRecord("Preempted", "slice 1 was preempted", warning=True))
    await recorder.flush()
    (event,) = bodies(replay)
    assert replay.requests[0].path == "/api/v1/namespaces/ns/events"
    assert (event["reason"], event["message"], event["type"]) == ("Preempted", "slice 1 was preempted", "Warning")
    assert event["involvedObject"]["uid"] == "job-1"
    assert (event["firstTimestamp"], event["lastTimestamp"], event["count"]) == (*["2026-01-01T00:00:00Z"] * 2, 1)


async def test_telling_twice_has_the_same_name_and_is_no_error(
    replay: Replay, recorder: EventRecorder, job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    replay.then(answer({}), refusal(409, "AlreadyExists"))
    for _ in range(2):
        recorder.record(job, EventRecord("Running", "all run"))
    await recorder.flush()
    first, second = bodies(replay)
    assert first["metadata"] == second["metadata"]
    assert not caplog.records


async def test_what_an_event_tells_of_is_asked_for_first(
    replay: Replay, api: ApiConnection, recorder: EventRecorder, job: Job
) -> None:
    replay.otherwise = answer({})
    recorder.record(job, EventRecord("Preempted", "slice 1 was preempted", warning=True))
    await passing(0)
    await api.delete("/api/v1/namespaces/ns/pods/train-2-0-0", uid="pod-1")
    await recorder.flush()
    assert [one.path.rpartition("/")[2] for one in replay.requests] == ["train-2-0-0", "events"]


async def test_a_note_is_cut_to_what_the_server_takes(replay: Replay, recorder: EventRecorder, job: Job) -> None:
    replay.otherwise = answer({})
    recorder.record(job, EventRecord("Failed", "é" * 2000))
    await recorder.flush()
    assert len(bodies(replay)[0]["message"].encode()) == 1000


async def test_a_refused_event_is_logged_and_forgotten(
    replay: Replay, recorder: EventRecorder, job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    replay.then(refusal(403, "Forbidden", "no role"), answer({}))
    for message in ("one", "two"):
        recorder.record(job, EventRecord("Running", message))
    await recorder.flush()
    assert len(replay.requests) == 2
    assert "Event Running was not recorded: no role" in caplog.text


async def test_a_job_that_talks_too_much_is_cut_short_until_later(
    replay: Replay, recorder: EventRecorder, job: Job, time: Time
) -> None:
    replay.otherwise = answer({})
    for number in range(BURST + 10):
        recorder.record(job, EventRecord("Running", str(number)))
    time.now += 60
    recorder.record(job, EventRecord("Running", "later"))
    await recorder.flush()
    assert len(replay.requests) == BURST + 1


async def test_how_a_job_ended_is_told_however_much_was_told_before(
    replay: Replay, recorder: EventRecorder, job: Job
) -> None:
    replay.otherwise = answer({})
    for number in range(BURST + 1):
        recorder.record(job, EventRecord("Running", str(number)))
    ended = replace(job, status=job.status.model_copy(update={"phase": Phase.FAILED}))
    recorder.record(ended, EventRecord("Failed", "out of retries"))
    await recorder.flush()
    assert [one["reason"] for one in bodies(replay)] == ["Running"] * BURST + ["Failed"]


async def test_fresh_news_takes_the_place_of_the_oldest(
    replay: Replay, api: ApiConnection, time: Time, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "MAX_WAITING", 3)
    replay.otherwise = answer({})
    recorder = EventRecorder(api, "me", now=lambda: datetime(2026, 1, 1, tzinfo=UTC), clock=time)
    for number in range(5):
        recorder.record(job, EventRecord("Running", str(number)))
    running = asyncio.create_task(recorder.run())
    await recorder.flush()
    running.cancel()
    assert [one["message"] for one in bodies(replay)] == ["2", "3", "4"]


async def test_events_are_described_in_the_order_in_which_they_happened(bench: Bench) -> None:
    moment = datetime(2026, 1, 1, tzinfo=UTC)
    times = iter(moment + timedelta(seconds=number) for number in range(8))
    recorder = EventRecorder(bench.api, "me", now=lambda: next(times), clock=monotonic)
    running = asyncio.create_task(recorder.run())
    jobs = job_store(monotonic)
    jobs.upsert(job_json() | {"metadata": job_json()["metadata"] | {"namespace": bench.namespace}})
    job = jobs.get((bench.namespace, "train"))
    assert job is not None
    for number in range(8):
        recorder.record(job, EventRecord("Running", str(number)))
    await recorder.flush()
    running.cancel()
    found = (await bench.api.list(paths.events(bench.namespace), JsonObject)).items
    said = [one["message"] for one in sorted(found, key=lambda one: str(one["lastTimestamp"]))]
    assert said == [str(number) for number in range(8)]

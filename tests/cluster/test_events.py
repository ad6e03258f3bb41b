import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from slipway.cluster.connection import ApiConnection
from slipway.cluster.events import BURST, EventRecorder
from slipway.cluster.jobs import JobStore
from slipway.planner.actions import Announcement
from slipway.planner.snapshot import Job
from tests.cluster.replay import Replay, answer, refusal
from tests.cluster.things import Time, job_json


@pytest.fixture
async def recorder(api: ApiConnection, time: Time) -> AsyncIterator[EventRecorder]:
    made = EventRecorder(api, "me", now=lambda: datetime(2026, 1, 1, tzinfo=UTC), clock=time)
    running = asyncio.create_task(made.run())
    yield made
    running.cancel()


@pytest.fixture
def job(time: Time) -> Job:
    jobs = JobStore(time)
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
    recorder.record(job, Announcement("Preempted", "slice 1 was preempted", warning=True))
    await recorder.flush()
    (event,) = bodies(replay)
    assert replay.requests[0].path == "/apis/events.k8s.io/v1/namespaces/ns/events"
    assert (event["reason"], event["note"], event["type"]) == ("Preempted", "slice 1 was preempted", "Warning")
    assert event["regarding"]["uid"] == "job-1"


async def test_telling_twice_has_the_same_name_and_is_no_error(
    replay: Replay, recorder: EventRecorder, job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    replay.then(answer({}), refusal(409, "AlreadyExists"))
    for _ in range(2):
        recorder.record(job, Announcement("Running", "all run"))
    await recorder.flush()
    first, second = bodies(replay)
    assert first["metadata"] == second["metadata"]
    assert not caplog.records


async def test_a_note_is_cut_to_what_the_server_takes(replay: Replay, recorder: EventRecorder, job: Job) -> None:
    replay.otherwise = answer({})
    recorder.record(job, Announcement("Failed", "é" * 2000))
    await recorder.flush()
    assert len(bodies(replay)[0]["note"].encode()) == 1000


async def test_a_refused_event_is_logged_and_forgotten(
    replay: Replay, recorder: EventRecorder, job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    replay.then(refusal(403, "Forbidden", "no role"), answer({}))
    for message in ("one", "two"):
        recorder.record(job, Announcement("Running", message))
    await recorder.flush()
    assert len(replay.requests) == 2
    assert "Event Running was not recorded: no role" in caplog.text


async def test_a_job_that_talks_too_much_is_cut_short_until_later(
    replay: Replay, recorder: EventRecorder, job: Job, time: Time
) -> None:
    replay.otherwise = answer({})
    for number in range(BURST + 10):
        recorder.record(job, Announcement("Running", str(number)))
    time.now += 60
    recorder.record(job, Announcement("Running", "later"))
    await recorder.flush()
    assert len(replay.requests) == BURST + 1

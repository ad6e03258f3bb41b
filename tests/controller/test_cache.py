"""What a process that takes over tells again."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Settings
from slipway.core.planner.contract.snapshot import Rejection, Snapshot
from slipway.core.vocabulary.reasons import NAME_TAKEN, QUOTA_EXCEEDED
from tests.controller.things import Time, job_json

NOW = datetime(2026, 11, 22, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("phase", "changed_ago", "told"),
    [
        pytest.param("Running", timedelta(days=3), [], id="runs for days: its Event was recorded long ago"),
        pytest.param("Running", timedelta(minutes=11), [], id="longer ago than a dying leader can be late"),
        pytest.param(
            "Running", timedelta(seconds=20), ["Running"], id="the last leader may have died before its Event"
        ),
        pytest.param("Succeeded", timedelta(days=3), [], id="done for days"),
        pytest.param("Succeeded", timedelta(seconds=20), ["Succeeded"], id="done just before the takeover"),
    ],
)
def test_a_new_leader_tells_again_only_what_is_recent(phase: str, changed_ago: timedelta, told: list[str]) -> None:
    cache = Cache(Settings(), lambda: NOW, Time())
    changed = (NOW - changed_ago).isoformat().replace("+00:00", "Z")
    condition = {"type": "Running", "status": "True", "reason": "x", "lastTransitionTime": changed}
    cache.jobs.upsert(job_json(status={"phase": phase, "conditions": [condition]}))
    job = cache.jobs.get(("ns", "train"))
    assert job is not None
    assert [one.reason for one in cache.news(job)] == told
    assert cache.news(job) == ()


@pytest.mark.parametrize(
    ("attempt", "changed_ago", "told"),
    [
        pytest.param(0, timedelta(seconds=20), ["LiteralSecret", "Running"], id="it began just before the takeover"),
        pytest.param(0, timedelta(days=3), [], id="it began days ago"),
        pytest.param(3, timedelta(seconds=20), ["Running"], id="another attempt"),
    ],
)
def test_a_new_leader_warns_again_only_of_a_job_that_has_just_begun(  # F-33
    attempt: int, changed_ago: timedelta, told: list[str]
) -> None:
    cache = Cache(Settings(), lambda: NOW, Time())
    changed = (NOW - changed_ago).isoformat().replace("+00:00", "Z")
    condition = {"type": "Running", "status": "True", "reason": "x", "lastTransitionTime": changed}
    status = {"phase": "Running", "attempt": attempt, "conditions": [condition]}
    cache.jobs.upsert(job_json(status=status, spec={"image": "a", "env": [{"name": "TOKEN", "value": "x"}]}))
    job = cache.jobs.get(("ns", "train"))
    assert job is not None
    assert [one.reason for one in cache.news(job)] == told


def seen(cache: Cache, name: str, namespace: str = "ns", **parts: Any) -> Snapshot:
    """A job is seen."""
    body = job_json(uid=name, name=name, **parts)
    body["metadata"]["namespace"] = namespace
    cache.jobs.upsert(body)
    found = cache.snapshot((namespace, name))
    assert found is not None
    return found


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def accepting(time: Time) -> Cache:
    """The API server has accepted the pods of a first job."""
    cache = Cache(Settings(), lambda: NOW, time)
    cache.accepted(seen(cache, "first").job)
    return cache


@pytest.mark.parametrize(
    ("other", "seconds", "known"),
    [
        pytest.param({}, 0.0, True, id="an equal spec"),
        pytest.param({}, 60.0, False, id="an equal spec, a minute later"),
        pytest.param({"spec": {"image": "another"}}, 0.0, False, id="another spec"),
        pytest.param({"namespace": "another"}, 0.0, False, id="another namespace"),
    ],
)
def test_what_was_accepted_is_known_of_equal_specs_for_a_minute(
    accepting: Cache, time: Time, other: dict[str, Any], seconds: float, known: bool
) -> None:
    time.now += seconds
    assert seen(accepting, "second", **other).equal_accepted is known


def test_a_refusal_of_an_equal_spec_is_the_last_word(accepting: Cache) -> None:
    accepting.rejected(seen(accepting, "second").job, Rejection("no", NOW))
    assert not seen(accepting, "third").equal_accepted


def test_what_a_profile_says_anew_has_not_been_accepted(accepting: Cache) -> None:
    accepting.profile_changed("ns", "default")
    assert not seen(accepting, "second").equal_accepted


@pytest.mark.parametrize("reason", [QUOTA_EXCEEDED, NAME_TAKEN])
def test_what_was_refused_is_over_once_the_services_are_there(reason: str) -> None:
    cache = Cache(Settings(), lambda: NOW, Time())
    job = seen(cache, "first").job
    cache.rejected(job, Rejection("a Service is needed", NOW, reason))
    assert seen(cache, "first").rejection is not None
    cache.served(job, 0, NOW)
    assert seen(cache, "first").rejection is None

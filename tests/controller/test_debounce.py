"""After which news of a pod its job is looked at when."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from slipway.apiserver.watch import Applied, Deleted, Init, InitDone
from slipway.controller.debounce import PROGRESS_SECONDS, SECONDS_PER_POD, observe
from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Settings
from tests.controller.things import Time, job_json, pod, pod_json

KEY = ("ns", "train")
PODS = 5
CALM = PODS * SECONDS_PER_POD
WAITS = {"waiting": {"reason": "ImagePullBackOff"}}


def cache(*, bound: int = 0, running: int = 0) -> Cache:
    """A job of so many pods, of which the first are bound or run."""
    made = Cache(Settings(), lambda: datetime(2026, 11, 5, 10, tzinfo=UTC), Time())
    for host in range(PODS):
        parts: dict[str, Any] = {"node": f"n{host}"} if host < max(bound, running) else {}
        made.pods.applied(pod(f"train-0-0-{host}", runs=host < running, **parts))
    return made


def news(of: Cache, host: int, **parts: Any) -> list[tuple[tuple[str, str], float]]:
    return observe(of, Applied(pod(f"train-0-0-{host}", 2, **parts)), "")


@pytest.mark.parametrize(
    ("bound", "running", "host", "parts", "seconds"),
    [
        pytest.param(0, 0, 0, {"node": "n0"}, PROGRESS_SECONDS, id="one of several is bound"),
        pytest.param(4, 0, 4, {"node": "n4"}, PROGRESS_SECONDS, id="the last one is bound"),
        pytest.param(5, 3, 3, {"node": "n3", "runs": True}, PROGRESS_SECONDS, id="one of several starts"),
        pytest.param(5, 4, 4, {"node": "n4", "runs": True}, 0.0, id="the last one starts"),
        pytest.param(5, 5, 4, {"node": "n9", "runs": True}, CALM, id="one that has started changes"),
        pytest.param(5, 3, 3, {"node": "n3", "phase": "Failed"}, 0.0, id="one fails before it has started"),
        pytest.param(5, 5, 3, {"node": "n3", "phase": "Failed"}, 0.0, id="one fails"),
        pytest.param(5, 5, 3, {"node": "n3", "runs": True, "going": True}, 0.0, id="somebody deletes one"),
    ],
)
def test_how_long_news_of_a_pod_may_wait(
    bound: int, running: int, host: int, parts: dict[str, Any], seconds: float
) -> None:
    assert news(cache(bound=bound, running=running), host, **parts) == [(KEY, pytest.approx(seconds))]


@pytest.mark.parametrize(
    "status",
    [
        {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]},
        {"containerStatuses": [{"name": "worker", "state": WAITS}]},
    ],
    ids=["the scheduler", "the kubelet"],
)
def test_what_is_in_the_way_of_a_start_waits_no_longer_than_any_change(status: dict[str, Any]) -> None:
    body = pod_json("train-0-0-0", 2) | {"status": {"phase": "Pending"} | status}
    assert observe(cache(), Applied(msgspec.convert(body, type(pod()))), "") == [(KEY, pytest.approx(CALM))]


def test_what_is_known_is_no_news() -> None:
    assert observe(cache(), Applied(pod("train-0-0-0")), "") == []


def test_a_pod_that_is_gone_waits_for_nobody_unless_its_attempt_has_ended() -> None:
    of = cache(running=PODS)
    assert observe(of, Deleted(pod("train-0-0-0", 2)), "") == [(KEY, 0.0)]
    ended = {"number": 0, "startTime": "2026-11-05T10:00:00Z", "endTime": "2026-11-05T10:15:00Z"}
    of.jobs.upsert(job_json() | {"status": {"attempt": 0, "attempts": [ended]}})
    assert observe(of, Deleted(pod("train-0-0-1", 3)), "") == [(KEY, pytest.approx((PODS - 2) * SECONDS_PER_POD))]


def test_a_list_waits_for_nobody() -> None:
    of = cache(running=PODS)
    assert observe(of, Init(), "") == []
    assert observe(of, Applied(pod("train-0-0-0", 2)), "") == []
    assert observe(of, InitDone("3"), "") == [(KEY, 0.0)]

"""What the API server may answer instead of creating an object: what is remembered of it, and what is an error."""

from datetime import UTC, datetime

import pytest

from slipway.api.status import SliceJobStatus
from slipway.apiserver import errors
from slipway.apiserver.connection import ApiConnection
from slipway.controller.act.apply import Applier
from slipway.controller.act.events import EventRecorder
from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Job, Settings
from slipway.core.planner.contract.actions import Check, Plan
from slipway.core.vocabulary.reasons import POD_REJECTED
from tests.apiserver.replay import Replay, refusal
from tests.controller.things import Time, job_json

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
KEY = ("ns", "train")
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "train-0-0-0"}, "spec": {"containers": []}}
PLAN = Plan(SliceJobStatus(), (Check((POD,)),))


@pytest.fixture
async def applier(api: ApiConnection, time: Time) -> Applier:
    cache = Cache(Settings(), lambda: NOW, time)
    cache.jobs.upsert(job_json())
    return Applier(api, cache, EventRecorder(api, "tests", now=lambda: NOW, clock=time), now=lambda: NOW)


def known(applier: Applier) -> Job:
    job = applier._cache.jobs.get(KEY)
    assert job is not None
    return job


WEBHOOK = 'admission webhook "images.acme.test" denied the request: the image is not signed'
POLICY = "pods \"p\" is forbidden: ValidatingAdmissionPolicy 'small' with binding 'all' denied request: too large"
DENIED: dict[str, tuple[int, str, str, str]] = {
    "a webhook": (403, "Forbidden", WEBHOOK, "WebhookDenied"),
    "a webhook that did not find what it looked up": (404, "", WEBHOOK, "WebhookDenied"),
    "a webhook that says so by the reason": (404, "NotFound", WEBHOOK, "WebhookDenied"),
    "a webhook that sees a conflict": (409, "", WEBHOOK, "WebhookDenied"),
    "a webhook with a limit": (429, "TooManyRequests", WEBHOOK, "WebhookDenied"),
    "a webhook that fails": (500, "InternalError", WEBHOOK, "WebhookDenied"),
    "a policy": (422, "Invalid", POLICY, "PolicyDenied"),
    "a policy whose reason is Unauthorized": (401, "Unauthorized", POLICY, "PolicyDenied"),
    "a policy whose reason is RequestEntityTooLarge": (413, "RequestEntityTooLarge", POLICY, "PolicyDenied"),
    "the API server, for a reason of its own": (422, "Invalid", "spec.containers: Required value", POD_REJECTED),
}


@pytest.mark.parametrize(("code", "reason", "words", "told"), DENIED.values(), ids=DENIED.keys())
async def test_a_job_is_told_who_denies_its_pods(
    replay: Replay, applier: Applier, code: int, reason: str, words: str, told: str
) -> None:
    replay.then(refusal(code, reason, words))
    assert await applier.apply(PLAN, known(applier)) == 0
    snapshot = applier._cache.snapshot(KEY)
    assert snapshot is not None
    assert snapshot.rejection is not None
    assert snapshot.rejection.reason == told


NO_WORD_ON_PODS: dict[str, tuple[int, str, type[errors.ApiError]]] = {
    "who we are is not known": (401, "Unauthorized", errors.Unauthorized),
    "a load balancer has no API server": (404, "", errors.NoSuchPath),
    "the quota was counted by others meanwhile": (409, "Conflict", errors.Conflict),
    "the API server is busy": (429, "TooManyRequests", errors.TooManyRequests),
    "the API server fails": (500, "InternalError", errors.ServerError),
}


@pytest.mark.parametrize(("code", "reason", "kind"), NO_WORD_ON_PODS.values(), ids=NO_WORD_ON_PODS.keys())
async def test_what_says_nothing_of_the_pods_is_an_error(
    replay: Replay, applier: Applier, code: int, reason: str, kind: type[errors.ApiError]
) -> None:
    replay.then(refusal(code, reason, "not now"))
    with pytest.raises(kind):
        await applier.apply(PLAN, known(applier))


async def test_what_refuses_pods_again_and_again_is_logged_once(
    replay: Replay, applier: Applier, caplog: pytest.LogCaptureFixture
) -> None:
    """A PriorityClass that is missing refuses each pod of a job, and each again after a pause."""
    caplog.set_level("INFO", "slipway")
    for number in range(5):
        words = f'pods "train-0-0-{number}" is forbidden: no PriorityClass with name high was found'
        replay.then(refusal(403, "Forbidden", words))
        await applier.apply(PLAN, known(applier))
    assert [one.levelname for one in caplog.records if "PriorityClass" in one.message] == ["WARNING"]
    replay.then(refusal(403, "Forbidden", WEBHOOK))
    await applier.apply(PLAN, known(applier))
    assert caplog.records[-1].message.startswith("WebhookDenied: ")

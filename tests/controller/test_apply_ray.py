"""What only Ray jobs have, made on a real API server: the head's pod, its Service, its token, its policy."""

from base64 import b64decode
from dataclasses import replace
from time import monotonic

import pytest

from slipway.api.places import HEAD, worker
from slipway.api.status import Attempt, SliceJobStatus
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.wire import JsonObject
from slipway.controller.act.apply import Applier
from slipway.controller.act.events import EventRecorder
from slipway.controller.seen.cache import Cache
from slipway.core.manifests.ray import objects
from slipway.core.model.job import Settings
from slipway.core.planner.contract.actions import (
    Check,
    CreateObjects,
    CreatePods,
    CreateServices,
    CreateToken,
    DeletePods,
    Plan,
)
from slipway.core.planner.contract.snapshot import Rejection
from slipway.core.validation.acceptance import pod_factory
from tests.apiserver.replay import Handler, Replay, refusal
from tests.controller.bench import Bench, now
from tests.controller.things import job_json

RUN = {"entrypoint": "python3 train.py"}


async def test_a_token_is_made_once_and_kept(bench: Bench) -> None:
    job = await bench.job(ray=RUN)
    path = f"{paths.secrets(bench.namespace)}/train-ray-{job.uid[:8]}"
    found = []
    for _ in range(2):
        await bench.act(job, CreateToken(objects.token_secret(job)))
        found.append(await bench.api.get(path, JsonObject))
    assert found[0] == found[1]
    assert len(b64decode(found[0]["data"]["token"])) == 64
    assert found[0]["metadata"]["ownerReferences"][0]["uid"] == job.uid


async def making_a_token(
    api: ApiConnection, replay: Replay, answer: Handler, *attempts: Attempt
) -> tuple[float | None, Rejection | None]:
    """After how long the job is looked at again, and what is known of it, when a server answers that."""
    cache = Cache(Settings(), now, monotonic)
    cache.jobs.upsert(job_json(spec={"image": "rayproject/ray:2", "ray": RUN}))
    applier = Applier(api, cache, EventRecorder(api, "tests", now=now, clock=monotonic), now=now)
    job = cache.jobs.get(("ns", "train"))
    assert job is not None
    job = replace(job, status=SliceJobStatus(attempts=attempts))
    replay.then(answer)
    again = await applier.apply(Plan(job.status, (CreateToken(objects.token_secret(job)),)), job)
    snapshot = cache.snapshot(("ns", "train"))
    assert snapshot is not None
    return again, snapshot.rejection


@pytest.mark.parametrize(
    ("said", "reason", "words"),
    [
        (
            'secrets "train-ray-job-1" is forbidden: exceeded quota: team, requested: secrets=1, used: secrets=5, '
            "limited: secrets=5",
            "QuotaExceeded",
            "exceeded quota team: a Secret for Ray is needed, and 5 of 5 are used",
        ),
        (
            'admission webhook "vault.example.com" denied the request: no Secrets here',
            "WebhookDenied",
            "the admission webhook vault.example.com denies the Secret for Ray: no Secrets here",
        ),
        (
            'secrets is forbidden: User "slipway" cannot create resource "secrets" in API group "" in the namespace',
            "OperatorForbidden",
            "Slipway (slipway) may not create secrets in this namespace",
        ),
    ],
    ids=["a quota", "a webhook", "a role"],
)
async def test_a_refused_token_is_a_rejection_that_says_so(
    api: ApiConnection, replay: Replay, said: str, reason: str, words: str
) -> None:
    again, rejection = await making_a_token(api, replay, refusal(403, "Forbidden", said))
    assert again == 0
    assert rejection is not None
    assert rejection.reason == reason
    assert rejection.message.startswith(words)


async def test_a_token_that_is_there_already_is_no_rejection(api: ApiConnection, replay: Replay) -> None:
    assert await making_a_token(api, replay, refusal(409, "AlreadyExists")) == (None, None)


QUOTA = 'secrets "train-ray-job-1" is forbidden: exceeded quota: team'


@pytest.mark.parametrize("ran", [True, False])
async def test_a_token_that_an_attempt_had_needs_no_quota(api: ApiConnection, replay: Replay, *, ran: bool) -> None:
    earlier = Attempt(number=0, start_time=now(), running_time=now() if ran else None)
    _, rejection = await making_a_token(api, replay, refusal(403, "Forbidden", QUOTA), earlier)
    assert (rejection is None) == ran


async def test_the_heads_service_and_policy_are_made_once(bench: Bench) -> None:
    job = await bench.job(ray=RUN)
    for _ in range(2):
        await bench.act(job, CreateObjects((objects.network_policy(job),)), CreateServices(0, (objects.service(job),)))
    await bench.api.get(f"{paths.services(bench.namespace)}/train-head", JsonObject)
    await bench.api.get(f"{paths.network_policies(bench.namespace)}/train-ray", JsonObject)


async def test_the_head_is_created_and_deleted_like_any_pod(bench: Bench) -> None:
    job = await bench.job(ray=RUN, hosts=1)
    await bench.act(job, CreatePods(0, (HEAD, worker(0, 0))))
    head = next(pod for pod in bench.now().pods if pod.is_head)
    assert (head.place, head.attempt) == (HEAD, 0)
    await bench.act(job, DeletePods(0, (), 1, head=True))
    left = {name: pod["metadata"] for name, pod in (await bench.pods()).items()}
    assert "deletionTimestamp" not in left["train-0-0-0"]
    assert "deletionTimestamp" in left.get("train-0-head", {"deletionTimestamp": "it is gone already"})


@pytest.mark.parametrize("part", ["head", "worker"])
async def test_each_kind_of_pod_is_checked(bench: Bench, part: str) -> None:
    bad = {"resources": {"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}}
    job = await bench.job(hosts=1, **({"ray": RUN | {"head": bad}} if part == "head" else {"ray": RUN} | bad))
    factory = pod_factory(job, Settings())
    assert await bench.act(job, Check((factory.pod(0, worker(0, 0)), factory.pod(0, HEAD)))) == 0
    rejection = bench.now().rejection
    assert rejection is not None
    assert "must be less than or equal to cpu limit" in rejection.message
    assert not bench.now().checked

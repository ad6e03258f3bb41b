"""What only Ray jobs have, made on a real API server: the head's pod, its Service, its token, its policy."""

from base64 import b64decode

import pytest

from slipway.api.places import HEAD, worker
from slipway.cluster import paths
from slipway.cluster.wire import JsonObject
from slipway.planner import ray
from slipway.planner.actions import (
    Check,
    CreateObjects,
    CreatePods,
    CreateServices,
    CreateToken,
    DeletePods,
)
from slipway.planner.pods import PodFactory
from slipway.planner.snapshot import Settings
from tests.cluster.bench import Bench

RUN = {"entrypoint": "python3 train.py"}


async def test_a_token_is_made_once_and_kept(bench: Bench) -> None:
    job = await bench.job(ray=RUN)
    path = f"{paths.secrets(bench.namespace)}/train-ray-{job.uid[:8]}"
    found = []
    for _ in range(2):
        await bench.act(job, CreateToken(ray.token_secret(job)))
        found.append(await bench.api.get(path, JsonObject))
    assert found[0] == found[1]
    assert len(b64decode(found[0]["data"]["token"])) == 64
    assert found[0]["metadata"]["ownerReferences"][0]["uid"] == job.uid


async def test_the_heads_service_and_policy_are_made_once(bench: Bench) -> None:
    job = await bench.job(ray=RUN)
    for _ in range(2):
        await bench.act(job, CreateObjects((ray.network_policy(job),)), CreateServices(0, (ray.service(job),)))
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
    factory = PodFactory(job, Settings())
    assert await bench.act(job, Check((factory.pod(0, worker(0, 0)), factory.pod(0, HEAD)))) == 0
    rejection = bench.now().rejection
    assert rejection is not None
    assert "must be less than or equal to cpu limit" in rejection.message
    assert not bench.now().checked

"""Where a job stands in its queue. The answers have the shapes of Kueue 0.19's visibility API."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from aiohttp import web

from slipway.apiserver.connection import ApiConnection
from slipway.client.model import JobState, Metadata, Stored
from slipway.client.queue_position import position
from tests.apiserver.replay import open_access, replaying

Answer = Callable[[web.Request], Awaitable[web.Response]]
QUEUE = "/namespaces/team-a/localqueues/tpu/pendingworkloads"
V2, V1 = (f"/apis/visibility.kueue.x-k8s.io/{version}{QUEUE}" for version in ("v1beta2", "v1beta1"))


def job(queue: str | None = "tpu", phase: str = "Queued") -> JobState:
    labels = {"kueue.x-k8s.io/queue-name": queue} if queue else {}
    return JobState(Stored(Metadata("train", "1", namespace="team-a", labels=labels), status={"phase": phase}))


def pending(*names: str) -> dict[str, Any]:
    """Workloads in the order of their turns; every second is of another LocalQueue of the ClusterQueue."""
    items = [
        {
            "metadata": {"name": name, "namespace": "team-a"}, "priority": 0, "localQueueName": "tpu",
            "positionInClusterQueue": 2 * place, "positionInLocalQueue": place,
        }
        for place, name in enumerate(names)
    ]  # fmt: skip
    return {"kind": "PendingWorkloadsSummary", "apiVersion": "visibility.kueue.x-k8s.io/v1beta2", "items": items}


def answers(body: dict[str, Any], status: int = 200) -> Answer:
    async def answer(request: web.Request) -> web.Response:
        return web.json_response(body, status=status)

    return answer


THIRD = "number 3 in LocalQueue tpu, number 5 in its ClusterQueue"
WAITING = pending("slicejob-a", "slicejob-b", "slicejob-train")
ABSENT = answers({"reason": "NotFound"}, 404)
TABLE: dict[str, tuple[JobState, list[Answer], list[str], str]] = {
    "two are before it": (job(), [answers(WAITING)], [V2], THIRD),
    "an older Kueue": (job(), [ABSENT, answers(WAITING)], [V2, V1], THIRD),
    "Kueue does not tell": (job(), [ABSENT, ABSENT], [V2, V1], ""),
    "this user may not ask": (job(), [answers({"reason": "Forbidden"}, 403)], [V2], ""),
    "it is admitted by now": (job(), [answers(pending("slicejob-a"))], [V2], ""),
    "nobody waits": (job(), [answers({"items": []})], [V2], ""),
    "it is in no queue": (job(None), [], [], ""),
    "it runs": (job(phase="Running"), [], [], ""),
    "it waits for its own pods": (job(phase="Restarting"), [], [], ""),
}


@pytest.mark.parametrize(("asked", "told", "paths", "words"), TABLE.values(), ids=TABLE)
async def test_the_position_of_a_job(asked: JobState, told: list[Answer], paths: list[str], words: str) -> None:
    seen: list[str] = []

    def noted(answer: Answer) -> Answer:
        async def noting(request: web.Request) -> web.Response:
            seen.append(request.path)
            return await answer(request)

        return noting

    async with replaying() as replay, ApiConnection(open_access(replay.url)) as api:
        replay.then(*map(noted, told))
        assert await position(api, asked) == words
    assert seen == paths


async def test_the_position_of_a_job_behind_thousands() -> None:
    waiting = pending(*(f"slicejob-{number}" for number in range(1500)), "slicejob-train")

    async def bounded(request: web.Request) -> web.Response:
        """As Kueue does it."""
        limit = min(int(request.query.get("limit", 1000)), 100_000)
        return web.json_response(waiting | {"items": waiting["items"][:limit]})

    async with replaying() as replay, ApiConnection(open_access(replay.url)) as api:
        replay.then(bounded)
        assert await position(api, job()) == "number 1501 in LocalQueue tpu, number 3001 in its ClusterQueue"

"""A job is deleted once its results are here, and they are not lost when that fails."""

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from slipway import CPU, DockerConfig, RayExecutor, run_docker_async, run_docker_on_pod
from slipway.sdk.jobs import Run
from tests.sdk.server import Server
from tests.waiting import PATIENCE

CONFIG = DockerConfig("acme/train:1")

CALLS: dict[str, Callable[[RayExecutor], Any]] = {
    "a function": lambda executor: executor.autoscale_execute(len, ("abc",)).result,
    "a container": lambda executor: run_docker_on_pod(CONFIG, CPU(), client=executor.client),
    "a container that nobody waits for": lambda executor: run_docker_async(CONFIG, client=executor.client).result(
        timeout=PATIENCE
    ).stdout,
}  # fmt: skip
RESULTS = dict(zip(CALLS, ([3, 3], "done", "done"), strict=True))
ANSWERS = {
    "the API server fails": (503, "ServiceUnavailable", "etcdserver: leader changed"),
    "a role is missing": (403, "Forbidden", "slicejobs is forbidden: User u cannot delete"),
    "no answer": (0, "", ""),
}


def ready(server: Server, which: str) -> None:
    """Containers have succeeded as soon as they are made; a function's job runs."""
    if which != "a function":
        server.log, server.status = "done", {"phase": "Succeeded"}


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("which", CALLS)
def test_results_are_returned_though_the_job_cannot_be_deleted(
    server: Server, executor: RayExecutor, caplog: pytest.LogCaptureFixture, which: str, answer: tuple[int, str, str]
) -> None:
    ready(server, which)
    server.deletion = answer
    assert CALLS[which](executor) == RESULTS[which]
    [job] = server.jobs
    assert f"SliceJob {job} has succeeded, and could not be deleted: {answer[2]}" in caplog.text


def test_a_deletion_is_none_of_the_time_that_a_call_may_take(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    ready(server, "a container")
    delete = Run.delete

    async def late(run: Run, *args: Any) -> None:
        await asyncio.sleep(4)
        await delete(run, *args)

    monkeypatch.setattr(Run, "delete", late)
    assert run_docker_on_pod(CONFIG, CPU(), client=server.client, timeout=3.0) == "done"
    assert server.jobs == {}

"""Whole calls against an API server of the tests', which has no cluster behind it."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway import CPU, Client, InvalidJob, JobFailed, RayExecutor
from slipway.sdk import portal
from tests.sdk.server import Server, environment_with
from tests.sdk.test_host_program import RAY


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server in the loop of a thread of its own, and a kubeconfig that leads to it."""
    made, ready = Server(tmp_path, environment_with(RAY, tmp_path)), threading.Event()
    stop: list[Any] = []

    async def serve() -> None:
        async with made.serve() as url:
            cluster, context = (
                {"name": "c", "cluster": {"server": url}},
                {"cluster": "c", "user": "u", "namespace": "x"},
            )
            whole: dict[str, Any] = {
                "apiVersion": "v1", "kind": "Config", "current-context": "k", "clusters": [cluster],
                "contexts": [{"name": "k", "context": context}], "users": [{"name": "u", "user": {}}],
            }  # fmt: skip
            (tmp_path / "kubeconfig").write_text(yaml.safe_dump(whole))
            over = asyncio.Event()
            stop.extend((asyncio.get_running_loop(), over))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(10)
    yield made
    loop, over = stop
    loop.call_soon_threadsafe(over.set)
    thread.join(10)


@pytest.fixture
def executor(server: Server) -> RayExecutor:
    return RayExecutor(CPU(slices=2), "acme/ray:1", client=Client(kubeconfig=server.folder / "kubeconfig"))


def test_a_call_from_its_job_to_its_result(server: Server, executor: RayExecutor) -> None:
    def train(word: str, times: int) -> str:
        return word * times

    results = executor.autoscale_execute_resumable(train, ("ab",), {"times": 500_000}, flatten=False)
    assert results == [["ab" * 500_000], ["ab" * 500_000]]
    assert server.jobs == {}
    assert [kind for kind, _ in server.history] == ["ADDED", "MODIFIED", "MODIFIED", "DELETED"]


def test_a_failure_keeps_the_job_and_tells_its_cause(server: Server, executor: RayExecutor) -> None:
    def train() -> None:
        raise KeyError("x")

    with pytest.raises(JobFailed, match="maxFailures") as caught:
        executor.autoscale_execute(train)
    assert isinstance(caught.value.__cause__, KeyError)
    assert "KeyError: 'x'" in caught.value.log
    assert len(server.jobs) == 1


def test_a_refusal_is_the_servers_own_sentence(server: Server, executor: RayExecutor) -> None:
    server.refusal = "slices is not among acceptableSlices"
    with pytest.raises(InvalidJob, match="slices is not among acceptableSlices"):
        executor.autoscale_execute(len, ("",))


def test_calls_work_beside_a_running_loop(server: Server, executor: RayExecutor) -> None:
    async def notebook() -> Any:
        return executor.autoscale_execute(len, ("abc",)).result

    assert asyncio.run(notebook()) == [3, 3]
    assert portal.run(asyncio.sleep(0, "done")) == "done"

"""A client of the SDK: on the nodes that have Ray's image, or of an API server of the tests'."""

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway import CPU, Client, RayExecutor
from tests.running import Jobs
from tests.sdk.caller import client_of
from tests.sdk.server import Server, environment_with
from tests.sdk.test_host_program import RAY
from tests.serving import kubeconfig
from tests.waiting import ANSWER_SECONDS


@pytest.fixture
def client(real_jobs: Jobs, tmp_path: Path) -> Client:
    """The test's own namespace, with an operator that serves it, as somebody who may only call."""
    return client_of(real_jobs.kubectl, tmp_path)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    """A server in the loop of a thread of its own, and a kubeconfig that leads to it."""
    made, ready = Server(tmp_path, environment_with(RAY, tmp_path)), threading.Event()
    stop: list[Any] = []

    async def serve() -> None:
        async with made.serve() as url:
            kubeconfig(tmp_path, url, namespace="x")
            over = asyncio.Event()
            stop.extend((asyncio.get_running_loop(), over))
            ready.set()
            await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(serve()))
    thread.start()
    assert ready.wait(ANSWER_SECONDS)
    yield made
    loop, over = stop
    loop.call_soon_threadsafe(over.set)
    thread.join(ANSWER_SECONDS)


@pytest.fixture
def executor(server: Server) -> RayExecutor:
    return RayExecutor(CPU(slices=2), "acme/ray:1", client=server.client)

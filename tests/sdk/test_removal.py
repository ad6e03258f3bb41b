"""What calls made is deleted: a job once its results are here, which are not lost when that fails, and a session's
cluster when the session is closed, by the next try where the first one fails."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from slipway import (
    CPU,
    Client,
    ClusterError,
    DockerConfig,
    RayExecutor,
    ServerFailed,
    Session,
    SessionClosed,
    run_docker_async,
    run_docker_on_pod,
)
from slipway.apiserver.connection import ApiConnection
from slipway.sdk import session as sessions
from slipway.sdk.jobs import Run
from tests.sdk.server import Server
from tests.waiting import ANSWER_SECONDS, passing

CONFIG = DockerConfig("acme/train:1")

CALLS: dict[str, Callable[[RayExecutor], Any]] = {
    "a function": lambda executor: executor.autoscale_execute(len, ("abc",)).result,
    "a container": lambda executor: run_docker_on_pod(CONFIG, CPU(), client=executor.client),
    "a container that nobody waits for": lambda executor: run_docker_async(CONFIG, client=executor.client).result(
        timeout=ANSWER_SECONDS
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
        await passing(4)
        await delete(run, *args)

    monkeypatch.setattr(Run, "delete", late)
    assert run_docker_on_pod(CONFIG, CPU(), client=server.client, timeout=3.0) == "done"
    assert server.jobs == {}


def test_a_session_that_is_closed_right_after_its_first_call_leaves_nothing(
    server: Server, executor: RayExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = Client.connect

    @asynccontextmanager
    async def late(client: Client) -> AsyncIterator[ApiConnection]:
        # The session is closed before the call has asked for anything.
        await passing(0.5)
        async with connect(client) as api:
            yield api

    monkeypatch.setattr(Client, "connect", late)
    monkeypatch.setattr(sessions, "CLOSE_SECONDS", 2.0)
    server.ready = False
    session = Session(executor)
    call = session.start_function(len, ("abc",))
    session.close()
    with pytest.raises(SessionClosed):
        call.result(timeout=ANSWER_SECONDS)
    assert (server.asked, server.jobs) == (1, {})


@pytest.mark.parametrize("answer", ANSWERS.values(), ids=ANSWERS)
@pytest.mark.parametrize("name", ["lab", None])
def test_a_session_that_could_not_be_closed_is_closed_by_the_next_try(
    server: Server, executor: RayExecutor, name: str | None, answer: tuple[int, str, str]
) -> None:
    session = Session(executor, name=name)
    session.ensure()
    server.deletion = answer
    with pytest.raises(ClusterError) as caught:
        session.close()
    assert answer[2] in str(caught.value)
    server.deletion = None
    session.close()
    assert server.jobs == {}


def test_a_session_that_could_not_be_closed_works_on(server: Server, executor: RayExecutor) -> None:  # E2-67
    session = Session(executor)
    session.ensure()
    server.deletion = (503, "ServiceUnavailable", "etcdserver: leader changed")
    with pytest.raises(ServerFailed):
        session.close()
    server.deletion = None
    assert session.run_function(len, ("abc",)) == [3, 3]
    session.close()
    assert (server.asked, server.jobs) == (1, {})
    assert session.run_function(len, ("abc",)) == [3, 3]
    session.close()
    assert (server.asked, server.jobs) == (2, {})

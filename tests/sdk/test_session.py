"""Calls one after the other on one kept cluster."""

import time
from typing import Any

import pytest

from slipway import CPU, Client, JobFailed, RayExecutor, Session, SessionClosed, VersionMismatch
from slipway.sdk import payload
from slipway.sdk.session import CLOSE_SECONDS
from tests.ray.image import IMAGE
from tests.running import Jobs
from tests.sdk.test_functions import HEAD


def executor(client: Client) -> RayExecutor:
    return RayExecutor(CPU(hosts=2), IMAGE, client=client, spec=HEAD)


def test_a_session_from_its_first_call_to_its_last(
    ray_jobs: Jobs, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def process() -> tuple[int, str]:
        import os

        return os.getpid(), os.environ["SLIPWAY_HOST"]

    def breaks() -> None:
        raise KeyError("x")

    def keeps() -> Any:
        import threading

        return threading.Lock()

    def puts() -> Any:
        import ray

        return [ray.put("a"), ray.put("b")]

    def sleeps() -> None:
        import time

        time.sleep(600)

    class Counter:
        def __init__(self, start: int = 0) -> None:
            self.count = start

        def step(self, by: int = 1) -> int:
            self.count += by
            return self.count

    session = Session(executor(client), name="shared")
    session.ensure()
    session.ensure()  # E2-63
    same = Session(executor(client), name="shared")
    same.ensure()
    assert len(ray_jobs.kubectl.get("sj")["items"]) == 1

    first, second = session.run_function(process), same.run_function(process)
    assert [host for _, host in first] == ["0", "1"]
    assert {pid for pid, _ in first}.isdisjoint({pid for pid, _ in second})  # E2-68
    steps = [session.run_class_method(Counter, "step", (2,), init_args=(5,)) for _ in range(2)]
    assert steps == [[7, 7], [7, 7]]  # E2-69
    with pytest.raises(JobFailed, match="KeyError: 'x'") as caught:
        session.run_function(breaks)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(JobFailed, match="the result, a lock, cannot be pickled"):
        session.run_function(keeps)
    assert session.run_function(puts) == [["a", "b"]] * 2  # E2-27
    mine = payload.versions()
    monkeypatch.setattr(payload, "versions", lambda: {**mine, "Python": "3.99.0", "Ray": "1.0.0"})
    with pytest.raises(VersionMismatch) as refused:
        session.run_function(process)
    monkeypatch.undo()
    for name, there in (("Python", "3.99.0"), ("Ray", "1.0.0")):
        assert f"{name} is {there} where the call was made" in str(refused.value)
    assert session.run_function(process, flatten=False)[0][1][1] == "1"

    running, start = session.start_function(sleeps), time.monotonic()
    session.close()
    assert time.monotonic() - start > CLOSE_SECONDS - 0.1
    with pytest.raises(SessionClosed, match="session shared was closed before sleeps had its results"):
        running.result()  # E2-67
    session.close()
    ray_jobs.until_true("removed", lambda: not ray_jobs.kubectl.get("sj")["items"])

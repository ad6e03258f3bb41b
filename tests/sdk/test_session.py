"""Calls one after the other on one kept cluster."""

import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from slipway import CPU, Client, JobFailed, RayExecutor, Session, SessionClosed, device_remote
from tests.ray.image import IMAGE
from tests.running import Jobs
from tests.sdk.test_functions import HEAD


def executor(client: Client) -> RayExecutor:
    return RayExecutor(CPU(hosts=2), IMAGE, client=client, spec=HEAD)


def test_a_session_from_its_first_call_to_its_last(ray_jobs: Jobs, client: Client) -> None:
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
    assert session.run_function(process, flatten=False)[0][1][1] == "1"

    running = session.start_function(sleeps)
    with ThreadPoolExecutor(1) as background:
        time.sleep(5)
        start = time.monotonic()
        background.submit(session.close).result()
        assert 9 < time.monotonic() - start < 20
    with pytest.raises(SessionClosed, match="session shared was closed before sleeps had its results"):
        running.result()  # E2-67
    session.close()
    ray_jobs.until_true("removed", lambda: not ray_jobs.kubectl.get("sj")["items"])


def test_a_device_makes_its_session_at_the_first_call(ray_jobs: Jobs, client: Client) -> None:  # E2-71, E2-72, E2-74
    @device_remote(executor=executor(client), flatten=False)
    class Greeter:
        def __init__(self, word: str) -> None:
            self.word = word

        def greet(self, name: str) -> str:
            return f"{self.word} {name}"

    greeter: Any = Greeter("hello")
    assert ray_jobs.kubectl.get("sj")["items"] == []
    later = greeter.greet.remote("you")
    assert not later.done()
    assert later.result(timeout=180) == [["hello you", "hello you"]]
    assert greeter.greet("me") == [["hello me", "hello me"]]
    greeter.close()
    ray_jobs.until_true("removed", lambda: not ray_jobs.kubectl.get("sj")["items"])

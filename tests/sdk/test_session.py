"""Calls one after the other on one kept cluster, which loses a machine on the way."""

import sys
import time
from collections.abc import Iterator
from typing import Any

import cloudpickle
import pytest

from slipway import Client, JobFailed, JobPreempted, RayExecutor, Session, SessionClosed, VersionMismatch
from slipway.devcluster import NativeCluster
from slipway.sdk import payload
from slipway.sdk import session as sessions
from tests.ray.image import IMAGE
from tests.running import Jobs
from tests.sdk.test_functions import HEAD
from tests.sdk.test_losses import SPOT, take
from tests.waiting import START_SECONDS


def sleeps() -> None:
    import pathlib
    import threading

    pathlib.Path("/tmp/began").touch()
    threading.Event().wait(600)


def attempt() -> str:
    import os

    return os.environ["SLIPWAY_ATTEMPT"]


def breaks() -> None:
    raise KeyError("x")


def crashes() -> None:
    import os

    os._exit(3)


def keeps() -> Any:
    import threading

    return threading.Lock()


def puts() -> Any:
    import ray

    return [ray.put("a"), ray.put("b")]


class Counter:
    def __init__(self, start: int = 0) -> None:
        self.count = start

    def step(self, by: int = 1) -> tuple[int, str, int]:
        import os

        self.count += by
        return self.count, os.environ["SLIPWAY_HOST"], os.getpid()


@pytest.fixture(autouse=True)
def travelling() -> Iterator[None]:
    """The image does not have this module."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.mark.thorough
def test_a_session_from_its_first_call_to_its_last(
    real_jobs: Jobs, real_nodes: NativeCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = RayExecutor(SPOT, IMAGE, client=client, spec=HEAD)
    session, same = Session(executor, name="lab"), Session(executor, name="lab")
    session.ensure()
    session.ensure()  # E2-63
    same.ensure()
    assert len(real_jobs.kubectl.get("sj")["items"]) == 1

    answers(session, same)
    refuses_other_versions(session, monkeypatch)
    # On a busy machine the operator takes long to tell why a machine is lost, and the kubelets to end the last pods.
    for limit in ("LOSS_SECONDS", "CRASH_SECONDS", "GONE_SECONDS"):
        monkeypatch.setattr(sessions, limit, START_SECONDS)
    outlives_a_machine(session, real_jobs, real_nodes)
    # A process that crashes on a machine that is well costs the call and nothing else.
    monkeypatch.setattr(sessions, "CRASH_SECONDS", 2.0)
    with pytest.raises(JobFailed, match="WorkerCrashedError"):
        session.run_function(crashes)
    assert session.run_function(attempt) == ["1", "1"]
    ends(session, real_jobs)


def answers(session: Session, same: Session) -> None:
    first, second = (one.run_class_method(Counter, "step", (2,), init_args=(5,)) for one in (session, same))
    assert [(count, host) for count, host, _ in first + second] == [(7, "0"), (7, "1")] * 2  # E2-69
    assert {pid for _, _, pid in first}.isdisjoint({pid for _, _, pid in second})  # E2-68
    with pytest.raises(JobFailed, match="KeyError: 'x'") as caught:
        session.run_function(breaks)
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(JobFailed, match="the result, a lock, cannot be pickled"):
        session.run_function(keeps)
    assert session.run_function(puts, flatten=False) == [[["a", "b"]] * 2]  # E2-27


def refuses_other_versions(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = payload.versions()
    monkeypatch.setattr(payload, "versions", lambda: {**mine, "Python": "3.99.0", "Ray": "1.0.0"})
    with pytest.raises(VersionMismatch) as refused:
        session.run_function(attempt)
    monkeypatch.undo()
    for name, there in (("Python", "3.99.0"), ("Ray", "1.0.0")):
        assert f"{name} is {there} where the call was made" in str(refused.value)


def outlives_a_machine(session: Session, jobs: Jobs, real_nodes: NativeCluster) -> None:  # E2-07, E2-68
    running = session.start_function(sleeps)
    looks = ("exec", "lab-0-0-1", "--", "test", "-e", "/tmp/began")
    jobs.until_true("the call", lambda: jobs.kubectl(*looks, check=False).returncode == 0, seconds=START_SECONDS)
    take(jobs, real_nodes, "lab-0-0-1")
    with pytest.raises(JobPreempted, match="attempt 0 was lost") as caught:
        running.result(timeout=START_SECONDS)
    assert str(caught.value.host) == "host 1 of slice 0 (index 1)"
    assert session.run_function(attempt) == ["1", "1"]


def ends(session: Session, jobs: Jobs) -> None:  # E2-67
    running, start = session.start_function(sleeps), time.monotonic()
    session.close()
    assert time.monotonic() - start > sessions.CLOSE_SECONDS - 0.1
    with pytest.raises(SessionClosed, match="session lab was closed before sleeps had its results"):
        running.result()
    session.close()
    assert jobs.kubectl.get("pods")["items"] == []  # the slices are free again
    jobs.until_true("removed", lambda: not jobs.kubectl.get("sj")["items"])

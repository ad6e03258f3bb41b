"""What calls say when machines are taken, when a limit is reached, and when there is no capacity."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from slipway import (
    TPU,
    CapacityUnavailable,
    Client,
    DockerConfig,
    JobCancelled,
    JobFailed,
    JobPreempted,
    RayExecutor,
    Session,
    run_docker_async,
    run_docker_on_pod,
)
from slipway.local_cluster import NativeCluster
from slipway.sdk import session as sessions
from tests.ray.image import IMAGE
from tests.running import Jobs
from tests.sdk.test_functions import HEAD

STARTS = 240
"""Seconds within which a cluster is up, on a machine that is busy with other tests."""
SLEEPS = DockerConfig(IMAGE, ["sleep", "600"], network="bridge")
SPOT = TPU("v5p-16", spot=True)


def take(jobs: Jobs, nodes: NativeCluster, pod: str) -> None:
    """Take the pod's machine away as clouds do, and bring another."""
    node = jobs.kubectl.get("pod", pod)["spec"]["nodeName"]
    nodes.preempt(node)
    nodes.restore(node)


@pytest.mark.parametrize("limit", [1, 2])
def test_a_job_is_preempted_as_often_as_it_may(
    ray_jobs: Jobs, ray_nodes: NativeCluster, client: Client, limit: int
) -> None:  # E2-41, E2-42, E2-51
    retries = {"maxPreemptions": limit, "maxFailures": 1}
    with ThreadPoolExecutor(1) as background:
        call = background.submit(run_docker_on_pod, SLEEPS, SPOT, name="train", retries=retries, client=client)
        ray_jobs.until_true("the job", lambda: ray_jobs.kubectl.get("sj")["items"] or call.done())
        for attempt in range(limit):
            ray_jobs.until_true(
                f"attempt {attempt} running",
                lambda attempt=attempt: (
                    ray_jobs.kubectl("get", "sj/train", "-o", "jsonpath={.status.phase} {.status.attempt}").stdout
                    == f"Running {attempt}"
                ),
                seconds=120,
            )
            take(ray_jobs, ray_nodes, f"train-{attempt}-0-1")
        with pytest.raises(JobPreempted, match="maxPreemptions") as caught:
            call.result(timeout=120)
    assert str(caught.value.host) == "host 1 of slice 0 (index 1)"
    assert caught.value.info.state == "preempted"
    status = ray_jobs.status()
    assert (status["phase"], status["preemptions"], status["failures"]) == ("Preempted", limit, 0)


@pytest.mark.timeout(900)
def test_a_session_that_loses_a_machine_says_so_and_goes_on(
    ray_jobs: Jobs, ray_nodes: NativeCluster, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:  # E2-07, E2-68
    def sleeps() -> None:
        import pathlib
        import time

        pathlib.Path("/tmp/began").touch()
        time.sleep(600)

    def crashes() -> None:
        import os

        os._exit(3)

    def attempt() -> str:
        import os

        return os.environ["SLIPWAY_ATTEMPT"]

    with Session(RayExecutor(SPOT, IMAGE, client=client, spec=HEAD), name="lab") as session:
        running = session.start_function(sleeps)
        looks = ("exec", "lab-0-0-1", "--", "test", "-e", "/tmp/began")
        ray_jobs.until_true("the call", lambda: ray_jobs.kubectl(*looks, check=False).returncode == 0, seconds=STARTS)
        take(ray_jobs, ray_nodes, "lab-0-0-1")
        with pytest.raises(JobPreempted, match="attempt 0 was lost") as caught:
            running.result(timeout=STARTS)
        assert str(caught.value.host) == "host 1 of slice 0 (index 1)"
        assert session.run_function(attempt) == ["1", "1"]
        # A process that crashes on a machine that is well costs the call and nothing else.
        monkeypatch.setattr(sessions, "CRASH_SECONDS", 2.0)
        with pytest.raises(JobFailed, match="WorkerCrashedError"):
            session.run_function(crashes)
        assert session.run_function(attempt) == ["1", "1"]
    assert ray_jobs.kubectl.get("pods")["items"] == []  # E2-67: the slices are free again


def test_slices_that_do_not_come_are_told(ray_jobs: Jobs, client: Client) -> None:  # E2-18, E2-65
    three = TPU("v5p-16", slices=3, spot=True)
    executor = RayExecutor(three, IMAGE, client=client, spec=HEAD | {"timeouts": {"scheduleSeconds": 3}})
    with pytest.raises(CapacityUnavailable, match="scheduleSeconds") as caught:
        Session(executor).ensure()
    assert caught.value.info.state == "error"
    with pytest.raises(CapacityUnavailable):
        executor.autoscale_execute_resumable(len, ("",))


def test_a_job_that_somebody_else_ends_is_told(ray_jobs: Jobs, client: Client) -> None:
    ends = {
        "cancelled": ("patch", "sj/cancelled", "--type=merge", "--patch", '{"spec":{"cancel":true}}'),
        "deleted": ("delete", "sj/deleted"),
    }
    started = {name: run_docker_async(SLEEPS, name=name, client=client) for name in ends}
    for name, command in ends.items():
        ray_jobs.until_true(name, lambda name=name: ray_jobs.kubectl("get", f"sj/{name}", check=False).returncode == 0)
        ray_jobs.kubectl(*command)
        with pytest.raises(JobCancelled, match=f"SliceJob {name}"):
            started[name].result(timeout=60)

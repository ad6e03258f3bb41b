"""What calls say when machines are taken, when a limit is reached, and when there is no capacity."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from slipway import (
    TPU,
    CapacityUnavailable,
    Client,
    DockerConfig,
    JobCancelled,
    JobPreempted,
    RayExecutor,
    Session,
    run_docker_async,
    run_docker_on_pod,
)
from slipway.devcluster import NativeCluster
from tests.ray.image import IMAGE
from tests.running import Jobs
from tests.sdk.test_functions import HEAD
from tests.waiting import START_SECONDS

SLEEPS = DockerConfig(IMAGE, ["sleep", "600"], network="bridge")
SPOT = TPU("v5p-16", spot=True)


def take(jobs: Jobs, real_nodes: NativeCluster, pod: str) -> None:
    """Take the pod's machine away as clouds do, and bring another."""
    node = jobs.kubectl.get("pod", pod)["spec"]["nodeName"]
    real_nodes.preempt(node)
    real_nodes.restore(node)


@pytest.mark.thorough
def test_jobs_are_preempted_as_often_as_they_may(
    real_jobs: Jobs, real_nodes: NativeCluster, client: Client
) -> None:  # E2-41, E2-42, E2-51
    with ThreadPoolExecutor(2) as side_by_side:
        list(side_by_side.map(partial(is_preempted_as_often_as_it_may, real_jobs, real_nodes, client), (1, 2)))


def is_preempted_as_often_as_it_may(jobs: Jobs, real_nodes: NativeCluster, client: Client, limit: int) -> None:
    name, retries = f"limit-{limit}", {"maxPreemptions": limit, "maxFailures": 1}
    look = ("get", f"sj/{name}", "-o", "jsonpath={.status.phase} {.status.attempt}")
    with ThreadPoolExecutor(1) as background:
        call = background.submit(run_docker_on_pod, SLEEPS, SPOT, name=name, retries=retries, client=client)
        for attempt in range(limit):
            running = f"Running {attempt}"
            jobs.until_true(
                f"{name} {running}",
                lambda running=running: call.done() or jobs.kubectl(*look, check=False).stdout == running,
                seconds=START_SECONDS,
            )
            take(jobs, real_nodes, f"{name}-{attempt}-0-1")
        with pytest.raises(JobPreempted, match="maxPreemptions") as caught:
            call.result(timeout=START_SECONDS)
    assert str(caught.value.host) == "host 1 of slice 0 (index 1)"
    assert caught.value.info.state == "preempted"
    status = jobs.status(name)
    assert (status["phase"], status["preemptions"], status["failures"]) == ("Preempted", limit, 0)


def test_slices_that_do_not_come_are_told(real_jobs: Jobs, client: Client) -> None:  # E2-18, E2-65
    three = TPU("v5p-16", slices=3, spot=True)
    executor = RayExecutor(three, IMAGE, client=client, spec=HEAD | {"timeouts": {"scheduleSeconds": 1}})
    with pytest.raises(CapacityUnavailable, match="scheduleSeconds") as caught:
        Session(executor).ensure()
    assert caught.value.info.state == "error"
    with pytest.raises(CapacityUnavailable):
        executor.autoscale_execute_resumable(len, ("",))


@pytest.mark.thorough
def test_a_job_that_somebody_else_ends_is_told(real_jobs: Jobs, client: Client) -> None:
    ends = {
        "cancelled": ("patch", "sj/cancelled", "--type=merge", "--patch", '{"spec":{"cancel":true}}'),
        "deleted": ("delete", "sj/deleted"),
    }
    started = {name: run_docker_async(SLEEPS, name=name, client=client) for name in ends}
    for name, command in ends.items():
        real_jobs.until_true(
            name, lambda name=name: real_jobs.kubectl("get", f"sj/{name}", check=False).returncode == 0
        )
        real_jobs.kubectl(*command)
        with pytest.raises(JobCancelled, match=f"SliceJob {name}"):
            started[name].result(timeout=START_SECONDS)

"""Functions on a real Ray on real nodes."""

from slipway import TPU, Client, RayExecutor
from slipway.devcluster import NativeCluster
from tests.ray.image import IMAGE
from tests.running import Jobs
from tests.waiting import START_SECONDS

HEAD = {"ray": {"head": {"resources": {"requests": {"cpu": "100m", "memory": "500Mi"}}}}}


def test_a_preempted_call_comes_back_with_the_right_result(
    real_jobs: Jobs, real_nodes: NativeCluster, client: Client
) -> None:  # E2-26, E2-31, E2-41, E2-57, E2-58
    def train(seconds: float) -> tuple[str, ...]:
        import os
        import threading

        if os.environ["SLIPWAY_ATTEMPT"] == "0":
            threading.Event().wait(seconds)
        names = ("SLIPWAY_ATTEMPT", "SLIPWAY_SLICE", "EXECUTOR_CALL_INDEX", "MEGASCALE_SLICE_ID")
        return tuple(os.environ[name] for name in names)

    from concurrent.futures import ThreadPoolExecutor

    slices = RayExecutor(TPU("v5p-16", slices=2, spot=True), IMAGE, client=client, spec=HEAD, remove=False)
    with ThreadPoolExecutor(1) as background:
        call = background.submit(slices.autoscale_execute_resumable, train, (600.0,), flatten=False)
        found = real_jobs.until_true("a job", lambda: real_jobs.kubectl.get("sj")["items"] or call.done())
        assert not call.done(), call.result()
        name = found[0]["metadata"]["name"]
        real_jobs.until("Running", name, seconds=START_SECONDS)
        node = real_jobs.kubectl.get("pod", f"{name}-0-1-1")["spec"]["nodeName"]
        real_nodes.preempt(node)
        real_nodes.restore(node)
        results = call.result(timeout=START_SECONDS)
    assert results == [[("1", "0", "0", "0"), ("1", "0", "1", "0")], [("1", "1", "0", "1"), ("1", "1", "1", "1")]]
    status = real_jobs.status(name)
    assert (status["phase"], status["failures"], status["preemptions"]) == ("Succeeded", 0, 1)

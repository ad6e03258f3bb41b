"""GPU jobs and CPU jobs of several hosts on the real scheduler."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from slipway.devcluster.native.provider import NativeCluster
from tests.clusters import having_gpus
from tests.running import Jobs

CPU_NODES = 8
HAS_GPUS = ("cpu-0", "cpu-1")
TWO = {"accelerator": {"gpu": {"vendor": "nvidia", "count": 2, "model": "nvidia-l4"}}}
RUNS: dict[str, Any] = {"command": ["sleep", "1000"]}


@pytest.fixture
def with_gpus(control_plane: NativeCluster) -> Iterator[None]:
    """Two of the CPU nodes have GPUs."""
    with having_gpus(control_plane, *HAS_GPUS):
        yield


def placed(jobs: Jobs) -> Counter[str]:
    """How many pods of the job each node has."""
    return Counter(pod["spec"]["nodeName"] for pod in jobs.pods() if pod["spec"].get("nodeName"))


def test_hosts_with_some_gpus_of_a_node_share_it(jobs: Jobs, with_gpus: None) -> None:  # E2-11
    jobs.apply(hosts=2, slices=2, **TWO, **RUNS)
    status = jobs.until("Running")
    assert placed(jobs) == dict.fromkeys(HAS_GPUS, 2)
    assert (status["resolved"]["gpusPerHost"], status["resolved"]["type"]) == (2, "nvidia-l4")
    assert "nvidia-l4" in jobs.kubectl("get", "sj").stdout.split()


WAITS: dict[str, tuple[dict[str, Any], str, str]] = {
    "larger": ({"vendor": "nvidia", "count": 8}, "NodesTooSmall", "cpu-0 and cpu-1 have 4 nvidia.com/gpu on each host"),
    "amd": ({"vendor": "amd", "count": 1}, "NoSuchNodes", "no node has amd.com/gpu"),
    "h100": (
        {"vendor": "nvidia", "count": 1, "model": "nvidia-h100-80gb"},
        "SelectorMatchesNothing",
        "no node has cloud.google.com/gke-accelerator=nvidia-h100-80gb",
    ),
}


@pytest.mark.thorough
def test_a_job_for_which_there_are_no_gpus_waits_and_says_why(jobs: Jobs, with_gpus: None) -> None:
    for name, (gpu, _, _) in WAITS.items():
        jobs.apply(name, accelerator={"gpu": gpu}, **RUNS)
    for name, (_, reason, words) in WAITS.items():
        jobs.until("WaitingForCapacity", name)

        def told(name: str = name, reason: str = reason, words: str = words) -> bool:
            running = jobs.condition("Running", name)
            return running["reason"] == reason and words in running["message"]

        jobs.until_true(f"{reason}: {words}", told)


def test_a_job_of_more_hosts_than_nodes_waits_for_the_last(jobs: Jobs) -> None:  # E2-21
    jobs.apply(hosts=CPU_NODES + 1, oneHostPerNode=True, **RUNS)
    jobs.until("WaitingForCapacity")
    jobs.until_true("all nodes in use", lambda: len(placed(jobs)) == CPU_NODES)
    assert set(placed(jobs).values()) == {1}
    jobs.until_true(
        "one pod without a node", lambda: "1 of 9 pods cannot be scheduled" in jobs.condition("Running")["message"]
    )


def test_no_gpus_are_asked_for_with_count_0(jobs: Jobs, with_gpus: None) -> None:  # F-53
    jobs.apply(hosts=2, accelerator={"gpu": {"count": 0}}, **RUNS)
    jobs.until("Running")
    assert not set(placed(jobs)) & set(HAS_GPUS)
    assert not any("resources" in one and one["resources"] for pod in jobs.pods() for one in pod["spec"]["containers"])

"""GPU jobs and CPU jobs of several hosts on the real scheduler."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from slipway.local_cluster.provider import NativeCluster
from tests.conftest import give_gpus, kubectl_for
from tests.running import Jobs

CPU_NODES = 8
HAS_GPUS = ("cpu-0", "cpu-1")
TWO = {"accelerator": {"gpu": {"vendor": "nvidia", "count": 2, "model": "nvidia-l4"}}}
RUNS: dict[str, Any] = {"command": ["sleep", "1000"]}


@pytest.fixture
def with_gpus(control_plane: NativeCluster) -> Iterator[None]:
    """Two of the CPU nodes have four GPUs each, as GKE labels and taints them."""
    kubectl = kubectl_for(control_plane, "default")
    for node in HAS_GPUS:
        give_gpus(kubectl, node, "4")
    yield
    for node in HAS_GPUS:
        give_gpus(kubectl, node, None)


def placed(jobs: Jobs) -> Counter[str]:
    """How many pods of the job each node has."""
    return Counter(pod["spec"]["nodeName"] for pod in jobs.pods() if pod["spec"].get("nodeName"))


def test_hosts_with_some_gpus_of_a_node_share_it(jobs: Jobs, with_gpus: None) -> None:  # E2-11
    jobs.apply(hosts=2, slices=2, **TWO, **RUNS)
    status = jobs.until("Running")
    assert placed(jobs) == dict.fromkeys(HAS_GPUS, 2)
    assert (status["resolved"]["gpusPerHost"], status["resolved"]["type"]) == (2, "nvidia-l4")
    assert "nvidia-l4" in jobs.kubectl("get", "sj").stdout.split()


def test_a_gpu_job_waits_for_gpus_and_says_so(jobs: Jobs, with_gpus: None) -> None:
    jobs.apply(hosts=2, accelerator={"gpu": {"vendor": "nvidia", "count": 8}}, **RUNS)
    jobs.until("WaitingForCapacity")
    jobs.until_true("a reason", lambda: jobs.condition("Running")["reason"] == "NodesTooSmall")
    assert "cpu-0 and cpu-1 have 4 nvidia.com/gpu on each host" in jobs.condition("Running")["message"]


def test_a_gpu_job_on_a_cluster_without_such_gpus_says_so(jobs: Jobs, with_gpus: None) -> None:
    jobs.apply(accelerator={"gpu": {"vendor": "amd", "count": 1}}, **RUNS)
    jobs.until("WaitingForCapacity")
    jobs.until_true("a reason", lambda: jobs.condition("Running")["reason"] == "NoSuchNodes")
    assert "no node has amd.com/gpu" in jobs.condition("Running")["message"]


def test_one_host_a_node_where_asked(jobs: Jobs) -> None:  # E2-21
    # One pod needs so little that all would fit on one node.
    jobs.apply(hosts=4, slices=2, oneHostPerNode=True, **RUNS)
    jobs.until("Running")
    assert len(placed(jobs)) == CPU_NODES
    assert set(placed(jobs).values()) == {1}


def test_a_job_of_more_hosts_than_nodes_waits_for_the_last(jobs: Jobs) -> None:  # E2-21
    jobs.apply(hosts=CPU_NODES + 1, oneHostPerNode=True, **RUNS)
    jobs.until("WaitingForCapacity")
    jobs.until_true("all nodes in use", lambda: len(placed(jobs)) == CPU_NODES)
    assert set(placed(jobs).values()) == {1}
    assert "1 of 9 pods cannot be scheduled" in jobs.condition("Running")["message"]


def test_one_host_a_node_on_gpu_nodes(jobs: Jobs, with_gpus: None) -> None:  # E2-21
    jobs.apply(hosts=2, oneHostPerNode=True, **TWO, **RUNS)
    jobs.until("Running")
    assert placed(jobs) == dict.fromkeys(HAS_GPUS, 1)


@pytest.mark.row("B-27")
def test_what_the_site_leaves_open_is_said_in_the_status(jobs: Jobs) -> None:  # N-31
    jobs.apply(accelerator={"gpu": {"count": 1}}, **RUNS)
    jobs.until("Invalid")
    said = jobs.condition("Accepted")
    assert (said["reason"], said["status"]) == ("InvalidAccelerator", "False")
    assert "name one of them" in said["message"]


def test_no_gpus_are_asked_for_with_count_0(jobs: Jobs, with_gpus: None) -> None:  # F-53
    jobs.apply(hosts=2, accelerator={"gpu": {"count": 0}}, **RUNS)
    jobs.until("Running")
    assert not set(placed(jobs)) & set(HAS_GPUS)
    assert not any("resources" in one and one["resources"] for pod in jobs.pods() for one in pod["spec"]["containers"])

"""torch.distributed over the hosts of a GPU job and of a CPU job, on real nodes.

The GPUs are capacity of the nodes that no device stands behind, so torch runs with gloo on the CPUs.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from slipway.devcluster import NativeCluster
from slipway.devcluster.progress import Silent
from tests.clusters import having_gpus
from tests.e2e.torch_image import IMAGE, build_image
from tests.running import Jobs

RUNS: dict[str, Any] = {
    "image": IMAGE,
    "imagePullPolicy": "Never",
    "command": ["python3", "/app/all_reduce.py"],
    "retries": {"maxFailures": 1},
}
HAS_GPUS = ("cpu-0", "cpu-1")
GPUS = {"gpu": {"vendor": "nvidia", "count": 4, "model": "nvidia-l4"}}
TOLERANT = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}


def finished(jobs: Jobs, name: str) -> tuple[list[str], list[str]]:
    """The nodes of the hosts of a job that succeeded, and what each host wrote."""
    status = jobs.until("Succeeded", name)
    assert status["result"]["exitCode"] == 0
    assert status["failures"] == status["preemptions"] == 0
    pods = jobs.pods(name)
    logs = [jobs.kubectl("logs", pod["metadata"]["name"]).stdout.splitlines()[-1] for pod in pods]
    return sorted(pod["spec"]["nodeName"] for pod in pods), sorted(logs)


@pytest.fixture
def with_gpus(real_nodes: NativeCluster) -> Iterator[None]:
    """Two of the CPU nodes say that they have four GPUs, and all have torch's image."""
    real_nodes.load_images([build_image(Silent())])
    with having_gpus(real_nodes, *HAS_GPUS):
        yield


@pytest.mark.thorough
def test_torch_sums_over_the_hosts_of_gpu_and_cpu_jobs(real_jobs: Jobs, with_gpus: None) -> None:  # E2-11, E2-21
    # Both at once, because torch takes longest to start.
    real_jobs.apply("on-gpus", hosts=2, accelerator=GPUS, **RUNS)
    real_jobs.apply("on-cpus", hosts=3, oneHostPerNode=True, **TOLERANT, **RUNS)
    assert finished(real_jobs, "on-gpus") == (["cpu-0", "cpu-1"], [f"rank {rank} of 2: sum 3" for rank in range(2)])
    assert finished(real_jobs, "on-cpus") == (
        ["cpu-0", "cpu-1", "cpu-2"],
        [f"rank {rank} of 3: sum 6" for rank in range(3)],
    )
    resolved = real_jobs.status("on-gpus")["resolved"]
    assert (resolved["type"], resolved["gpuResource"], resolved["gpusPerHost"]) == ("nvidia-l4", "nvidia.com/gpu", 4)
    for pod in real_jobs.pods("on-gpus"):
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "4"}


VIDEO, USER = 44, 12345
OPENS = "for device in full other; do (exec 3<> /dev/given/$device && echo $device opens) 2>&1; done; id -G"


def devices(folder: Path) -> None:
    """A device that the container runtime allows every container, for the group only, and one that it does not."""
    folder.mkdir()
    for name, number, mode in (("full", (1, 7), 0o660), ("other", (10, 229), 0o666)):
        os.mknod(folder / name, stat.S_IFCHR, os.makedev(*number))
        (folder / name).chmod(mode)
        os.chown(folder / name, 0, VIDEO)


def test_a_device_of_the_node_can_be_opened_by_privileged_containers_only(real_jobs: Jobs, tmp_path: Path) -> None:
    """N-28, N-29: a hostPath shows the device, and the device cgroup of the container refuses it."""
    devices(tmp_path / "devices")
    volume = {"name": "devices", "hostPath": {"path": str(tmp_path / "devices")}}
    given: dict[str, Any] = {
        "command": ["sh", "-c", OPENS],
        "volumeMounts": [{"name": "devices", "mountPath": "/dev/given"}],
    }
    groups = {"runAsUser": USER, "runAsGroup": USER, "supplementalGroups": [VIDEO]}
    real_jobs.apply(hosts=1, volumes=[volume], podSecurityContext=groups, **given)
    real_jobs.until("Succeeded")
    [pod] = real_jobs.pods()
    said = real_jobs.kubectl("logs", pod["metadata"]["name"]).stdout.splitlines()
    assert said[0] == "full opens", "with the group that may"
    assert said[1].endswith("/dev/given/other: Operation not permitted"), "although everybody may"
    assert said[2].split() == [str(USER), str(VIDEO)]
    worker = pod["spec"]["containers"][0]
    container = {"name": "main", "image": worker["image"], "securityContext": {"privileged": True}, **given}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "privileged"}}
    spec = {"restartPolicy": "Never", "volumes": [volume], "containers": [container]}
    code, log = real_jobs.ran(body | {"spec": spec})
    assert (code, log.splitlines()[1]) == (0, "other opens")

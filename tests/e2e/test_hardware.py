"""torch.distributed over the hosts of a GPU job and of a CPU job, on real nodes.

The GPUs are capacity of the nodes that no device stands behind, so torch runs with gloo on the CPUs.
"""

from typing import Any

from tests.e2e.torch_image import IMAGE
from tests.running import Jobs

RUNS: dict[str, Any] = {
    "image": IMAGE,
    "imagePullPolicy": "Never",
    "command": ["python3", "/app/all_reduce.py"],
    "retries": {"maxFailures": 1},
}
GPUS = {"gpu": {"vendor": "nvidia", "count": 4, "model": "nvidia-l4"}}
TOLERANT = {"tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}]}


def finished(jobs: Jobs, name: str) -> tuple[list[str], list[str]]:
    """The nodes of the hosts of a job that succeeded, and what each host wrote."""
    status = jobs.until("Succeeded", name, seconds=120)
    assert status["result"]["exitCode"] == 0
    assert status["failures"] == status["preemptions"] == 0
    pods = jobs.pods(name)
    logs = [jobs.kubectl("logs", pod["metadata"]["name"]).stdout.splitlines()[-1] for pod in pods]
    return sorted(pod["spec"]["nodeName"] for pod in pods), sorted(logs)


def test_torch_sums_over_the_hosts_of_gpu_and_cpu_jobs(gpu_jobs: Jobs) -> None:  # E2-11, E2-21
    # Both at once, because torch takes longest to start.
    gpu_jobs.apply("on-gpus", hosts=2, accelerator=GPUS, **RUNS)
    gpu_jobs.apply("on-cpus", hosts=3, oneHostPerNode=True, **TOLERANT, **RUNS)
    assert finished(gpu_jobs, "on-gpus") == (["cpu-0", "cpu-1"], [f"rank {rank} of 2: sum 3" for rank in range(2)])
    assert finished(gpu_jobs, "on-cpus") == (
        ["cpu-0", "cpu-1", "cpu-2"],
        [f"rank {rank} of 3: sum 6" for rank in range(3)],
    )
    resolved = gpu_jobs.status("on-gpus")["resolved"]
    assert (resolved["type"], resolved["gpuResource"], resolved["gpusPerHost"]) == ("nvidia-l4", "nvidia.com/gpu", 4)
    for pod in gpu_jobs.pods("on-gpus"):
        assert pod["spec"]["containers"][0]["resources"]["limits"] == {"nvidia.com/gpu": "4"}

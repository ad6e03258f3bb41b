"""Chips that break on real nodes: what a device plugin tells a kubelet is the evidence of what ended a job."""

from typing import Any

import pytest
from click.testing import CliRunner

from slipway.cli.cluster import cluster
from slipway.devcluster import NativeCluster
from tests.running import Jobs

TPU: dict[str, Any] = {"accelerator": {"type": "v5p-16", "spot": True}}
POOL = "cloud.google.com/gke-nodepool"
FAILS_WHEN_TOLD = '[ "$SLIPWAY_ATTEMPT" -gt 0 ] && exit 0; until test -e /tmp/fail; do sleep 0.1; done; exit 1'


def slipway(*arguments: str) -> str:
    done = CliRunner().invoke(cluster, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


def health(jobs: Jobs, pod: str) -> dict[str, str]:
    """What the kubelet says of each chip of a pod."""
    [container] = jobs.kubectl.get("pod", pod)["status"]["containerStatuses"]
    [tpu] = container["allocatedResourcesStatus"]
    return {chip["resourceID"]: chip["health"] for chip in tpu["resources"]}


@pytest.mark.thorough
def test_a_program_that_fails_on_a_broken_chip_is_charged_to_the_infrastructure(
    real_jobs: Jobs, real_nodes: NativeCluster
) -> None:
    real_jobs.apply(**TPU, command=["sh", "-c", FAILS_WHEN_TOLD])
    real_jobs.until("Running")
    pod = "train-0-0-1"
    node = real_jobs.kubectl.get("pod", pod)["spec"]["nodeName"]
    assert health(real_jobs, pod) == {f"chip-{number}": "Healthy" for number in range(4)}
    said = slipway("break", node, "--chip", "2", "--cluster", real_nodes.name)
    try:
        assert said == f"{node}: chip 2 is unhealthy\n"

        def chips() -> list[str]:
            return [line.split()[-2] for line in slipway("status", real_nodes.name).splitlines() if f" {node} " in line]

        # It reads what the API server has in memory.
        real_jobs.until_true("three chips", lambda: chips() == ["3/4"])
        real_jobs.until_true("chip 2 is unhealthy", lambda: health(real_jobs, pod)["chip-2"] == "Unhealthy")
        assert real_jobs.status()["phase"] == "Running", "a pod goes on with a broken chip"
        real_jobs.kubectl("exec", pod, "--", "touch", "/tmp/fail")
        # The other slice has all its chips.
        status = real_jobs.until("Succeeded")
    finally:
        slipway("restore", node, "--cluster", real_nodes.name)
    assert (status["failures"], status["preemptions"], status["infrastructureFailures"]) == (0, 1, 1)
    ended = status["attempts"][1]
    assert (ended["cause"], ended["reason"], ended["root"]["node"]) == ("infrastructure", "DeviceUnhealthy", node)
    assert "exited with code 1 and had an unhealthy device (chip-2 of google.com/tpu)" in ended["message"]


def test_a_pod_that_the_kubelet_has_no_healthy_chips_for_is_charged_to_the_infrastructure(
    real_jobs: Jobs, real_nodes: NativeCluster
) -> None:
    """The scheduler keeps pods from nodes that say how few chips they have; this one binds before it is told."""
    real_jobs.apply(**TPU, command=["sleep", "600"], podTemplate={"spec": {"schedulerName": "by-hand"}})
    pods = real_jobs.until_true("both pods", lambda: found if len(found := real_jobs.pods()) == 2 else [])
    name, selector = pods[0]["metadata"]["name"], pods[0]["spec"].get("nodeSelector", {})
    node = real_nodes.slice_nodes(selector.get(POOL, "v5p-16-0"))[0]
    slipway("break", node, "--cluster", real_nodes.name)
    try:
        binding = {"metadata": {"name": name}, "target": {"kind": "Node", "name": node}}
        path = f"/api/v1/namespaces/{real_jobs.kubectl.namespace}/pods/{name}/binding"
        real_jobs.kubectl("create", "--raw", path, "-f", "-", stdin=binding)
        real_jobs.until_true("the end of attempt 0", lambda: real_jobs.status().get("infrastructureFailures"))
    finally:
        slipway("restore", node, "--cluster", real_nodes.name)
    ended = real_jobs.status()["attempts"][-1]
    assert (ended["cause"], ended["reason"], ended["root"]["node"]) == ("infrastructure", "RefusedByNode", node)
    assert "was refused by its node: UnexpectedAdmissionError" in ended["message"]
    assert "google.com/tpu" in ended["message"]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("cpu-0",), "The node cpu-0 has no chips."),
        (("v5p-16-0-0", "--chip", "4"), "The node v5p-16-0-0 has no chip 4; it has 0 to 3."),
        (("v9-0",), "has no node 'v9-0'"),
    ],
    ids=["a CPU node", "a number too high", "no such node"],
)
def test_what_cannot_be_broken_is_said(real_nodes: NativeCluster, arguments: tuple[str, ...], sentence: str) -> None:
    done = CliRunner().invoke(cluster, ["break", *arguments, "--cluster", real_nodes.name])
    assert (done.exit_code, sentence in done.output) == (1, True), done.output

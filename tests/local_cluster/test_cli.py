"""`slipway cluster` as people use it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from slipway.cli.cluster import cluster
from slipway.local_cluster import NativeCluster


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cluster, arguments, catch_exceptions=False)


def test_up_of_a_running_cluster_says_so(simulated: NativeCluster) -> None:
    result = run("status", simulated.name)
    assert result.exit_code == 0, result.output
    assert f"export KUBECONFIG={simulated.kubeconfig}" in result.output
    other = run("up", simulated.name, "--simulated", "1*cpu")
    assert other.exit_code == 1
    assert "runs already with other nodes" in other.output
    assert f"slipway cluster down {simulated.name}" in other.output


def test_up_twice_and_down_twice(state_folder: Path) -> None:
    try:
        first = run("up", "t-cli", "--simulated", "2*v5p-16", "--spot")
        assert first.exit_code == 0, first.output
        assert "Cluster t-cli: 4 nodes" in first.output
        assert "export KUBECONFIG=" in first.output
        again = run("up", "t-cli", "--simulated", "2*v5p-16", "--spot")
        assert "runs already as asked; nothing was changed" in again.output
        back = run("preempt", "v5p-16-1", "--cluster", "t-cli", "--return-after", "100ms")
        assert back.exit_code == 0, back.output
        assert "v5p-16-1-0, v5p-16-1-1: preempted and back" in back.output
    finally:
        last = run("down", "t-cli")
    assert "is removed" in last.output
    assert "There is no cluster t-cli" in run("down", "t-cli").output


def test_status_as_json(simulated: NativeCluster) -> None:
    found = json.loads(run("status", simulated.name, "-o", "json").output)[0]
    assert found["state"] == "Running"
    assert {node["name"]: node["tpus"] for node in found["nodes"]}["v5p-16-0-0"] == 4
    assert all(found["processes"].values())
    assert simulated.name in [each["name"] for each in json.loads(run("status", "-o", "json").output)]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["up", "t-bad", "--real", "v5p-16*2"], "does not name a pool"),
        (["up", "t-bad", "--simulated", "1*v5p-17"], "neither `cpu` nor a TPU type"),
        (["up", "Bad_Name"], "name: String should match pattern"),
        (["down", "../.."], "'../..' is no name of a cluster"),
        (["status", "t-none"], "There is no cluster 't-none'"),
        (["preempt", "x", "--cluster", "t-none"], "There is no cluster 't-none'"),
    ],
)
def test_faults_are_sentences(state_folder: Path, arguments: list[str], sentence: str) -> None:
    result = run(*arguments)
    assert result.exit_code == 1
    assert sentence in result.output
    assert "Traceback" not in result.output


def test_a_bad_duration_is_a_usage_error(simulated: NativeCluster) -> None:
    result = run("preempt", "cpu-0", "--return-after", "soon")
    assert result.exit_code == 2
    assert "is not a duration" in result.output

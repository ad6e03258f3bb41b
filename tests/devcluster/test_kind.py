"""What kind is asked for, as kind itself reads it. `python -m tests.kind_node` makes clusters of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from slipway.cli.cluster import cluster
from slipway.devcluster import ClusterSpec, KindCluster, KindProvider, LocalClusterError, NativeCluster, Pool, state
from slipway.devcluster import status as observed
from slipway.devcluster.kind import configuration
from slipway.devcluster.kind.programs import PROGRAMS, run
from slipway.devcluster.kind.provider import CONFIGURATION
from slipway.devcluster.node_objects import healthy_tpus
from slipway.devcluster.programs import binaries
from slipway.devcluster.progress import Silent
from slipway.devcluster.state import ClusterState
from tests.waiting import START_SECONDS

SPEC = ClusterSpec(
    name="dev",
    pools=[Pool(kind="real", type="v5p-16", count=2, spot=True), Pool(kind="real", type="v6e-8", chips_per_host=8),
           Pool(kind="real", type="cpu")],
)  # fmt: skip


def workers(spec: ClusterSpec) -> list[dict[str, Any]]:
    control, *found = configuration.of(spec)["nodes"]
    assert control == {"role": "control-plane"}
    return list(found)


def test_each_node_is_what_the_native_provider_would_make_of_it() -> None:
    plans = SPEC.nodes("real")
    for plan, worker in zip(plans, workers(SPEC), strict=True):
        assert worker["role"] == "worker"
        assert worker["labels"] == plan.labels
        [patch] = map(json.loads, worker["kubeadmConfigPatches"])
        assert patch == {
            "kind": "JoinConfiguration",
            "nodeRegistration": {"name": plan.name, "taints": plan.taints},
        }


def test_containers_are_found_by_the_names_that_kind_gives_them() -> None:
    assert configuration.containers(SPEC) == {
        "v5p-16-0-0": "dev-worker",
        "v5p-16-0-1": "dev-worker2",
        "v5p-16-1-0": "dev-worker3",
        "v5p-16-1-1": "dev-worker4",
        "v6e-8-0-0": "dev-worker5",
        "cpu-0": "dev-worker6",
    }
    assert configuration.control_plane(SPEC) == "dev-control-plane"


def says(body: Any, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """What kind says to a configuration where there is no engine, for which it looks after it has read everything."""
    monkeypatch.setenv("DOCKER_HOST", f"unix://{folder / 'none.sock'}")
    kind = binaries.ensure(["kind"], Silent(), PROGRAMS)["kind"]
    path = folder / "kind.yaml"
    path.write_text(yaml.safe_dump(body))
    command = [str(kind), "create", "cluster", "--name", "dev", "--config", str(path), "--image", "none:1"]
    with pytest.raises(LocalClusterError) as failed:
        run(command, START_SECONDS)
    return str(failed.value)


@pytest.mark.thorough
def test_kind_itself_reads_every_word_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{fake_docker(tmp_path)}:/usr/bin:/bin")
    asked = configuration.of(SPEC)
    assert "failed to get docker info" in says(asked, tmp_path, monkeypatch)
    asked["nodes"][1]["lables"] = asked["nodes"][1].pop("labels")
    assert "field lables not found" in says(asked, tmp_path, monkeypatch)


def noting_docker(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str, noted: str = "$1") -> Path:
    """The file with the calls of a `docker` that then does what the script says."""
    calls = folder / "calls"
    program = fake_docker(folder, f'echo "{noted}" >> {calls}\n{script}')
    monkeypatch.setenv("PATH", f"{program}:{os.environ['PATH']}")
    return calls


def fake_docker(folder: Path, script: str = "echo cannot connect >&2\nexit 1") -> Path:
    """A folder with a `docker` that reaches no engine, or does what the script says."""
    program = folder / "docker"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return folder


def slipway(*arguments: str) -> Result:
    return CliRunner().invoke(cluster, arguments, catch_exceptions=False)


REFUSED: dict[str, tuple[tuple[str, ...], int, str]] = {
    "simulated nodes": (("--provider", "kind", "--simulated", "1*cpu"), 1, "The provider kind has real nodes only"),
    "no engine": (("--provider", "kind"), 1, "docker version --format failed: cannot connect"),
    "a node image for processes": (("--node-image", "kindest/node:v1"), 2, "--node-image is for --provider kind"),
    "another provider": (("--provider", "podman"), 2, "'podman' is not one of 'native', 'kind'"),
}


@pytest.mark.parametrize(("arguments", "code", "said"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_be_made_is_said_before_anything_is_made(
    state_folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    code: int,
    said: str,
) -> None:
    monkeypatch.setenv("PATH", f"{fake_docker(tmp_path)}:/usr/bin:/bin")
    result = slipway("up", "t-refused", *arguments)
    assert (result.exit_code, said in result.output) == (code, True), result.output
    assert "t-refused" not in state.names()


def test_without_docker_the_error_names_the_other_provider(
    state_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = slipway("up", "t-refused", "--provider", "kind")
    assert "There is no `docker` on PATH" in result.output
    assert "--provider native" in result.output


def test_a_cluster_that_somebody_made_with_kind_is_left_alone(
    state_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = noting_docker(tmp_path, monkeypatch, '[ "$1" != ps ] || echo mine-control-plane')
    monkeypatch.setattr(binaries, "ensure", lambda names, *_: {name: tmp_path / name for name in names})
    result = slipway("up", "mine", "--provider", "kind")
    assert result.exit_code == 1
    assert "has a kind cluster 'mine' that Slipway has not made" in result.output
    assert slipway("down", "mine").exit_code == 4
    assert set(calls.read_text().split()) == {"version", "info", "ps"}


def test_down_removes_the_containers_also_when_the_record_is_damaged(
    state_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = noting_docker(tmp_path, monkeypatch, '[ "$1" != ps ] || echo broken-control-plane', noted="$@")
    with state.locked("broken", make=True) as folder:
        (folder / CONFIGURATION).touch()
        (folder / "state.json").write_text("{")
    assert "is removed" in slipway("down", "broken").output
    assert calls.read_text().splitlines()[-1] == "rm --force --volumes broken-control-plane"
    assert "broken" not in state.names()


IN_ANOTHER_ENGINE: dict[str, tuple[tuple[str, ...], str]] = {
    "down": (("down", "dev"), "running"),
    "down of one half made": (("down", "dev"), "creating"),
    "up again": (("up", "dev", "--provider", "kind", "--real", "1*cpu"), "running"),
    "up after one that was interrupted": (("up", "dev", "--provider", "kind", "--real", "1*cpu"), "creating"),
    "preempt": (("preempt", "cpu-0", "--cluster", "dev"), "running"),
    "load-image": (("load-image", __file__, "--cluster", "dev"), "running"),
}


@pytest.mark.parametrize(("words", "phase"), IN_ANOTHER_ENGINE.values(), ids=IN_ANOTHER_ENGINE)
def test_the_containers_of_another_engine_are_left_alone(
    state_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], phase: Any
) -> None:
    calls = noting_docker(tmp_path, monkeypatch, "case $1 in info) echo other ;; ps) echo dev-worker ;; esac")
    monkeypatch.setattr(binaries, "ensure", lambda names, *_: {name: tmp_path / name for name in names})
    spec = ClusterSpec(name="dev", pools=[Pool(kind="real", type="cpu")])
    with state.locked("dev", make=True) as folder:
        (folder / CONFIGURATION).touch()
        ClusterState(spec=spec, provider="kind", phase=phase, engine="mine").save()
    try:
        result = slipway(*words)
        assert "The cluster 'dev' is in another Docker engine" in result.output
        assert (result.exit_code, "dev" in state.names()) == (1, True)
    finally:
        state.remove("dev")
    assert set(calls.read_text().split()) <= {"version", "info"}


def test_down_finds_the_containers_in_the_engine_that_up_used(
    state_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = noting_docker(tmp_path, monkeypatch, "case $1 in info) echo mine ;; ps) echo dev-worker ;; esac")
    with state.locked("dev", make=True) as folder:
        (folder / CONFIGURATION).touch()
        ClusterState(spec=SPEC, provider="kind", phase="running", engine="mine").save()
    assert "is removed" in slipway("down", "dev").output
    assert calls.read_text().split() == ["info", "ps", "rm"]


def test_status_of_containers_that_ended_says_so(
    state_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{fake_docker(tmp_path, 'echo dev-worker')}:{os.environ['PATH']}")
    with state.locked("dev", make=True):
        spec = ClusterSpec(name="dev", pools=[Pool(kind="real", type="v5p-16")])
        made = ClusterState(spec=spec, provider="kind", phase="running", away=["v5p-16-0-1"])
        made.server = "https://127.0.0.1:1"
        made.save()
    try:
        monkeypatch.setattr(observed, "_nodes", lambda _: [])
        output = slipway("status", "dev").output
    finally:
        state.remove("dev")
    assert "dev: Broken (kind) https://127.0.0.1:1" in output
    # The container of the node that was preempted is not to run.
    assert "ended: dev-control-plane (docker logs tells more)" in output


def test_a_cluster_of_one_provider_is_not_that_of_the_other(own_cluster: NativeCluster) -> None:
    spec = ClusterSpec(name=own_cluster.name, pools=[Pool(kind="real")])
    with pytest.raises(LocalClusterError, match="runs already, made by the provider native"):
        KindProvider().running(spec)


@pytest.mark.parametrize(("begun", "other"), [("native", "kind"), ("kind", "native")])
def test_a_cluster_that_one_provider_has_not_finished_is_left_to_it(begun: str, other: str) -> None:
    found = ClusterState(spec=SPEC, provider=begun)
    state.check_half_made(found, begun)
    with pytest.raises(LocalClusterError, match=f"was begun by the provider {begun}"):
        state.check_half_made(found, other)


def test_another_node_image_is_another_cluster(state_folder: Path) -> None:
    found = ClusterState(spec=SPEC, provider="kind", node_image="kindest/node:v1")
    with pytest.raises(LocalClusterError, match="runs already with the node image kindest/node:v1"):
        state.check_same(found, found.model_copy(update={"node_image": ""}))


MACHINE = "v6e-8-0-0"
ALONE = ClusterSpec(name="t-machine", pools=[Pool(kind="real", type="v6e-8", chips_per_host=8, count=1)])
ENGINE = """
chips() {{
    {kubectl} patch node {machine} --subresource=status --type=merge \\
        -p "{{\\"status\\": {{\\"allocatable\\": {{\\"google.com/tpu\\": \\"$1\\"}}}}}}"
}}
echo "$@" >> {calls}
case "$*" in
"start "*)
    echo '{{"apiVersion": "v1", "kind": "Node", "metadata": {{"name": "{machine}"}}}}' | {kubectl} create -f -
    chips 8 ;;
*"touch "*) chips 6 ;;
*"rm -f "*) chips 8 ;;
esac
"""
"""What an engine, and the device plugin in its container, do of what they are told."""


@pytest.fixture
def machine(
    own_cluster: NativeCluster, state_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[KindCluster, Path]]:
    """A cluster with one machine, whose Node is in a real API server; and the calls of its engine."""
    calls = tmp_path / "calls"
    kubectl = f"{own_cluster.state.binaries['kubectl']} --kubeconfig={own_cluster.kubeconfig}"
    script = ENGINE.format(kubectl=kubectl, calls=calls, machine=MACHINE)
    monkeypatch.setenv("PATH", f"{fake_docker(tmp_path, script)}:{os.environ['PATH']}")
    with state.locked(ALONE.name, make=True) as folder:
        made = ClusterState(spec=ALONE, provider="kind", phase="running", server=own_cluster.server, away=[MACHINE])
        (folder / "pki").symlink_to(own_cluster.state.folder / "pki")
        made.save()
    over = Event()
    kubelet = Thread(target=heartbeats, args=(own_cluster, over))
    kubelet.start()
    try:
        cluster = KindCluster(ALONE.name)
        cluster.restore(MACHINE)
        yield cluster, calls
    finally:
        over.set()
        kubelet.join()
        own_cluster.kubectl("delete", "node", MACHINE, "--ignore-not-found")
        state.remove(ALONE.name)


def heartbeats(cluster: NativeCluster, over: Event) -> None:
    """Of a kubelet whose machine has a Node: without them a node controller takes it for silent."""
    while not over.wait(0.5):
        ready = {"type": "Ready", "status": "True", "lastHeartbeatTime": datetime.now(UTC).isoformat("T", "seconds")}
        body = json.dumps({"status": {"conditions": [ready]}})
        patch = ("patch", "node", MACHINE, "--subresource=status", "--type=merge", "-p", body)
        cluster.kubectl(*patch, check=False, timeout=START_SECONDS)


def test_a_preempted_machine_is_killed_and_its_node_goes_until_it_is_restored(
    machine: tuple[KindCluster, Path],
) -> None:
    cluster, calls = machine
    cluster.preempt(MACHINE)
    assert cluster.api().find(f"/api/v1/nodes/{MACHINE}") is None
    assert cluster.state.away == [MACHINE]
    with pytest.raises(LocalClusterError, match="is away"):
        cluster.damage(MACHINE)
    cluster.restore(MACHINE)
    assert cluster.state.away == []
    with pytest.raises(LocalClusterError, match="is there already"):
        cluster.restore(MACHINE)
    container = f"{ALONE.name}-worker"
    assert calls.read_text().splitlines() == [
        f"start {container}", f"kill --signal=KILL {container}", f"start {container}"
    ]  # fmt: skip


def test_chips_of_a_machine_break_and_are_mended(machine: tuple[KindCluster, Path]) -> None:
    cluster, calls = machine
    cluster.damage(MACHINE, numbers=(1, 2))
    assert calls.read_text().splitlines()[-1].endswith("/chip-1 /var/lib/slipway-chips/chip-2")
    cluster.restore(MACHINE)
    assert healthy_tpus(cluster.api().find(f"/api/v1/nodes/{MACHINE}")) == 8

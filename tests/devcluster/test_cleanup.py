"""`down` leaves nothing behind, whatever happened before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.devcluster import ClusterSpec, LocalClusterError, NativeProvider, Pool, processes, state
from slipway.devcluster.native import cgroups, nodes
from tests.devcluster.helpers import await_phase, create, inhabitants, machine, namespaces_of, pod
from tests.waiting import START_SECONDS

pytestmark = pytest.mark.stage("machine")

REAL = ClusterSpec(name="t-clean", pools=[Pool(kind="real", type="cpu")])


def test_down_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_STATE", str(tmp_path / "a blank"))
    before, provider = machine(), NativeProvider()
    cluster = provider.up(REAL)
    found, spaces = cluster.state, namespaces_of(cluster)
    create(cluster, pod("busy", "while true; do sleep 1; done"))
    await_phase(cluster, "busy", "Running")
    assert len(inhabitants(spaces)) >= 6  # router, CoreDNS, kube-proxy, node, containerd, kubelet, pod ...
    assert [name for name, record in found.processes.items() if not record.alive()] == []
    assert provider.down("t-clean") is True

    assert not any(record.alive() for record in found.processes.values())
    assert inhabitants(spaces) == []
    assert cgroups.matching(nodes.cgroup_prefix(found)) == []
    link = subprocess.run(["ip", "link", "show", nodes.link_name(found)], capture_output=True, check=False)
    assert link.returncode != 0
    assert not found.folder.exists()
    assert machine() == before
    assert provider.down("t-clean") is False


@pytest.mark.thorough
def test_down_after_a_crash_in_the_middle_of_up(state_folder: Path) -> None:
    code = (
        "import os, signal\n"
        "from slipway.devcluster import ClusterSpec, NativeProvider, Pool\n"
        "from slipway.devcluster.native import images\n"
        "assert images.await_runtime\n"
        "images.await_runtime = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "NativeProvider().up(ClusterSpec(name='t-crash', pools=[Pool(kind='real', type='cpu')]))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    crashed = subprocess.run([sys.executable, "-c", code], env=env, timeout=2 * START_SECONDS, check=False)
    assert crashed.returncode == -signal.SIGKILL
    folder = state.cluster_dir("t-crash")
    assert processes.marked(folder)
    found = state.load("t-crash")
    assert found is not None
    assert found.phase == "creating"
    assert "containerd/cpu-0" in found.processes
    # Worse: what was written down is lost as well.
    (folder / "state.json").unlink()
    assert NativeProvider().down("t-crash") is True
    assert not any(record.alive() for record in found.processes.values())
    assert cgroups.matching(nodes.cgroup_prefix(found)) == []
    assert not folder.exists()


VIEWS: dict[str, tuple[str, bool]] = {
    "of the folder itself": ("", True),
    "of another folder at the same path, in a container": ('mount -t tmpfs tmpfs "$1"; mkdir -p "$2"', False),
    "of no folder there": ('mount -t tmpfs tmpfs "$1"', False),
    "of the part of a node, which covers what is above": (
        'mount -t tmpfs tmpfs /run; mkdir /run/node; mount --bind "$2/nodes/cpu-0" /run/node; '
        'mount -t tmpfs tmpfs "$1"; mkdir -p "$2"',
        True,
    ),
}


@pytest.mark.parametrize(("mounts", "ends"), VIEWS.values(), ids=VIEWS)
def test_down_ends_a_process_of_the_clusters_name_by_its_view(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mounts: str, ends: bool
) -> None:
    monkeypatch.setenv("SLIPWAY_STATE", str(tmp_path))
    with state.locked("t-view", make=True) as folder:
        (folder / "nodes" / "cpu-0").mkdir(parents=True)
    script = f"set -e; {mounts}\necho seen; exec sleep 64"
    command = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    log = tmp_path.parent / f"{tmp_path.name}.log"
    started = processes.start([*command, "sh", "-c", script, "sh", str(tmp_path), str(folder)], log, folder)
    try:
        assert processes.wait_until(lambda: "seen" in log.read_text(), START_SECONDS), log.read_text()
        assert NativeProvider().down("t-view") is True
        assert started.alive() is not ends
    finally:
        processes.end([started])


def test_down_spares_strangers_that_got_our_pids(state_folder: Path, tmp_path: Path) -> None:
    stranger = processes.start(["sleep", "63"], tmp_path / "log", tmp_path)
    try:
        with state.locked("t-stale", make=True):
            stale = stranger.model_copy(update={"boot_id": "before the reboot"})
            left = state.ClusterState(spec=ClusterSpec(name="t-stale"), number=50, processes={"etcd": stale})
            left.save()
        assert NativeProvider().down("t-stale") is True
        assert stranger.alive()
    finally:
        processes.end([stranger])


def test_down_of_the_last_cluster_spares_the_folder_that_a_person_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPWAY_STATE", str(tmp_path / "mine"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    for folder, stays in ((tmp_path / "mine", True), (tmp_path / "slipway", False)):
        folder.mkdir()
        with state.locked("t-last", make=True):
            assert (folder / "clusters" / "t-last").is_dir()
        assert NativeProvider().down("t-last") is True
        assert not (folder / "clusters").exists()
        assert folder.exists() is stays
        monkeypatch.delenv("SLIPWAY_STATE", raising=False)
    assert tmp_path.exists()


@pytest.mark.thorough
def test_a_failed_up_ends_what_it_started_and_shows_the_log(
    state_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from slipway.devcluster.native import controlplane

    monkeypatch.setattr(controlplane, "scheduler_command", lambda found: ["false"])
    real = controlplane.api_server_command
    monkeypatch.setattr(controlplane, "api_server_command", lambda *given: [*real(*given), "--no-such-flag"])
    provider, spec = NativeProvider(), ClusterSpec(name="t-failed")
    try:
        with pytest.raises(LocalClusterError) as caught:
            provider.up(spec)
        assert "kube-apiserver ended early" in str(caught.value)
        assert "unknown flag: --no-such-flag" in str(caught.value)
        assert processes.marked(state.cluster_dir("t-failed")) == []
        monkeypatch.undo()
        os.environ["SLIPWAY_STATE"] = str(state_folder)
        assert provider.up(spec).api().ready(), "up after a failed up starts afresh"
    finally:
        provider.down("t-failed")

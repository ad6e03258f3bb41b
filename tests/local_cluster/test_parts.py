"""The parts that need no cluster: addresses, processes, archives, lookups."""

from __future__ import annotations

import ipaddress
import os
import subprocess
import tarfile
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path

import pytest

from slipway.local_cluster import (
    LocalClusterError,
    addresses,
    archives,
    binaries,
    packages,
    paths,
    pki,
    processes,
    python_image,
    state,
)
from slipway.local_cluster.components import COMPONENTS
from slipway.local_cluster.errors import last_lines
from slipway.local_cluster.progress import Silent
from slipway.local_cluster.python_image import build_python_image
from slipway.local_cluster.spec import ClusterSpec


def test_no_two_clusters_share_an_address() -> None:
    networks = [ipaddress.ip_network(addresses.Addresses(number).network) for number in range(60)]
    assert not any(a.overlaps(b) for index, a in enumerate(networks) for b in networks[index + 1 :])


def test_the_ranges_of_a_cluster_lie_apart_and_inside_its_network() -> None:
    one = addresses.Addresses(3)
    parts = [one.services, *(one.pods(index) for index in range(100)), f"{one.host}/30"]
    parts += [f"{one.node(index)}/32" for index in range(100)]
    networks = [ipaddress.ip_network(part, strict=False) for part in parts]
    assert all(network.subnet_of(ipaddress.ip_network(one.network)) for network in networks)  # type: ignore[arg-type]
    assert not any(a.overlaps(b) for index, a in enumerate(networks) for b in networks[index + 1 :])


def test_addresses_in_use_are_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_routes", lambda: [ipaddress.IPv4Network("10.193.4.0/24")])
    assert addresses.choose({0}).number == 2
    with pytest.raises(LocalClusterError, match="No address range"):
        addresses.choose(range(60))


def test_a_pid_that_passed_to_a_stranger_is_neither_alive_nor_ended(tmp_path: Path) -> None:
    record = processes.start(["sleep", "60"], tmp_path / "log", tmp_path)
    try:
        for stranger in (
            record.model_copy(update={"start_ticks": record.start_ticks - 1}),
            record.model_copy(update={"boot_id": "another boot"}),
        ):
            assert not stranger.alive()
            processes.end([stranger])
        assert record.alive()
    finally:
        processes.end([record])
    assert not record.alive()


def test_ending_a_process_ends_its_whole_group(tmp_path: Path) -> None:
    record = processes.start(["sh", "-c", "sleep 61 & wait"], tmp_path / "log", tmp_path)
    assert processes.wait_until(lambda: bool(processes.children(record.pid)), 60)
    child = processes.children(record.pid)[0]
    processes.end([record])
    assert processes.wait_until(lambda: processes.start_ticks(child) is None, 60)


def test_a_process_that_was_never_written_down_is_found_by_its_marker(tmp_path: Path) -> None:
    record = processes.start(["sleep", "62"], tmp_path / "log", tmp_path)
    try:
        assert [found.pid for found in processes.marked(tmp_path)] == [record.pid]
        assert processes.marked(tmp_path / "other") == []
    finally:
        processes.end([record])


def test_a_program_that_does_not_exist_is_named(tmp_path: Path) -> None:
    with pytest.raises(LocalClusterError, match="Cannot start no-such-program"):
        processes.start(["no-such-program"], tmp_path / "log", tmp_path)


def test_errors_show_the_end_of_the_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("".join(f"line {number}\n" for number in range(100)))
    text = str(LocalClusterError("etcd ended.", hint="Try again.", log=log))
    assert str(log) in text
    assert "line 99" in text
    assert "line 10\n" not in text
    assert text.endswith("Hint: Try again.")
    assert last_lines(tmp_path / "none") == []


def test_equal_content_gives_equal_images(tmp_path: Path) -> None:
    source = tmp_path / "main.py"
    source.write_text("print()")
    first = archives.tar_layer(tmp_path / "a.layer", {"app/main.py": source}, {"bin/x": "y"}, ["tmp"])
    os.utime(source, (1, 1))
    second = archives.tar_layer(tmp_path / "b.layer", {"app/main.py": source}, {"bin/x": "y"}, ["tmp"])
    assert first.digest == second.digest
    images = [archives.Image(name, (first,), ("x",)) for name in ("a/b:1", "a/c:1")]
    archives.write(tmp_path / "image.tar", images)
    assert archives.references(tmp_path / "image.tar") == {
        image.reference: f"sha256:{image.digest}" for image in images
    }
    with tarfile.open(tmp_path / "image.tar") as archive:
        names = archive.getnames()
    assert sorted(names[:2]) == ["index.json", "oci-layout"]
    assert len(names) == len(set(names)) == 2 + 3  # and one layer, one configuration, one manifest


def test_a_layer_is_made_once_however_many_want_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two of different contents under one name had the digest of the other beside them."""
    made: list[Path] = []

    def mmdebstrap(path: Path) -> None:
        time.sleep(0.2)
        made.append(path)
        path.write_text(f"Debian {len(made)}")

    monkeypatch.setenv("SLIPWAY_CACHE", str(tmp_path))
    monkeypatch.setattr(packages, "ensure", lambda *_: None)
    monkeypatch.setattr(python_image, "_mmdebstrap", mmdebstrap)
    with ThreadPoolExecutor(2) as threads:
        one, other = threads.map(python_image.debian_layer, [Silent(), Silent()])
    assert one == other
    assert len(made) == 1
    assert one.digest == sha256(one.path.read_bytes()).hexdigest()


def test_unpinned_requirements_are_refused() -> None:
    with pytest.raises(LocalClusterError, match="name no version: jax"):
        build_python_image("x/y:1", ["jax", "click==8.1.8"], {})


def _fake_program(path: Path, answer: str) -> None:
    path.write_text(f"#!/bin/sh\necho '{answer}'\n")
    path.chmod(0o755)


def test_a_binary_of_another_minor_version_is_not_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    monkeypatch.setenv("SLIPWAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    component = COMPONENTS["kubectl"]
    _fake_program(tmp_path / "kubectl", "Client Version: v1.32.4")
    assert binaries._find(component) is None
    _fake_program(tmp_path / "kubectl", "Client Version: v1.36.0")
    assert binaries._find(component) == tmp_path / "kubectl"


def test_without_go_the_missing_programs_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_CACHE", str(tmp_path))
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    monkeypatch.setattr(binaries, "_downloads_reachable", lambda: False)
    monkeypatch.setattr(binaries.gobuild, "go_program", lambda: None)
    with pytest.raises(LocalClusterError, match=r"etcd, kwok cannot be found.*`go` is not on PATH"):
        binaries.ensure(["etcd", "kwok"], _Nothing())


class _Nothing:
    def begin(self, step: str) -> None: ...
    def update(self, step: str, detail: str) -> None: ...
    def end(self, step: str, seconds: float, failed: bool = False) -> None: ...


def test_folders_follow_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SLIPWAY_CACHE", "XDG_CACHE_HOME", "SLIPWAY_STATE", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/h")
    assert (paths.cache_dir(), paths.state_dir()) == (Path("/h/.cache/slipway"), Path("/h/.local/state/slipway"))
    monkeypatch.setenv("XDG_STATE_HOME", "/x")
    assert paths.state_dir() == Path("/x/slipway")
    monkeypatch.setenv("SLIPWAY_STATE", "/s")
    assert paths.clusters_dir() == Path("/s/clusters")


def test_state_survives_being_written_and_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_STATE", str(tmp_path))
    with state.locked("one"):
        written = state.ClusterState(spec=ClusterSpec(name="one"), number=4, away=["a"])
        written.save()
    assert state.load("one") == written
    assert state.names() == ["one"]
    (state.cluster_dir("one") / "state.json").write_text("{")
    with pytest.raises(LocalClusterError, match=r"cannot be read.*\n.*slipway cluster down one"):
        state.load("one")
    state.remove("one")
    assert state.load("one") is None


def test_certificates_are_signed_by_their_own_authority(tmp_path: Path) -> None:
    pki.create(tmp_path, ["localhost", "127.0.0.1"])

    def fits(authority: str, certificate: str, *options: str) -> bool:
        check = ["openssl", "verify", "-x509_strict", "-CAfile", str(tmp_path / f"{authority}.crt"), *options]
        return subprocess.run([*check, str(tmp_path / f"{certificate}.crt")], capture_output=True).returncode == 0

    assert fits("ca", "apiserver", "-verify_ip", "127.0.0.1")
    assert fits("front-proxy-ca", "front-proxy-client")
    assert not fits("front-proxy-ca", "apiserver")
    assert tmp_path.stat().st_mode & 0o077 == 0

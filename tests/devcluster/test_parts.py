"""The parts that need no cluster: addresses, processes, archives, lookups."""

from __future__ import annotations

import errno
import fcntl
import gzip
import ipaddress
import json
import os
import subprocess
import tarfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from threading import Event

import pytest

from slipway.devcluster import KindProvider, LocalClusterError, NativeCluster, NativeProvider, paths, processes, state
from slipway.devcluster.errors import ClusterNotFound, last_lines
from slipway.devcluster.images import archives, python_image
from slipway.devcluster.images.python_image import build_python_image
from slipway.devcluster.native import addresses, images, pki, store
from slipway.devcluster.programs import binaries, packages
from slipway.devcluster.programs.components import COMPONENTS
from slipway.devcluster.progress import Silent
from slipway.devcluster.spec import ClusterSpec
from tests.waiting import START_SECONDS, pause


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


def test_a_route_to_all_private_networks_keeps_only_real_nodes_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addresses, "_routes", lambda: [ipaddress.IPv4Network("10.0.0.0/8")])
    assert addresses.choose({0}, routed=False).number == 1
    with pytest.raises(LocalClusterError, match=r"route to 10\.0\.0\.0/8, perhaps of a VPN") as refused:
        addresses.choose({0})
    assert "lists the clusters" not in str(refused.value)
    with pytest.raises(LocalClusterError, match="No address range"):
        addresses.choose(range(60), routed=False)


@pytest.mark.parametrize(
    ("destinations", "number"),
    [(["default", "0.0.0.0/1", "128.0.0.0/1"], 0), (["default", "10.192.0.0/12"], 16), (["10.192.1.1"], 1)],
    ids=["a VPN for all traffic", "a network", "a host"],
)
def test_routes_to_everywhere_take_no_addresses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, destinations: list[str], number: int
) -> None:
    routes = json.dumps([{"dst": destination, "dev": "tun0"} for destination in destinations])
    program = tmp_path / "ip"
    program.write_text(f"#!/bin/sh\necho '{routes}'\n")
    program.chmod(0o755)
    monkeypatch.setattr(addresses, "find_tool", lambda _: str(program))
    assert addresses.choose([]).number == number


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
    assert processes.wait_until(lambda: bool(processes.children(record.pid)), START_SECONDS)
    child = processes.children(record.pid)[0]
    processes.end([record])
    assert processes.wait_until(lambda: processes.start_ticks(child) is None, START_SECONDS)


def test_a_process_that_was_never_written_down_is_found_by_its_marker(tmp_path: Path) -> None:
    record = processes.start(["sleep", "62"], tmp_path / "log", tmp_path)
    try:
        # A process that has just begun has no environment for a moment.
        assert processes.wait_until(
            lambda: [found.pid for found in processes.marked(tmp_path)] == [record.pid], START_SECONDS
        )
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


def test_an_error_shows_the_end_of_a_log_that_was_removed_with_its_cluster(tmp_path: Path) -> None:
    """As `slipway demo` removes its own before it says what went wrong."""
    log = tmp_path / "log"
    log.write_text("address already in use\n")
    error = LocalClusterError("etcd ended.", log=log)
    log.unlink()
    assert str(error) == "etcd ended.\nThe end of its log:\n  address already in use"


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
        pause(0.2)
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


@pytest.mark.parametrize("linked", [True, False])
def test_an_archive_is_kept_whatever_was_kept_under_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, linked: bool
) -> None:
    if not linked:
        monkeypatch.setattr(images.os, "link", _other_file_system)
    first, second = tmp_path / "a/app.tar", tmp_path / "b/app.tar"
    for archive in (first, second):
        archive.parent.mkdir()
        archive.write_text(archive.parent.name)
    kept = [images.keep(archive, tmp_path / "cluster") for archive in (first, second)]
    assert [path.read_text() for path in kept] == ["a", "b"]
    assert images.keep(first, tmp_path / "cluster") == kept[0]
    again = tmp_path / "again"
    again.write_text("A")
    again.replace(first)
    assert images.keep(first, tmp_path / "cluster").read_text() == "A"


def _other_file_system(*_: object) -> None:
    raise OSError(errno.EXDEV, "Invalid cross-device link")


def test_a_copy_that_was_interrupted_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: Path, target: Path) -> None:
        target.write_text("ha")
        raise OSError(errno.ENOSPC, "No space left on device")

    archive = tmp_path / "app.tar"
    archive.write_text("half")
    monkeypatch.setattr(images.os, "link", _other_file_system)
    with monkeypatch.context() as patch:
        patch.setattr(images.shutil, "copyfile", full)
        with pytest.raises(OSError, match="No space left"):
            images.keep(archive, tmp_path / "cluster")
    assert images.keep(archive, tmp_path / "cluster").read_text() == "half"


def test_the_order_of_archives_makes_another_store(tmp_path: Path) -> None:
    archives_of = [tmp_path / name for name in ("a.tar", "b.tar")]
    for number, path in enumerate(archives_of):
        layer = archives.tar_layer(tmp_path / f"{number}.layer", {"file": str(number).encode()}, {})
        archives.write(path, [archives.Image("app:1", (layer,))])
    assert store._key(archives_of) != store._key(archives_of[::-1])


@pytest.mark.parametrize("content", [b"no archive", gzip.compress(os.urandom(20_000))[:9000]], ids=["text", "cut off"])
def test_what_is_no_archive_has_no_images(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "app.tar"
    path.write_bytes(content)
    assert archives.references(path) == {}


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
    with state.locked("one", make=True):
        written = state.ClusterState(spec=ClusterSpec(name="one"), number=4, away=["a"])
        written.save()
    assert state.load("one") == written
    assert state.names() == ["one"]
    (state.cluster_dir("one") / "state.json").write_text("{")
    with pytest.raises(LocalClusterError, match=r"cannot be read.*\n.*slipway cluster down one"):
        state.load("one")
    state.remove("one")
    assert state.load("one") is None


MEANWHILE: dict[str, tuple[Callable[[str], object], bool]] = {
    "a change of the cluster": (lambda name: NativeCluster(name).stop_api_server(), False),
    "the removal of the cluster": (lambda name: NativeProvider().down(name), True),
    "the removal of a cluster of containers": (lambda name: KindProvider().down(name), True),
}


@pytest.mark.parametrize(("change", "succeeds"), MEANWHILE.values(), ids=MEANWHILE)
def test_a_cluster_that_is_removed_while_a_command_waits_for_it_stays_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[str], object], *, succeeds: bool
) -> None:
    monkeypatch.setenv("SLIPWAY_STATE", str(tmp_path))
    waits, lock = Event(), fcntl.flock

    def flock(handle: int, operation: int) -> None:
        waits.set()
        lock(handle, operation)

    with ThreadPoolExecutor(1) as thread:
        with state.locked("one", make=True):
            state.ClusterState(spec=ClusterSpec(name="one")).save()
            monkeypatch.setattr(fcntl, "flock", flock)
            ended = thread.submit(change, "one")
            assert waits.wait(START_SECONDS)
            state.remove("one")
        fault = ended.exception(START_SECONDS)
    assert isinstance(fault, type(None) if succeeds else ClusterNotFound)
    assert state.names() == []


def test_certificates_are_signed_by_their_own_authority(tmp_path: Path) -> None:
    pki.create(tmp_path, ["localhost", "127.0.0.1"])

    def fits(authority: str, certificate: str, *options: str) -> bool:
        check = ["openssl", "verify", "-x509_strict", "-CAfile", str(tmp_path / f"{authority}.crt"), *options]
        return subprocess.run([*check, str(tmp_path / f"{certificate}.crt")], capture_output=True).returncode == 0

    assert fits("ca", "apiserver", "-verify_ip", "127.0.0.1")
    assert fits("front-proxy-ca", "front-proxy-client")
    assert fits("etcd-ca", "etcd", "-verify_ip", "127.0.0.1")
    assert fits("etcd-ca", "apiserver-etcd-client")
    assert not any(fits(other, "apiserver") for other in ("front-proxy-ca", "etcd-ca"))
    assert tmp_path.stat().st_mode & 0o077 == 0

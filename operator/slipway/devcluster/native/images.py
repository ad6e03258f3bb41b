"""Images of a local cluster: the two that every node has, and loading archives into nodes."""

from __future__ import annotations

import filecmp
import os
import shutil
import subprocess
from collections.abc import Iterable
from hashlib import sha256
from itertools import count
from pathlib import Path

from slipway.devcluster import paths, processes
from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.images import archives
from slipway.devcluster.images.archives import image_cache
from slipway.devcluster.native.node_files import PAUSE_IMAGE, SOCKET
from slipway.devcluster.programs.packages import find_tool
from slipway.devcluster.state import ClusterState

BUSYBOX_IMAGE = "slipway.local/busybox:1"


def base_archive() -> Path:
    """Return the archive with the pause and busybox images, made from the machine's static busybox."""
    busybox = find_tool("busybox")
    if busybox is None:
        raise LocalClusterError("This machine lacks busybox.", hint="Install the package `busybox-static`.")
    content = Path(busybox).read_bytes()
    key = sha256(content + Path(__file__).read_bytes()).hexdigest()[:12]
    path = image_cache() / f"base-{key}.tar"
    with paths.filling(image_cache()):
        if not path.exists():
            layer = _busybox_layer(Path(busybox), image_cache() / f"busybox-{key}.layer")
            pause = archives.Image(PAUSE_IMAGE, (layer,), ("/bin/sleep", "2147483647"))
            archives.write(path, [pause, archives.Image(BUSYBOX_IMAGE, (layer,), ("/bin/sh",))])
    return path


def _busybox_layer(busybox: Path, path: Path) -> archives.Layer:
    names = subprocess.run([str(busybox), "--list"], capture_output=True, text=True, check=True).stdout.split()
    links = {f"bin/{name}": "busybox" for name in names if name != "busybox"}
    files: dict[str, Path | bytes] = {
        "bin/busybox": busybox.resolve(),
        "etc/passwd": b"root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
        "etc/group": b"root:x:0:\nnobody:x:65534:\n",
        "etc/nsswitch.conf": b"hosts: files dns\n",
    }
    links |= {"usr/bin": "../bin"}
    return archives.tar_layer(path, files, links, ["bin", "etc", "root", "tmp", "usr", "var", "var/log"])


def keep(archive: Path, cluster_folder: Path) -> Path:
    """Link an archive into a cluster's folder, so that nodes can come back after the original is gone."""
    if not archive.is_file():
        raise LocalClusterError(f"There is no image archive {archive}.")
    # By its name alone another archive, or the same one made anew, would be taken for one that is kept already.
    places = (cluster_folder / "images" / str(number) / archive.name for number in count())
    kept = next(place for place in places if not place.exists() or _same(place, archive))
    kept.parent.mkdir(parents=True, exist_ok=True)
    if not kept.exists():
        try:
            os.link(archive, kept)
        except OSError:
            # An interrupted copy must not pass for the archive.
            part = kept.with_name(kept.name + ".new")
            shutil.copyfile(archive, part)
            part.replace(kept)
    return kept


def _same(one: Path, other: Path) -> bool:
    return one.samefile(other) or filecmp.cmp(one, other, shallow=False)


def await_runtime(state: ClusterState, node: str, init: int) -> None:
    """Wait until a node's containerd answers."""
    name = f"containerd/{node}"
    record = state.processes[name]
    answered = processes.wait_until(
        lambda: not record.alive() or _ctr(init, "version").returncode == 0, processes.PATIENCE, 0.1
    )
    if not answered or not record.alive():
        raise LocalClusterError(f"containerd of {node} did not start.", log=record.log)


def load(init: int, node: str, wanted: Iterable[Path]) -> None:
    """Load archives into one node, leaving out what it has."""
    present = _present(init)
    for archive in wanted:
        images = archives.references(archive)
        if images and all(present.get(name) == digest for name, digest in images.items()):
            continue
        # The node has its own view of the disk; a file handed over by descriptor is the same in both.
        with archive.open("rb") as stream:
            result = _ctr(init, "images", "import", "-", stdin=stream.fileno())
        if result.returncode != 0:
            raise LocalClusterError(f"{archive.name} cannot be loaded into {node}: {result.stderr.strip()[-300:]}")


def _present(init: int) -> dict[str, str]:
    lines = _ctr(init, "images", "ls").stdout.splitlines()[1:]
    return {line.split()[0]: line.split()[2] for line in lines}


def _ctr(init: int, *arguments: str, stdin: int | None = None) -> subprocess.CompletedProcess[str]:
    enter = ["nsenter", f"--target={init}", "--mount", "--"]
    return subprocess.run(
        [*enter, shutil.which("ctr") or "/usr/bin/ctr", f"--address={SOCKET}", "--namespace=k8s.io", *arguments],
        stdin=subprocess.DEVNULL if stdin is None else stdin,
        capture_output=True,
        text=True,
        check=False,
    )

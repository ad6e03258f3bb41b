"""Unpacked images that new nodes start with.

Importing an image costs seconds for each node and gigabyte. So a set of archives is unpacked once into a containerd
root in the cache, and each node's disk begins as a copy of it whose files are hard links: containerd never changes
a layer, and its data bases, which it does change, are copied for real.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from hashlib import sha256
from pathlib import Path

from slipway.devcluster import paths
from slipway.devcluster.errors import LocalClusterError, last_lines
from slipway.devcluster.images import archives
from slipway.devcluster.native import node_files
from slipway.devcluster.programs.packages import find_tool
from slipway.devcluster.progress import StepReporter, step

_SCRIPT = Path(__file__).parent / "store-build.sh"
_KEPT = 4


def prepare(wanted: Sequence[Path], progress: StepReporter) -> Path:
    """Return a containerd root with these images, made now if it has not been made before."""
    folder = paths.cache_dir() / "stores"
    path = folder / _key(wanted)
    with paths.filling(folder):
        if not path.exists():
            with step(progress, "Unpacking images for new nodes (once)"):
                _build(path, wanted)
        path.touch()
        _forget_oldest(folder)
    return path


def _key(wanted: Sequence[Path]) -> str:
    digest = sha256(node_files.CONTAINERD.encode() + _SCRIPT.read_bytes())
    program = find_tool("containerd") or "containerd"
    digest.update(subprocess.run([program, "--version"], capture_output=True, check=False).stdout)
    # In their order: of two archives with one name of an image the later one counts.
    for path in wanted:
        known = archives.references(path)
        digest.update(repr(sorted(known.items()) or (path.name, path.stat().st_size, path.stat().st_mtime_ns)).encode())
    return digest.hexdigest()[:16]


def _build(path: Path, wanted: Sequence[Path]) -> None:
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
        config, log = Path(folder) / "containerd.toml", Path(folder) / "log"
        root = Path(folder) / "root"
        config.write_text(node_files.CONTAINERD.replace(f"{node_files.INSIDE}/disk/containerd", str(root)))
        spaces = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
        with log.open("wb") as output:
            result = subprocess.run(
                ["unshare", *spaces, "sh", str(_SCRIPT), str(config), *map(str, wanted)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                check=False,
            )
        if result.returncode != 0:
            names = ", ".join(archive.name for archive in wanted)
            tail = "\n".join(f"  {line}" for line in last_lines(log, 6))
            raise LocalClusterError(f"The images {names} cannot be unpacked:\n{tail}")
        root.replace(path)


def _forget_oldest(folder: Path) -> None:
    """Keep the stores that were used last; nodes hold links to what they need of the others."""
    stores = sorted((path for path in folder.glob("[0-9a-f]*") if path.is_dir()), key=lambda p: -p.stat().st_mtime_ns)
    for path in stores[_KEPT:]:
        paths.delete_tree(path)


def copy(store: Path, target: Path) -> None:
    """Begin a node's disk with the images of a store."""
    target.parent.mkdir(parents=True, exist_ok=True)
    if _cp(["-a", "--link"], store, target) != 0:
        # Another file system: no links there, so real copies, shared where the file system can.
        paths.delete_tree(target)
        if _cp(["-a", "--reflink=auto"], store, target) != 0:
            raise LocalClusterError(f"The images in {store} cannot be copied to {target}.", hint="Is the disk full?")
    for database in store.glob("*/*.db"):
        linked = target / database.relative_to(store)
        linked.unlink()
        shutil.copy2(database, linked)


def _cp(options: list[str], source: Path, target: Path) -> int:
    return subprocess.run(["cp", *options, "-T", str(source), str(target)], capture_output=True, check=False).returncode

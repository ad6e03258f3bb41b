"""Where clusters and caches live on disk."""

from __future__ import annotations

import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slipway.devcluster.errors import LocalClusterError

INSIDE_NODE = "/run/node"
"""Where a real node sees its own folder, whatever its path on the machine: paths of sockets must be short."""


def _folder(override: str, xdg: str, default: str) -> Path:
    if chosen := os.environ.get(override):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get(xdg)
    return (Path(base) if base else Path.home() / default).absolute() / "slipway"


def cache_dir() -> Path:
    """Return the folder of everything that can be made again: binaries, image layers."""
    return _folder("SLIPWAY_CACHE", "XDG_CACHE_HOME", ".cache")


def state_dir() -> Path:
    """Return the folder of what exists on this machine now."""
    return _folder("SLIPWAY_STATE", "XDG_STATE_HOME", ".local/state")


def state_dir_is_given() -> bool:
    """Whether a person named the folder of what exists, and so may have made it."""
    return bool(os.environ.get("SLIPWAY_STATE"))


def clusters_dir() -> Path:
    """Return the folder with one folder for each cluster."""
    return state_dir() / "clusters"


@contextmanager
def filling(folder: Path) -> Iterator[None]:
    """Let one process at a time fill a folder of the cache."""
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def delete_tree(path: Path) -> None:
    """Delete a folder and all below it, but nothing that is mounted there. A node's disk has 100,000s of files."""
    command = ["rm", "-rf", "--one-file-system", "--", str(path)]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise LocalClusterError(f"{path} cannot be deleted: {result.stderr.strip()[-300:]}")

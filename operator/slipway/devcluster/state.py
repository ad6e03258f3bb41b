"""What is written down about each cluster, so that any later command can find and end all of it."""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ValidationError

from slipway.devcluster import paths
from slipway.devcluster.errors import ClusterNotFound, LocalClusterError
from slipway.devcluster.processes import ProcessRecord
from slipway.devcluster.spec import NAME_PATTERN, ClusterSpec


class ClusterState(BaseModel):
    """One cluster on this machine."""

    spec: ClusterSpec
    provider: Literal["native", "kind"] = "native"
    node_image: str = ""
    """Of nodes that are containers; empty for the one that kind pulls."""
    engine: str = ""
    """Id of the Docker engine whose containers they are."""
    number: int = -1
    server: str = ""
    ports: dict[str, int] = {}
    phase: Literal["creating", "running"] = "creating"
    binaries: dict[str, Path] = {}
    processes: dict[str, ProcessRecord] = {}
    away: list[str] = []
    images: list[Path] = []
    flags: dict[str, list[str]] = {}
    """Flags for single components besides our own; where both name one, these win."""

    @property
    def folder(self) -> Path:
        """The folder of everything that belongs to the cluster."""
        return cluster_dir(self.spec.name)

    @property
    def kubeconfig(self) -> Path:
        """Administrator access to the cluster."""
        return self.folder / "kubeconfig"

    @property
    def token(self) -> Path:
        """The administrator's token."""
        return self.folder / "pki" / "admin.token"

    @property
    def certificate(self) -> tuple[Path, Path] | None:
        """The administrator's certificate and key, where there is no token."""
        return None if self.token.exists() else (self.folder / "pki" / "admin.crt", self.folder / "pki" / "admin.key")

    @property
    def authority(self) -> Path:
        """The certificate authority of the cluster."""
        return self.folder / "pki" / "ca.crt"

    def log(self, name: str) -> Path:
        """Return the log of one component."""
        return self.folder / "logs" / f"{name}.log"

    def save(self) -> None:
        """Write the state; a crash leaves either the old or the new one."""
        temporary = self.folder / "state.json.new"
        temporary.write_text(self.model_dump_json(indent=1))
        temporary.replace(self.folder / "state.json")


def cluster_dir(name: str) -> Path:
    """Return the folder of one cluster. What is no name must not reach `down`, which deletes the folder."""
    if not re.fullmatch(NAME_PATTERN, name):
        raise LocalClusterError(f"{name!r} is no name of a cluster.", hint="Use lower-case letters, digits and `-`.")
    return paths.clusters_dir() / name


def load(name: str) -> ClusterState | None:
    """Read a cluster's state; None when there is no such cluster."""
    path = cluster_dir(name) / "state.json"
    try:
        return ClusterState.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValidationError as error:
        raise LocalClusterError(
            f"{path} cannot be read: {error.error_count()} faults.", hint=f"`slipway cluster down {name}` removes it."
        ) from error


def readable(name: str) -> ClusterState | None:
    """Read a cluster's state; None also where it is damaged, which must keep nobody from removing the cluster."""
    try:
        return load(name)
    except LocalClusterError:
        return None


def names() -> list[str]:
    """Return the names of all clusters, whole or half-made; a copy such as `dev.bak` that somebody keeps is none."""
    try:
        folders = [path.name for path in paths.clusters_dir().iterdir() if path.is_dir()]
    except FileNotFoundError:
        return []
    return sorted(name for name in folders if re.fullmatch(NAME_PATTERN, name))


def check_same(state: ClusterState, wanted: ClusterState) -> None:
    """Refuse a cluster that runs, but not as it is wanted now.

    Raises:
        LocalClusterError: names what differs.
    """
    name = state.spec.name
    if state.provider != wanted.provider:
        what = f"runs already, made by the provider {state.provider}"
    elif state.spec != wanted.spec:
        what = "runs already with other nodes"
    elif state.node_image != wanted.node_image:
        what = f"runs already with the node image {state.node_image or 'of kind'}"
    else:
        return
    raise LocalClusterError(f"The cluster {name!r} {what}.", hint=again(name))


def check_half_made(state: ClusterState, provider: str) -> None:
    """Refuse a cluster that another provider has not finished: only that one can remove what there is of it.

    Raises:
        LocalClusterError: names the provider.
    """
    if state.provider != provider:
        what = f"was begun by the provider {state.provider}"
        raise LocalClusterError(f"The cluster {state.spec.name!r} {what}.", hint=again(state.spec.name))


def again(name: str) -> str:
    """Return what to do with a cluster that is not as it should be."""
    return f"`slipway cluster down {name}`, then `up` again."


def not_found(name: str) -> ClusterNotFound:
    """Return the error for a name that no cluster has."""
    others = ", ".join(names())
    hint = f"Clusters: {others}." if others else "There are no clusters; `slipway cluster up` makes one."
    return ClusterNotFound(f"There is no cluster {name!r}.", hint=hint)


@contextmanager
def locked(name: str, *, make: bool = False) -> Iterator[Path]:
    """Hold a cluster's folder for oneself: one command at a time changes the cluster.

    Args:
        make: make the folder where there is none, as `up` does.

    Raises:
        ClusterNotFound: when there is no folder, or it went while it was waited for.
    """
    folder = cluster_dir(name)
    while True:
        if make:
            folder.mkdir(parents=True, exist_ok=True)
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            if make:
                continue
            raise not_found(name) from None
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if _same(handle, folder):
                yield folder
                return
        finally:
            os.close(handle)


def _same(handle: int, folder: Path) -> bool:
    """Whether the folder we waited for is still the one on disk: a `down` may have removed it."""
    try:
        return os.path.samestat(os.fstat(handle), folder.stat())
    except FileNotFoundError:
        return False


@contextmanager
def numbering() -> Iterator[None]:
    """Hold the right to give a new cluster its number: one process at a time on the whole machine."""
    # Folders for state may differ between processes; the machine's network is the same for all.
    handle = os.open("/sys/class/net", os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def clear(name: str) -> None:
    """Empty a cluster's folder. The folder itself stays, because a lock on it may be held."""
    for path in cluster_dir(name).iterdir():
        paths.delete_tree(path)


def remove(name: str) -> None:
    """Delete a cluster's folder, and the folders of ours above it that this leaves empty."""
    paths.delete_tree(cluster_dir(name))
    ours = [paths.clusters_dir()] if paths.state_dir_is_given() else [paths.clusters_dir(), paths.state_dir()]
    for folder in ours:
        try:
            folder.rmdir()
        except OSError:
            return

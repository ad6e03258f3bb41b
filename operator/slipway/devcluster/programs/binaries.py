"""Finding, downloading or building the programs of a cluster.

In this order: PATH and $KUBEBUILDER_ASSETS, the cache, the official Kubernetes release, a build with Go.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from hashlib import sha256
from pathlib import Path

from slipway.devcluster import paths
from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.programs import gobuild
from slipway.devcluster.programs.components import COMPONENTS, Component, architecture
from slipway.devcluster.progress import StepReporter, step

DOWNLOAD = "https://dl.k8s.io/release"
CONNECT_SECONDS = 3.0


def ensure(
    names: Iterable[str], progress: StepReporter, components: Mapping[str, Component] = COMPONENTS
) -> dict[str, Path]:
    """Return a path for each program, fetching or building the ones that the machine lacks."""
    wanted = [components[name] for name in names]
    with ThreadPoolExecutor() as pool:
        found = dict(zip([c.name for c in wanted], pool.map(_find, wanted), strict=True))
    if all(found.values()):
        return {name: path for name, path in found.items() if path}
    with paths.filling(paths.cache_dir() / "binaries"):
        # Another process may have built them while we waited for the lock.
        lacking = [component for component in wanted if _find(component) is None]
        lacking = [component for component in lacking if not _download(component, progress)]
        if lacking:
            _build(lacking, progress)
    return {component.name: _required(component) for component in wanted}


def cached_path(component: Component) -> Path:
    """Return where the cache keeps a program."""
    return paths.cache_dir() / "binaries" / component.name / component.cache_key / component.name


def _required(component: Component) -> Path:
    path = _find(component)
    if path is None:
        raise LocalClusterError(f"{component.name} {component.version} was made and yet is not there.")
    return path


def _find(component: Component) -> Path | None:
    for candidate in _candidates(component.name):
        version = component.version_of(candidate)
        if version is not None and component.accepts(version):
            return candidate
    cached = cached_path(component)
    return cached if cached.exists() else None


def _candidates(name: str) -> list[Path]:
    found = []
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        found.append(Path(assets) / name)
    if on_path := shutil.which(name):
        found.append(Path(on_path))
    return [path.absolute() for path in found if path.exists()]


@contextmanager
def _workspace() -> Iterator[Path]:
    """Give a folder on the cache's file system, so that finished files can be renamed into place."""
    with tempfile.TemporaryDirectory(prefix=".new-", dir=paths.cache_dir() / "binaries") as folder:
        yield Path(folder)


def _install(program: Path, component: Component) -> None:
    program.chmod(0o755)
    target = cached_path(component)
    target.parent.mkdir(parents=True, exist_ok=True)
    program.replace(target)


def _build(components: list[Component], progress: StepReporter) -> None:
    with _workspace() as folder:
        gobuild.build(components, folder, progress)
        for component in components:
            _install(folder / component.name, component)


@cache
def _downloads_reachable() -> bool:
    """Ask once per run whether the official downloads can be reached, and give up quickly."""
    try:
        with urllib.request.urlopen(f"{DOWNLOAD}/stable.txt", timeout=CONNECT_SECONDS) as answer:
            return bool(answer.status == 200)
    except (OSError, urllib.error.URLError):
        return False


def _download(component: Component, progress: StepReporter) -> bool:
    """Fetch an official release; False when there is none or it cannot be reached."""
    if not component.official or not _downloads_reachable():
        return False
    url = f"{DOWNLOAD}/v{component.version}/bin/linux/{architecture()}/{component.name}"
    with step(progress, f"Downloading {component.name} {component.version}"), _workspace() as folder:
        program = folder / component.name
        try:
            with urllib.request.urlopen(f"{url}.sha256", timeout=CONNECT_SECONDS) as answer:
                expected = answer.read().decode().split()[0]
            with urllib.request.urlopen(url, timeout=30) as answer, program.open("wb") as file:
                shutil.copyfileobj(answer, file, 1 << 20)
        except (OSError, IndexError):
            return False
        if sha256(program.read_bytes()).hexdigest() != expected:
            raise LocalClusterError(f"The download of {component.name} is damaged: its checksum does not match.")
        _install(program, component)
    return True

"""What Go modules bring that tests need: files and programs, downloaded and built once."""

import fcntl
import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from slipway.devcluster import paths
from slipway.devcluster.programs.gobuild import go_program


def download(module: str) -> Path:
    """The folder of a module, MODULE@VERSION, in Go's cache."""
    return Path(json.loads(_go("mod", "download", "-json", module))["Dir"])


def program(name: str, version: str, package: str) -> Path:
    """A program built from its package; building it takes minutes, once."""
    path = paths.cache_dir() / name / version / name
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with _locked(path.parent / ".lock"):
            # Another process may have built it while we waited for the lock.
            if not path.exists():
                _build(path, f"{package}@v{version}")
    return path


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(path: Path, package: str) -> None:
    with tempfile.TemporaryDirectory(prefix=".new-", dir=path.parent) as folder:
        _go("install", "-ldflags", "-s -w", package, GOBIN=folder, CGO_ENABLED="0")
        (Path(folder) / path.name).replace(path)


def _go(*arguments: str, **environment: str) -> str:
    go = go_program()
    assert go is not None, "the chart's tests need Go"
    # Settings of the user's own Go work must not reach this build, nor a module that the current folder is in.
    own = {"GOFLAGS": "", "GOWORK": "off", "GO111MODULE": "on", **environment}
    with tempfile.TemporaryDirectory() as elsewhere:
        done = subprocess.run(
            [go, *arguments], cwd=elsewhere, env={**os.environ, **own}, capture_output=True, text=True, check=False
        )
    assert done.returncode == 0, f"go {' '.join(arguments)}:\n{done.stderr[-2000:]}"
    return done.stdout

"""Helm, from PATH or built once into the cache, and what it makes of the chart."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway.local_cluster import paths
from slipway.local_cluster.gobuild import go_program
from tests.conftest import ROOT

CHART = ROOT / "charts/slipway"
HELM = "4.3.1"


@dataclass(frozen=True)
class Helm:
    """Helm 4 on our chart."""

    program: Path
    home: Path

    def __call__(self, *arguments: str, values: Any = None, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run Helm; `values` is handed to `--values -`."""
        extra = [] if values is None else ["--values", "-"]
        homes = {f"HELM_{name}_HOME": str(self.home) for name in ("CACHE", "CONFIG", "DATA")}
        done = subprocess.run(
            [str(self.program), *arguments, *extra],
            input=None if values is None else yaml.safe_dump(values),
            env={**os.environ, **homes},
            text=True,
            capture_output=True,
            timeout=120,
            check=False,
        )
        if check and done.returncode != 0:
            raise AssertionError(f"helm {' '.join(arguments)}: {done.stderr.strip()}")
        return done

    def template(self, values: Any = None, *, name: str = "slipway", namespace: str = "default") -> list[Any]:
        """The chart's objects."""
        rendered = self("template", name, str(CHART), "--namespace", namespace, values=values or {}).stdout
        return [body for body in yaml.safe_load_all(rendered) if body]


@pytest.fixture(scope="session")
def helm(tmp_path_factory: pytest.TempPathFactory) -> Helm:
    """Helm 4."""
    return Helm(_on_path() or _cached(), tmp_path_factory.mktemp("helm"))


def _on_path() -> Path | None:
    found = shutil.which("helm")
    if found is None:
        return None
    version = subprocess.run([found, "version", "--short"], capture_output=True, text=True, timeout=20, check=False)
    return Path(found) if re.match(r"v4\.", version.stdout) else None


def _cached() -> Path:
    program = paths.cache_dir() / "helm" / HELM / "helm"
    if not program.exists():
        program.parent.mkdir(parents=True, exist_ok=True)
        with _locked(program.parent / ".lock"):
            # Another process may have built it while we waited for the lock.
            if not program.exists():
                _build(program)
    return program


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _build(program: Path) -> None:
    go = go_program()
    assert go is not None, "the chart's tests need Helm 4 on PATH, or Go to build it"
    with tempfile.TemporaryDirectory(prefix=".new-", dir=program.parent) as folder:
        # Settings of the user's own Go work must not reach this build.
        own = {"GOBIN": folder, "CGO_ENABLED": "0", "GOFLAGS": "", "GOWORK": "off", "GO111MODULE": "on"}
        command = [go, "install", "-ldflags", "-s -w", f"helm.sh/helm/v4/cmd/helm@v{HELM}"]
        done = subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"Helm could not be built:\n{done.stderr[-2000:]}"
        (Path(folder) / "helm").replace(program)

"""Helm, from PATH or built once into the cache, and what it makes of the chart."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.go_modules import program
from tests.places import ROOT
from tests.waiting import ANSWER_SECONDS

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
            timeout=ANSWER_SECONDS,
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
    return Helm(helm_program(), tmp_path_factory.mktemp("helm"))


def helm_program() -> Path:
    """Helm 4; building it takes minutes."""
    return _on_path() or program("helm", HELM, "helm.sh/helm/v4/cmd/helm")


def _on_path() -> Path | None:
    found = shutil.which("helm")
    if found is None:
        return None
    version = subprocess.run([found, "version", "--short"], capture_output=True, text=True, timeout=20, check=False)
    return Path(found) if re.match(r"v4\.", version.stdout) else None

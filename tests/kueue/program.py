"""Kueue itself, built once from its Go module into the cache, and the manifests in that."""

import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml

from tests.bench.programs import Program
from tests.waiting import START_SECONDS

KUEUE: Final = Program("kueue", Path(__file__).parent / "module", "sigs.k8s.io/kueue/cmd/kueue")


def manifests(kubectl: str) -> list[Any]:
    """What an installation of Kueue applies."""
    return list(yaml.load_all(_rendered(kubectl), yaml.CSafeLoader))


@cache
def _rendered(kubectl: str) -> str:
    folder = KUEUE.sources().parents[1] / "config/default"
    return subprocess.run(
        [kubectl, "kustomize", str(folder)], capture_output=True, text=True, check=True, timeout=START_SECONDS
    ).stdout

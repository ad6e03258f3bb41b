"""Kueue itself, built once from its Go module into the cache."""

from pathlib import Path
from typing import Final

from tests.bench.programs import Program

KUEUE: Final = Program("kueue", Path(__file__).parent / "module", "sigs.k8s.io/kueue/cmd/kueue")

"""The demo, as `make demo` shows it: training survives the loss of a node and goes on from its checkpoint."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from slipway.demo import run
from slipway.devcluster import NativeCluster
from tests.waiting import START_SECONDS

pytestmark = pytest.mark.thorough

MANIFEST = run.manifest


def longer(checkpoints: Path) -> dict[str, Any]:
    """The demo's job, with so many steps that it still runs when a busy machine comes to take the node away."""
    body = MANIFEST(checkpoints)
    [steps] = [one for one in body["spec"]["env"] if one["name"] == "STEPS"]
    steps["value"] = "150"
    return body


def test_training_survives_a_preemption(
    real_nodes: NativeCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "LIMIT_SECONDS", 3 * START_SECONDS)
    monkeypatch.setattr(run, "manifest", longer)
    times = run.Demo(real_nodes, Console(), tmp_path).run()
    print(f"restart noticed after {times.to_restart_noticed:.2f} s, all new pods after {times.to_new_pods:.2f} s")

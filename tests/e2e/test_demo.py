"""The demo, as `make demo` shows it: training survives the loss of a node and goes on from its checkpoint."""

from pathlib import Path

import pytest
from rich.console import Console

from slipway.demo.run import Demo
from slipway.local_cluster import NativeCluster


@pytest.mark.timeout(600)
def test_training_survives_a_preemption(real_nodes: NativeCluster, tmp_path: Path) -> None:
    times = Demo(real_nodes, Console(), tmp_path).run()
    print(f"restart noticed after {times.to_restart_noticed:.2f} s, all new pods after {times.to_new_pods:.2f} s")

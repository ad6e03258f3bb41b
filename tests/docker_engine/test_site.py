"""This machine as a site of its own."""

from pathlib import Path

import pytest

from slipway.api.profile import GpuNodes
from slipway.docker_engine.conversion.devices import Inventory
from slipway.docker_engine.site import gpus


def machine(root: Path, *nodes: str) -> Inventory:
    for node in nodes:
        path = root / "dev" / node
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    (root / "dev").mkdir(exist_ok=True)
    return Inventory.read(root)


@pytest.mark.parametrize(
    ("nodes", "expected"),
    [
        pytest.param((), None, id="no GPUs: nothing is known of them"),
        pytest.param(("accel0",), None, id="TPU chips are no GPUs"),
        pytest.param(
            ("nvidia0", "nvidia1"),
            GpuNodes(resources={"nvidia": "nvidia.com/gpu"}, per_node=2),
            id="GPUs of one vendor: a job need name neither vendor nor number (N-31)",
        ),
    ],
)
def test_the_gpus_of_this_machine(tmp_path: Path, nodes: tuple[str, ...], expected: GpuNodes | None) -> None:
    assert gpus(machine(tmp_path, *nodes)) == expected

"""This machine as a site of its own."""

from pathlib import Path
from typing import Any

import pytest

from slipway.api.profile import GpuNodes
from slipway.local.conversion.devices import Inventory
from slipway.local.supervisor.machine_site import GRACE_SECONDS, START_SECONDS, gpus, site
from tests.core.build import spec


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


WITH_SIDE = {"podTemplate": {"spec": {"containers": [{"name": "log", "image": "log:1"}]}}}
WITH_INIT = {"podTemplate": {"spec": {"initContainers": [{"name": "fetch", "image": "f:1"}]}}}


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        pytest.param(WITH_SIDE, START_SECONDS, id="images are there"),
        pytest.param(WITH_INIT, None, id="init containers may run long"),
        pytest.param({"ray": {"entrypoint": "x"}}, None, id="all workers have to join a Ray head"),
    ],
)
def test_the_time_to_start(fields: dict[str, Any], seconds: int | None) -> None:
    defaults = site(spec(**fields)).spec.defaults
    assert START_SECONDS == 30
    assert ("timeouts" in defaults.model_fields_set, defaults.timeouts.start_seconds) == (seconds is not None, seconds)


@pytest.mark.row("N-19")
@pytest.mark.parametrize("fields", [{}, WITH_INIT], ids=["containers only", "init containers"])
def test_containers_have_the_time_of_docker_stop_to_end(fields: dict[str, Any]) -> None:
    assert site(spec(**fields)).spec.defaults.termination_grace_period_seconds == GRACE_SECONDS == 10

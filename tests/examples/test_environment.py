"""The JAX programs of the page about the environment, in real processes, with the environment of Slipway's pods."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.api.places import worker
from slipway.api.slicejob import SliceJobSpec
from slipway.core.model.job import Settings
from slipway.core.validation.acceptance import pod_factory
from tests.core.build import World
from tests.examples.test_train import free_port, libraries
from tests.places import ROOT
from tests.waiting import START_SECONDS

__all__ = ["libraries"]

PAGE = (ROOT / "docs/environment.md").read_text()
GLOO = "import jax; jax.config.update('jax_cpu_collectives_implementation', 'gloo')\n"
FORCED = {"JAX_FORCE_TPU_INIT": "1"}
"""By which JAX takes a machine without chips for a TPU VM."""


def program(name: str) -> str:
    [found] = re.findall(rf"<!-- test: {name} -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    return found


def environment(slices: int, slice_index: int, host: int, port: int) -> dict[str, str]:
    """What a host of two finds in its environment, where the job says that all meet on this machine."""
    address = [{"name": "JAX_COORDINATOR_ADDRESS", "value": f"127.0.0.1:{port}"}]
    world = World(slices=slices, hosts=None, accelerator={"type": "v5p-16"}, env=address)
    assert isinstance(world.job.spec, SliceJobSpec)
    pod = pod_factory(world.job, Settings()).pod(0, worker(slice_index, host))
    env = {one["name"]: one["value"] for one in pod["spec"]["containers"][0]["env"]}
    return {name: value.replace("$(SLIPWAY_RANK)", env["SLIPWAY_RANK"]) for name, value in env.items()}


@pytest.mark.parametrize(
    ("name", "slices", "more"),
    [
        pytest.param("cpu", 1, {}, id="CPU, one slice", marks=pytest.mark.thorough),
        pytest.param("cpu", 2, {}, id="CPU, two slices"),
        pytest.param("tpu", 2, FORCED, id="as on a TPU VM, two slices", marks=pytest.mark.thorough),
    ],
)
def test_jax_finds_its_processes(libraries: Path, tmp_path: Path, name: str, slices: int, more: dict[str, str]) -> None:
    port, places = free_port(), [(one, host) for one in range(slices) for host in range(2)]
    always = {"HOME": str(tmp_path), "PYTHONPATH": str(libraries), "JAX_PLATFORMS": "cpu", **more}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", GLOO + program(name)],
            env=always | environment(slices, *place, port),
            stdout=subprocess.PIPE,
            text=True,
        )
        for place in places
    ]
    try:
        said = [process.communicate(timeout=START_SECONDS)[0] for process in started]
    finally:
        for process in started:
            process.kill()
    assert said == [f"process {rank} of {len(places)}\n" for rank in range(len(places))]

"""JAX and torch find their processes between containers of this machine."""

import re

import pytest

from slipway.devcluster.images.python_image import debian_layer
from slipway.devcluster.programs import packages
from slipway.devcluster.progress import Silent
from tests.e2e.torch_image import PROGRAM, torch_layer
from tests.examples.test_train import libraries
from tests.local_engine.engine import Engine, User
from tests.places import ROOT

pytestmark = pytest.mark.thorough

__all__ = ["libraries"]

PAGE = (ROOT / "docs/environment.md").read_text()
GLOO = "import jax; jax.config.update('jax_cpu_collectives_implementation', 'gloo')\n"


def imported(engine: Engine, path: str, name: str) -> str:
    """An image of a Debian that is in a tar; imported once."""
    repository, _, tag = name.partition(":")
    if not engine.client.images.list(name):
        engine.client.api.import_image_from_file(path, repository=repository, tag=tag)
    return name


def jax_program() -> str:
    [found] = re.findall(r"<!-- test: cpu -->\n```python\n(.*?)```", PAGE, re.DOTALL)
    return GLOO + str(found)


# T-04, T-18: the JAX program of the page about the environment.
def test_jax_finds_its_processes(user: User, engine: Engine, libraries: object) -> None:
    packages.ensure(packages.IMAGES, Silent())
    image = imported(engine, str(debian_layer(Silent()).path), "slipway.local/python:1")
    user.submit(
        image=image, hosts=2, slices=2, command=["python3", "-c", jax_program()],
        env=[{"name": "PYTHONPATH", "value": "/libraries"}, {"name": "JAX_PLATFORMS", "value": "cpu"}],
        volumes=[{"name": "libraries", "hostPath": {"path": str(libraries)}}],
        volumeMounts=[{"name": "libraries", "mountPath": "/libraries", "readOnly": True}],
    )  # fmt: skip
    status = user.ended()
    assert (status["phase"], status["failures"]) == ("Succeeded", 0), user.slipway("logs", "train").out


# T-04, T-18: every process must find the sum over all ranks.
def test_torch_sums_over_the_hosts(user: User, engine: Engine) -> None:
    image = imported(engine, str(torch_layer(Silent()).path), "slipway.local/torch-debian:1")
    user.submit(
        image=image, hosts=3, command=["python3", "/program/all_reduce.py"],
        volumes=[{"name": "program", "hostPath": {"path": str(PROGRAM.parent)}}],
        volumeMounts=[{"name": "program", "mountPath": "/program", "readOnly": True}],
    )  # fmt: skip
    status = user.ended()
    logs = user.slipway("logs", "train").out
    assert status["phase"] == "Succeeded", logs
    for rank in range(3):
        assert f"rank {rank} of 3: sum 6" in logs

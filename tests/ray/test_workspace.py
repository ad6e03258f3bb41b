"""The entrypoint and the tasks of a Ray cluster work in the directory of their job."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway.local_cluster import NativeCluster
from tests.conftest import Kubectl, jobs_of
from tests.operator_image import IMAGE as OPERATOR
from tests.operator_image import build_image
from tests.running import Jobs
from tests.waiting import PATIENCE

from .test_ray import CPU, SMALL, printed

PROGRAM = """
import getpass, os, ray

ray.init()


@ray.remote(num_cpus=0, resources={"train-s0": 1})
def work():
    with open("task", "w") as file:
        file.write(f"{getpass.getuser()} {os.getcwd()}")


ray.get(work.remote())
with open("entrypoint", "w") as file:
    file.write(f"{getpass.getuser()} {os.getcwd()}")
"""


@pytest.fixture
def jobs(
    ray_nodes: NativeCluster,
    namespace_of: Callable[[NativeCluster], Kubectl],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Jobs]:
    ray_nodes.load_images([build_image()])
    monkeypatch.setenv("SLIPWAY_IMAGE", OPERATOR)
    yield from jobs_of(namespace_of(ray_nodes), tmp_path)


def test_head_and_workers_are_in_the_directory_of_the_job(jobs: Jobs, tmp_path: Path) -> None:  # F-38, F-45
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    jobs.apply(
        **CPU,
        workspace={"hostPath": {"path": str(volume)}},
        env=[{"name": "PROGRAM", "value": PROGRAM}],
        ray={"entrypoint": 'python3 -c "$PROGRAM"', "head": SMALL},
    )
    status = jobs.until("Succeeded", seconds=PATIENCE)
    assert status["failures"] == 0, printed(jobs)
    found = {name: (volume / "train" / name).read_text() for name in ("entrypoint", "task")}
    assert found == dict.fromkeys(found, "slicejob /var/tmp/slicejob/workspace/train")

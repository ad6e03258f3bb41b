"""The entrypoint and the tasks of a Ray cluster work in the directory of their job."""

from pathlib import Path

import pytest

from tests.ray.test_ray import CPU, SMALL, printed
from tests.running import Jobs
from tests.waiting import START_SECONDS

pytestmark = pytest.mark.thorough

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


def test_head_and_workers_are_in_the_directory_of_the_job(
    real_jobs: Jobs, operator_image: str, tmp_path: Path
) -> None:  # F-38, F-45
    jobs = real_jobs
    volume = tmp_path / "volume"
    volume.mkdir()
    volume.chmod(0o777)
    jobs.apply(
        **CPU,
        workspace={"hostPath": {"path": str(volume)}},
        env=[{"name": "PROGRAM", "value": PROGRAM}],
        ray={"entrypoint": 'python3 -c "$PROGRAM"', "head": SMALL},
    )
    status = jobs.until("Succeeded", seconds=START_SECONDS)
    assert status["failures"] == 0, printed(jobs)
    found = {name: (volume / "train" / name).read_text() for name in ("entrypoint", "task")}
    assert found == dict.fromkeys(found, "slicejob /var/tmp/slicejob/workspace/train")

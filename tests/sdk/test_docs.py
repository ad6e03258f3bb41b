"""What the page about Python shows runs, as one script of a user's."""

import os
import re
import subprocess
import sys
from pathlib import Path

import slipway
from slipway.sdk import decorators, session
from tests.conftest import ROOT
from tests.ray.page import MARKED
from tests.running import Jobs
from tests.sdk.caller import client_of

PAGE = (ROOT / "docs/sdk.md").read_text()
BLOCKS = re.findall(rf"{MARKED}```python\n(.*?)```", PAGE, re.DOTALL)


def run(jobs: Jobs, folder: Path, blocks: list[str]) -> None:
    config = client_of(jobs.kubectl, folder).kubeconfig
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], cwd=folder, env=os.environ | {"KUBECONFIG": str(config)},
        capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + jobs.operator.tail()


def test_the_containers_of_the_page_run(ray_jobs: Jobs, tmp_path: Path) -> None:
    run(ray_jobs, tmp_path, BLOCKS[:3])


def test_the_functions_of_the_page_run(ray_jobs: Jobs, tmp_path: Path) -> None:
    run(ray_jobs, tmp_path, BLOCKS[3:6])


def test_the_sessions_of_the_page_run(ray_jobs: Jobs, tmp_path: Path) -> None:
    run(ray_jobs, tmp_path, [BLOCKS[3], *BLOCKS[6:]])


def test_the_page_speaks_of_everything() -> None:
    parts = {"HostFailure", "JobError", "JobInfo", "SlipwayError", "CompletedRun"}
    assert [name for name in slipway.__all__ if name not in PAGE and name not in parts] == []
    assert f"{session.CLOSE_SECONDS:.0f}" in PAGE
    assert decorators.tpu_remote is decorators.device_remote

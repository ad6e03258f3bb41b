"""What the page about Python shows runs, as scripts of a user's."""

import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import slipway
from slipway.sdk import decorators, session
from tests.conftest import ROOT
from tests.ray.page import MARKED
from tests.running import Jobs
from tests.sdk.caller import client_of

PAGE = (ROOT / "docs/sdk.md").read_text()
BLOCKS = re.findall(rf"{MARKED}```python\n(.*?)```", PAGE, re.DOTALL)


SCRIPTS = {"containers": BLOCKS[:3], "functions": BLOCKS[3:6], "sessions": [BLOCKS[3], *BLOCKS[6:]]}


@pytest.mark.timeout(600)
def test_the_page_runs(ray_jobs: Jobs, tmp_path: Path) -> None:
    config = client_of(ray_jobs.kubectl, tmp_path).kubeconfig

    def run(blocks: list[str]) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-c", "\n".join(blocks)], cwd=tmp_path, env=os.environ | {"KUBECONFIG": str(config)},
            capture_output=True, text=True, timeout=500, check=False,
        )  # fmt: skip

    # Side by side: about half of a Ray cluster's start is waiting.
    with ThreadPoolExecutor() as pool:
        ended = dict(zip(SCRIPTS, pool.map(run, SCRIPTS.values()), strict=True))
    errors = {name: done.stderr for name, done in ended.items() if done.returncode != 0}
    assert errors == {}, ray_jobs.operator.tail()


def test_the_page_speaks_of_everything() -> None:
    parts = {"HostFailure", "JobError", "JobInfo", "SlipwayError", "CompletedRun"}
    assert [name for name in slipway.__all__ if name not in PAGE and name not in parts] == []
    assert f"{session.CLOSE_SECONDS:.0f}" in PAGE
    assert decorators.tpu_remote is decorators.device_remote

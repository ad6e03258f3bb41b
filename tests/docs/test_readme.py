"""What the README shows is what happens: its tour runs as it stands there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from slipway.local_cluster import NativeProvider
from tests.conftest import ROOT

README = (ROOT / "README.md").read_text()


@pytest.mark.timeout(600)
def test_the_tour(tmp_path: Path) -> None:
    blocks = re.findall(r"<!-- tour -->\n```sh\n(.*?)```", README, re.DOTALL)
    assert len(blocks) == 4
    environment = os.environ | {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    try:
        # Job control, because the tour ends the operator with `kill %1`.
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-m", "-c", "\n".join(blocks)],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=500,
            check=False,
        )
    finally:
        NativeProvider().down("tour")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "host 0 of slice 1, rank 2 of 4" in done.stdout
    assert re.search(r"hello +Running +Running +v5p-16 +2/2 +0 +0 +0 ", done.stdout)
    assert re.search(r"hello +Succeeded +Succeeded +v5p-16 +2/2 +1 +0 +1 ", done.stdout)
    assert "was lost: its node is gone" in done.stdout


def test_every_file_the_readme_points_to_exists() -> None:
    links = re.findall(r"\]\((?!http)([^)#]+)\)", README)
    folders = re.findall(r"^\| ((?:`[^`]+`,? ?)+) \|", README, re.MULTILINE)
    named = [*links, *(name for cell in folders for name in re.findall(r"`([^`]+)`", cell))]
    assert len(named) > 10
    assert [name for name in named if not (ROOT / name).exists()] == []

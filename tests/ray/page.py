"""The page about Ray, and how its shell blocks are run."""

import os
import re
import subprocess
from pathlib import Path

from tests.places import ROOT
from tests.running import Jobs
from tests.waiting import START_SECONDS

MARKED = "<!-- test -->\n"
"""Stands before what the tests run."""
PAGE = (ROOT / "docs/ray.md").read_text()


def blocks(language: str, marked: str = "") -> list[str]:
    return re.findall(rf"{marked}```{language}\n(.*?)```", PAGE, re.DOTALL)


def run(jobs: Jobs, script: str, folder: Path) -> str:
    """A shell block, as a user with this cluster's kubeconfig and namespace runs it in the project's folder."""
    kubectl = jobs.kubectl
    config = folder / "kubeconfig"
    config.write_text(kubectl.kubeconfig.read_text())
    setting = [kubectl.program, "--kubeconfig", str(config), "config", "set-context", "--current"]
    subprocess.run([*setting, f"--namespace={kubectl.namespace}"], check=True, capture_output=True)
    path = f"{Path(kubectl.program).parent}:{os.environ['PATH']}"
    environment = os.environ | {"KUBECONFIG": str(config), "PATH": path}
    (folder / "examples").symlink_to(ROOT / "examples")
    # Whatever a block leaves in the background goes with its shell.
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f"trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{script}"],
        cwd=folder, env=environment, capture_output=True, text=True, timeout=2 * START_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout

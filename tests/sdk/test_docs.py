"""What the page about Python shows runs: as scripts of a user's outside the cluster, and from a pod inside it."""

import os
import re
import site
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import slipway
from slipway.sdk import decorators, session
from tests.places import ROOT
from tests.ray.image import IMAGE
from tests.ray.page import MARKED
from tests.running import Jobs
from tests.sdk.caller import ACCOUNT, client_of

PAGE = (ROOT / "docs/sdk.md").read_text()
BLOCKS = {
    section.splitlines()[0]: re.findall(rf"{MARKED}```python\n(.*?)```", section, re.DOTALL)
    for section in PAGE.split("\n## ")[1:]
}
"""The code of each section."""


@pytest.mark.timeout(900)
@pytest.mark.thorough
def test_the_page_runs(real_jobs: Jobs, tmp_path: Path) -> None:  # E2-02, E2-04, E2-05, E2-10, E2-13, E2-46, E2-47
    kubectl = real_jobs.kubectl
    config = client_of(kubectl, tmp_path).kubeconfig
    executor = BLOCKS["Functions"][0]
    # Side by side, for a part of a Ray cluster's start is waiting.
    with ThreadPoolExecutor() as pool:
        inside = pool.submit(from_a_pod, [*BLOCKS["Containers"], *BLOCKS["Functions"]], real_jobs)
        outside = pool.map(lambda section: from_outside([executor, *BLOCKS[section]], config), ("Sessions", "Errors"))
        for went_wrong in (inside.result(), *outside):
            assert not went_wrong, f"{went_wrong}\n{real_jobs.operator.tail()}"
    # The container and the function that fail on purpose.
    real_jobs.until_true("the others are removed", lambda: len(kubectl.get("sj")["items"]) == 2)
    kept = {one["metadata"]["name"].partition("-")[0]: one for one in kubectl.get("sj")["items"]}
    status = kept["train"]["status"]
    assert (status["failures"], status["preemptions"]) == (1, 0)  # E2-23: no text is searched
    assert kept["ray"]["status"]["phase"] == "Failed"
    owner = kept["train"]["metadata"]["uid"]
    real_jobs.until_true("their secrets too", lambda: owners(kubectl.get("secrets")["items"]) == {owner})


def owners(objects: list[dict[str, Any]]) -> set[str]:
    return {owner["uid"] for one in objects for owner in one["metadata"]["ownerReferences"]}


def from_outside(script: list[str], kubeconfig: Path) -> str:
    """What went wrong with the script as a program of a user's; nothing when it ran well."""
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(script)], cwd=kubeconfig.parent,
        env=os.environ | {"KUBECONFIG": str(kubeconfig)}, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    return done.stderr if done.returncode else ""


def from_a_pod(script: list[str], jobs: Jobs) -> str:
    """The same in a pod of the cluster, which calls by its own service account."""
    code, log = jobs.ran(pod("\n".join(script)))
    return log if code else ""


def pod(script: str) -> dict[str, Any]:
    """A pod of Ray's image that has this SDK from this machine, whose Python is the image's."""
    folders = {"operator": ROOT / "operator", "site": site.getsitepackages()[0]}
    container = {
        "name": "calls", "image": IMAGE, "imagePullPolicy": "Never", "command": ["python3", "-c", script],
        "env": [{"name": "PYTHONPATH", "value": ":".join(f"/host/{name}" for name in folders)}],
        "volumeMounts": [{"name": name, "mountPath": f"/host/{name}", "readOnly": True} for name in folders],
    }  # fmt: skip
    spec = {
        "restartPolicy": "Never", "serviceAccountName": ACCOUNT, "nodeName": "cpu-0", "containers": [container],
        "volumes": [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()],
    }  # fmt: skip
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "calls"}, "spec": spec}


def test_the_page_speaks_of_everything() -> None:
    parts = {"HostFailure", "JobError", "JobInfo", "SlipwayError", "CompletedRun"}
    assert [name for name in slipway.__all__ if name not in PAGE and name not in parts] == []
    assert f"{session.CLOSE_SECONDS:.0f}" in PAGE
    assert decorators.tpu_remote is decorators.device_remote

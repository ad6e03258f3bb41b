"""The jobs of the page about hardware can run, and their pods have what its table says."""

import json
import re
from typing import Any

import pytest
import yaml

from slipway.api.places import worker
from slipway.api.slicejob import SliceJobSpec
from slipway.client.manifests.reading import check
from slipway.core.model.job import Settings
from slipway.core.validation.acceptance import pod_factory
from tests.core.build import World
from tests.places import ROOT

PAGE = (ROOT / "docs/hardware.md").read_text()
JOBS = {name: yaml.safe_load(text) for name, text in re.findall(r"<!-- job: (.+?) -->\n```yaml\n(.*?)```", PAGE, re.S)}
KINDS = ("TPUs", "GPUs", "CPUs")


def table() -> dict[str, dict[str, str]]:
    """The cells of the table of what Slipway adds, by row and kind of hardware."""
    [_, part] = PAGE.split("## What Slipway adds to the pods\n")
    rows = (line.strip("|").split("|") for line in part.splitlines() if line.startswith("|"))
    cells = [[cell.strip() for cell in row] for row in rows]
    assert tuple(cells[0][1:]) == KINDS
    return {row[0]: dict(zip(KINDS, row[1:], strict=True)) for row in cells[2:10]}


def pod(kind: str) -> Any:
    world = World(**{"hosts": None, **JOBS[kind]["spec"]})
    assert isinstance(world.job.spec, SliceJobSpec)
    return pod_factory(world.job, Settings()).pod(0, worker(0, 0))["spec"]


PARTS = {
    "requests and limits": lambda spec: spec["containers"][0].get("resources", {}).get("limits", {}),
    "selects": lambda spec: spec.get("nodeSelector", {}),
    "tolerates": lambda spec: [one["key"] for one in spec["tolerations"]],
}
EVERYWHERE = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}
SAID_BELOW = {"cloud.google.com/gke-spot", "cloud.google.com/reservation-name"}


@pytest.mark.parametrize("kind", KINDS)
def test_a_job_of_the_page_can_run(kind: str) -> None:
    resolved = check(JOBS[kind])
    assert resolved.hosts == {"TPUs": 4, "GPUs": 4, "CPUs": 8}[kind]


def test_the_group_video_reaches_the_pods() -> None:  # N-28
    assert check(JOBS["the group video"]).gpu_resource == "amd.com/gpu"
    assert pod("the group video")["securityContext"]["supplementalGroups"] == [44]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("row", PARTS)
def test_the_pods_have_what_the_table_says(kind: str, row: str) -> None:
    said = {word for word in re.findall(r"`([^`]+)`", table()[row][kind]) if "/" in word}
    assert {*PARTS[row](pod(kind))} - EVERYWHERE - SAID_BELOW == said


def test_the_table_says_where_hosts_are_apart() -> None:
    apart = "podAntiAffinity" in json.dumps(pod("CPUs"))
    assert apart == JOBS["CPUs"]["spec"]["oneHostPerNode"]
    assert "topologySpreadConstraints" in pod("GPUs")
    assert "topologySpreadConstraints" not in pod("TPUs")


def test_every_accelerator_field_of_the_page_exists() -> None:
    known = yaml.safe_load((ROOT / "crds/slipway.dev_slicejobs.yaml").read_text())
    [version] = known["spec"]["versions"]
    accelerator = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["accelerator"]
    named = set(re.findall(r"`accelerator\.(\w+)", PAGE))
    assert named <= accelerator["properties"].keys()
    assert {"gpu", "nodeSelector"} <= named

"""What the pages about the site show is valid, and what they promise has the test that they name."""

import json
import re
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner

from slipway.api.profile import Limits
from slipway.cli.main import main
from tests.places import ROOT

PAGE = (ROOT / "docs/site.md").read_text()
THREATS = (ROOT / "docs/threat-model.md").read_text()
(EXAMPLE,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def example(tmp_path: Path) -> Path:
    file = tmp_path / "site.yaml"
    file.write_text(EXAMPLE)
    return file


def test_the_profile_and_the_job_under_it_are_valid(example: Path) -> None:
    done = CliRunner().invoke(main, ["validate", str(example)])
    assert (done.exit_code, done.output) == (0, "slicejobprofile default is valid\nslicejob pretrain is valid\n")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("slices: 4", "slices: 9", "spec.slices 9 is not allowed here (SliceJobProfile default, limits.maxSlices)"),
        ("shmSize: 16Gi", "shmSize: 16Gx", "SliceJobProfile default: spec.defaults.shmSize '16Gx'"),
        ("maxSlices: 8", "maxSlice: 8", "spec.limits.maxSlice is not a known field"),
    ],
)
def test_a_mistake_in_either_is_told(example: Path, old: str, new: str, said: str) -> None:
    example.write_text(EXAMPLE.replace(old, new))
    done = CliRunner().invoke(main, ["validate", str(example)])
    assert done.exit_code == 2
    assert said in done.output


def test_where_the_values_come_from_is_explained(example: Path) -> None:
    done = CliRunner().invoke(main, ["render", "--explain", "-f", str(example), "-o", "json"])
    assert done.exit_code == 0, done.output
    sources = {row["field"]: (row["value"], row["source"]) for row in json.loads(done.output)}
    image = "us-docker.pkg.dev/acme/research/train:2026-11"
    assert sources["spec.image"] == (image, "SliceJobProfile default")
    assert sources["spec.env[WANDB_API_KEY]"][1] == "SliceJobProfile default"
    assert sources["spec.slices"] == (4, str(example))


def test_every_limit_is_told_of() -> None:
    assert [one.alias for one in Limits.model_fields.values() if f"`{one.alias}`" not in PAGE] == []


def test_the_example_uses_every_limit_that_narrows_by_a_list_or_a_number() -> None:
    profile, _ = yaml.safe_load_all(EXAMPLE)
    booleans = {"hostNetwork", "hostPorts", "hostProcesses", "privileged", "hostPaths"}
    assert profile["spec"]["limits"].keys() == {one.alias for one in Limits.model_fields.values()} - booleans


def test_every_line_of_the_threat_model_names_a_test_that_exists() -> None:
    rows = [line.split("|")[1:-1] for line in THREATS.splitlines() if line.startswith("| ") and "| test |" not in line]
    assert len(rows) > 12
    for claim, tests in rows:
        named = re.findall(r"`(tests/[^`]+)`", tests)
        assert named, claim
        for path, _, function in (one.partition("::") for one in named):
            assert (ROOT / path).exists(), path
            assert f"def {function}(" in (ROOT / path).read_text() if function else True, (path, function)

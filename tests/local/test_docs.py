"""What the page about images shows is what happens."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from slipway.cli.images import build, push
from slipway.local.images.building import build_and_push_docker_image
from tests.local.conftest import Contents, slipway
from tests.local.servers import Engine
from tests.places import ROOT
from tests.waiting import START_SECONDS

PAGE = (ROOT / "docs/images.md").read_text()
DOCKERFILE = 'FROM scratch\nARG STEPS=1\nENV STEPS=$STEPS\nCOPY train.py /\nCMD ["python", "/train.py"]\n'


def blocks(language: str) -> list[str]:
    return re.findall(rf"<!-- test -->\n```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "train"
    folder.mkdir()
    (folder / "Dockerfile").write_text(DOCKERFILE)
    shutil.copy(ROOT / "examples/train/train.py", folder)
    shutil.copy(ROOT / "examples/pretrain.yaml", folder / "job.yaml")
    monkeypatch.chdir(tmp_path)
    return folder


# E1-45, E1-49
def test_the_commands(train: Path, engine: Engine, registry: str, contents: Contents) -> None:
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", "\n".join(blocks("sh"))],
        env=os.environ | {"PATH": path, "REGISTRY": f"{registry}/team"},
        capture_output=True, text=True, timeout=START_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    first, second, *commands = done.stdout.splitlines()
    assert first == f"{registry}/team/train:v1@{contents.digest('team/train', 'v1')}"
    assert second == f"{registry}/team/train:v2@{contents.digest('team/train', 'v2')}"
    shown = "\n".join(commands).replace(registry, "registry.example")
    assert f"```\n{shown}\n```" in PAGE
    before = yaml.safe_load((ROOT / "examples/pretrain.yaml").read_text())
    after = yaml.safe_load((train / "job.yaml").read_text())
    assert after["spec"].pop("image") == first
    assert before["spec"].pop("image") != first
    assert after == before


# E1-45
def test_the_python_call(train: Path, engine: Engine, registry: str, contents: Contents) -> None:
    [code] = blocks("python")
    names = {"REGISTRY": registry}
    exec(compile(code, "docs/images.md", "exec"), names)
    assert names["image"] == f"{registry}/train:v3"
    assert contents.tags("train") == ["v3"]
    assert names["build_and_push_docker_image"] is build_and_push_docker_image


def test_every_option_the_page_names_exists() -> None:
    named = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", PAGE)) - {"--mount"}
    known = {name for command in (build, push) for each in command.params for name in each.opts}
    assert named <= known
    assert {"--push", "--write"} <= named


def test_help_names_the_exit_codes() -> None:
    for command in ("build", "push"):
        assert "3 no Docker engine" in " ".join(slipway(command, "--help").output.split())

"""CONTRIBUTING.md: the files and the names that it names exist, and its commands do what it says."""

import re
import shlex
import subprocess
import sys
from typing import Final

import pytest

from tests.places import ROOT
from tests.stages import Stage
from tests.waiting import ANSWER_SECONDS

TEXT: Final = (ROOT / "CONTRIBUTING.md").read_text()
CODE: Final = sorted(set(re.findall(r"`([^`\n]+)`", TEXT)))
FILES: Final = [word for word in CODE if re.fullmatch(r"[\w./]+\.(py|md|json)", word)]
NAMES: Final = [word for word in CODE if re.fullmatch(r"_?[A-Z][A-Za-z_]*(\.[A-Za-z_]+)?(\(\))?", word)]
COMMANDS: Final = [
    line.partition("#")[0].strip()
    for block in re.findall(r"^```sh\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)
    for line in block.splitlines()
]
FOLDERS: Final = (
    "",
    "operator/slipway",
    "operator/slipway/core",
    "tests/simulation",
    "tests/core/explain",
    "tests/controlplane",
)
"""Where a list of files goes on without their folder."""


@pytest.mark.parametrize("file", FILES)
def test_its_files_are_there(file: str) -> None:
    assert "NAME" in file or any((ROOT / folder / file).exists() for folder in FOLDERS)


def test_its_names_are_those_of_the_code() -> None:
    code = "\n".join(path.read_text() for top in ("operator", "tests") for path in (ROOT / top).rglob("*.py"))
    last = {name: name.removesuffix("()").rpartition(".")[2] for name in NAMES}
    assert [name for name, word in last.items() if not re.search(rf"\b{word}\b", code)] == []


def test_its_targets_and_stages_exist() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert set(re.findall(r"(?:`|^)make ([a-z-]+)", TEXT, re.MULTILINE)) <= targets
    assert set(re.findall(r"(?:--part |PART=|stage\(\")([a-z-]+)", TEXT)) <= set(Stage)


@pytest.mark.parametrize("command", [one for one in COMMANDS if "tests.simulation" in one])
def test_a_history_is_told(command: str) -> None:
    done = subprocess.run(
        [sys.executable, *shlex.split(command)[1:]], cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_SECONDS
    )
    assert done.returncode == 0, done.stdout
    assert "=== seed 840: no invariant broke" in done.stdout


@pytest.mark.parametrize("command", [one for one in COMMANDS if "-m pytest" in one])
def test_the_tests_that_it_runs_are_found(command: str) -> None:
    chosen = [sys.executable, *shlex.split(command)[1:], "--collect-only", "-q"]
    done = subprocess.run(chosen, cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_SECONDS)
    assert done.returncode == 0, done.stdout

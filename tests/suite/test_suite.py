"""No test is forgotten: each is in one stage, and so in one part of `make test-all`, and most are in the gate."""

import json
import os
import subprocess
import sys
from collections import Counter
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from tests import quarantine
from tests.docs.test_fault_rows import NOT_BUILT_YET, ROWS
from tests.places import ROOT
from tests.simulation.test_mutations import BREAKAGES
from tests.stages import PHASES, Stage
from tests.waiting import ANSWER_SECONDS

Collected = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def collected(tmp_path_factory: pytest.TempPathFactory) -> Collected:
    """Every test by its id."""
    found = tmp_path_factory.mktemp("suite") / "collected.json"
    command = [sys.executable, "-m", "pytest", "-p", "tests.suite.collected", "--collect-only", "-q"]
    subprocess.run(
        command, cwd=ROOT, env=os.environ | {"COLLECTED": str(found)}, capture_output=True, timeout=2 * ANSWER_SECONDS
    )
    tests: Collected = json.loads(found.read_text())
    return tests


def test_each_stage_is_run_by_one_process() -> None:
    run = Counter(stage for processes in PHASES for stages in processes for stage in stages)
    assert run == Counter(Stage)


def test_every_file_with_tests_is_collected(collected: Collected) -> None:
    files = {str(path.relative_to(ROOT)) for path in (ROOT / "tests").rglob("test_*.py")}
    assert files == {name.split("::")[0] for name in collected}


def test_every_test_is_in_a_stage_and_every_stage_has_tests_of_the_gate(collected: Collected) -> None:
    assert {one["stage"] for one in collected.values()} == set(Stage)
    assert {one["stage"] for one in collected.values() if one["gate"]} == set(Stage)


def test_every_row_and_every_broken_rule_has_a_test(collected: Collected) -> None:
    assert ROWS - NOT_BUILT_YET.keys() <= {row for one in collected.values() for row in one["rows"]}
    rules = {" on ".join((one[0].__name__, *one[2])) for one in BREAKAGES}
    names = {name.partition("[")[2].rstrip("]") for name in collected if "mutations.py::test_a_broken_rule" in name}
    assert names == rules


def test_few_tests_are_in_quarantine(collected: Collected) -> None:
    days = {name: date.fromisoformat(day) for name, one in collected.items() for day in one["quarantine"]}
    assert len(days) <= quarantine.MOST, days


class Marked:
    """A test with a mark."""

    def __init__(self, began: date | None) -> None:
        self._began = began

    def get_closest_marker(self, name: str) -> Any:
        return self._began and pytest.mark.quarantine(self._began.isoformat()).mark


TODAY = date(2026, 11, 29)
HELD = {
    "not in quarantine": (None, False),
    "since today": (TODAY, True),
    "in its last day": (TODAY - timedelta(days=quarantine.DAYS - 1), True),
    "over": (TODAY - timedelta(days=quarantine.DAYS), False),
    "in days to come": (TODAY + timedelta(days=1), False),
}


@pytest.mark.parametrize(("began", "held"), HELD.values(), ids=HELD)
def test_quarantine_ends_after_two_weeks(began: date | None, held: bool) -> None:
    item: Any = Marked(began)
    assert quarantine.holds(item, TODAY) == held


FAILING = """
import pytest

@pytest.mark.quarantine("{day}")
def test_by_chance():
    raise AssertionError("by chance")
"""


@pytest.mark.parametrize(("age", "code"), [(0, 0), (quarantine.DAYS, 1)], ids=["in quarantine", "over"])
def test_a_failure_in_quarantine_is_reported_and_refuses_nothing(tmp_path: Path, age: int, code: int) -> None:
    day = datetime.now(UTC).date() - timedelta(days=age)
    file, record = tmp_path / "test_chance.py", tmp_path / "record.jsonl"
    file.write_text(FAILING.format(day=day))
    command = [sys.executable, "-m", "pytest", "-q", "-c", "pyproject.toml", "-p", "tests.conftest"]
    done = subprocess.run(
        [*command, f"--record={record}", str(file)], cwd=ROOT, capture_output=True, text=True, timeout=ANSWER_SECONDS
    )
    assert done.returncode == code, done.stdout
    outcomes = [json.loads(line).get("outcome") for line in record.read_text().splitlines()]
    assert ("quarantined" in outcomes, "failed" in outcomes) == (not code, bool(code))

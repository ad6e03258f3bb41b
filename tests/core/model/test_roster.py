"""Which run a pod belongs to."""

import ast

import pytest

from slipway.core.model.pods import Pod
from slipway.core.model.roster import NOT_BEGUN, Roster, Run, run_of
from tests.controller.things import pod
from tests.places import ROOT

PACKAGE = ROOT / "operator/slipway"
RUNS = Roster(2)
ENDED = Roster(2, ended=True)


def of(attempt: int) -> Pod:
    return pod(f"train-{attempt}-0-0")


CASES = {
    "no attempt": (NOT_BEGUN, 0, (False, False, False, False)),
    "the present run": (RUNS, 2, (True, False, False, False)),
    "the run before": (RUNS, 1, (False, True, True, False)),
    "the run before that": (RUNS, 0, (False, True, True, True)),
    "a run that an operator began which knows more": (RUNS, 3, (False, False, False, False)),
    "the present run, which has ended": (ENDED, 2, (True, False, True, False)),
    "the run before one that has ended": (ENDED, 1, (False, True, True, True)),
}


@pytest.mark.parametrize(("roster", "attempt", "expected"), CASES.values(), ids=CASES)
def test_a_pod_is_of_the_present_run_of_an_earlier_one_or_of_neither(
    roster: Roster, attempt: int, expected: tuple[bool, ...]
) -> None:
    one = of(attempt)
    answers = (roster.is_current, roster.is_earlier, roster.is_over, roster.is_outlived)
    assert tuple(asked(one) for asked in answers) == expected
    assert list(roster.current([one])) == [one] * expected[0]
    assert run_of(one) == Run("job", attempt)


def test_a_copy_without_an_attempt_is_of_no_run() -> None:
    copy = pod("copy-none-0-0")
    assert copy.attempt == -1
    assert not RUNS.is_over(copy)
    assert not NOT_BEGUN.is_over(copy)


def compared(tree: ast.AST) -> list[int]:
    """The lines on which the attempt of a pod is compared."""
    compares = [node for node in ast.walk(tree) if isinstance(node, ast.Compare)]
    return [
        node.lineno
        for node in compares
        for part in ast.walk(node)
        if isinstance(part, ast.Attribute) and part.attr == "attempt" and ast.unparse(part.value).endswith("pod")
    ]


def test_nothing_else_compares_the_attempts_of_pods() -> None:
    found = {
        str(path.relative_to(PACKAGE)): lines
        for path in PACKAGE.rglob("*.py")
        if (lines := compared(ast.parse(path.read_text())))
    }
    assert list(found) == ["core/model/roster.py"]


def test_the_look_for_comparisons_finds_them() -> None:
    assert compared(ast.parse("pod.attempt == 1\nlost.pod.attempt < 2\njob.attempt == 3")) == [1, 2]

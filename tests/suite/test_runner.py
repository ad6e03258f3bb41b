"""What a run of the tests says of the outcomes that processes of pytest have written."""

import json
from collections.abc import Iterator

import pytest

from tests.__main__ import NO_TESTS, RACES, Results, may_be_races


def lines(chosen: int, **outcomes: str) -> Iterator[str]:
    """Of a process that was to run so many tests."""
    yield json.dumps({"chosen": chosen, "left_out": 0})
    for test, outcome in outcomes.items():
        yield json.dumps({"test": test, "outcome": "passed", "seconds": 0.1})
        yield json.dumps({"test": test, "outcome": outcome, "seconds": 1.0})


def failing(count: int) -> dict[str, str]:
    return {f"t{number}": "failed" for number in range(count)}


ENDS: dict[str, tuple[list[str], int, bool, list[str]]] = {
    "all passed": ([*lines(2, a="passed", b="passed")], 0, False, []),
    "a test was skipped": ([*lines(2, a="passed", b="skipped")], 0, False, []),
    "a test in quarantine failed": ([*lines(2, a="passed", b="quarantined")], 0, False, []),
    "one failed": ([*lines(2, a="passed", b="failed")], 1, True, ["b"]),
    "as many failed as races may": ([*lines(RACES, **failing(RACES))], 1, True, [*failing(RACES)]),
    "more failed": ([*lines(RACES + 1, **failing(RACES + 1))], 1, True, []),
    "pytest says 1, and no test has failed": ([*lines(1, a="passed")], 1, True, []),
    "it ended before its last test": ([*lines(2, a="passed")], 0, True, []),
    "a test failed, and it ended before its last one": ([*lines(3, a="passed", b="failed")], 1, True, []),
    "nothing could be collected": ([], 2, True, []),
    "an error of pytest's own": ([*lines(2, a="passed", b="failed")], 3, True, []),
    "a signal": ([*lines(2, a="passed", b="failed")], -9, True, []),
    "nothing was chosen": ([*lines(0)], NO_TESTS, True, []),
    "something was chosen, and pytest says that nothing was": ([*lines(1)], NO_TESTS, True, []),
}
"""What a process has written, how it ended, whether the run is red, and which tests run once more."""


@pytest.mark.parametrize(("written", "code", "red", "again"), ENDS.values(), ids=ENDS)
def test_a_run_is_red_unless_all_that_was_chosen_ran_and_none_failed(
    written: list[str], code: int, red: bool, again: list[str]
) -> None:
    results = Results()
    results.add("nodes", written, code)
    assert (results.are_red, may_be_races(results)) == (red, again)


def test_a_process_with_nothing_to_run_leaves_the_others_green() -> None:
    results = Results()
    results.add("nodes", lines(0), NO_TESTS)
    results.add("engines", lines(1, a="passed"), 0)
    assert not results.are_red


def test_what_only_computes_is_never_run_again() -> None:
    results = Results()
    results.add("pure", lines(1, a="failed"), 1)
    results.add("nodes", lines(1, b="failed"), 1)
    assert may_be_races(results) == []


AGAIN: dict[str, tuple[dict[str, str], int, bool]] = {
    "it passes": ({"a": "passed"}, 0, False),
    "it fails again": ({"a": "failed"}, 1, True),
    "it is skipped": ({"a": "skipped"}, 0, True),
    "another runs": ({"b": "passed"}, 0, True),
    "none runs": ({}, NO_TESTS, True),
}


@pytest.mark.parametrize(("outcomes", "code", "red"), AGAIN.values(), ids=AGAIN)
def test_a_failure_is_a_race_if_the_test_passes_alone(outcomes: dict[str, str], code: int, red: bool) -> None:
    results, alone = Results(), Results()
    results.add("nodes", lines(1, a="failed"), 1)
    alone.add("alone", lines(len(outcomes), **outcomes), code)
    results.forgive(["a"], alone)
    assert results.are_red == red
    assert results.of("race") == ([] if red else ["a"])

"""Random histories of faults, each judged by an oracle that knows what was done to it."""

import re

import pytest

from slipway.core.planner.lifecycle import fencing
from tests.simulation.__main__ import main
from tests.simulation.grounds import QUEUES
from tests.simulation.run import run_some, told

FIRST_SEED = 100_000
IN_QUEUES = 10
"""Of a hundred histories those of jobs in queues of Kueue: each takes seven times as long as another."""
HUNDREDS = [*range(3), *(pytest.param(number, marks=pytest.mark.thorough) for number in range(3, 15))]


@pytest.mark.parametrize("hundred", HUNDREDS)
def test_no_history_breaks_an_invariant(hundred: int) -> None:
    first = FIRST_SEED + 100 * hundred
    failures = run_some(range(first, first + 100))
    first = FIRST_SEED + IN_QUEUES * hundred
    failures += run_some(range(first, first + IN_QUEUES), only=(QUEUES,))
    assert [f"seed {one.seed}: {one.message}" for one in failures] == []


def test_a_machine_may_have_been_in_trouble_before_its_kubelet_removed_a_pod_whose_end_it_had_not_seen() -> None:
    """A spot notice came two seconds later, by clocks of which one may be five seconds behind the other."""
    assert told(2400010250)[0] == ""


def test_a_new_leader_waits_for_pods_of_an_earlier_job_that_its_watch_has_not_shown() -> None:
    assert told(9100071320)[0] == ""


def test_a_job_whose_queue_cannot_be_told_of_its_end_may_outlive_its_time_to_live() -> None:
    """Kueue was away for a minute and a half, and the next try came a minute later."""
    assert told(10700246774)[0] == ""


def test_a_seed_tells_the_same_history_again() -> None:
    for seed in range(1, 20):
        broken, lines = told(seed)
        assert not broken
        assert (broken, lines) == told(seed)
        assert len(lines) > 5


def test_the_command_says_how_fast_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--count", "20", "--seed", "1"]) == 0
    assert re.match(r"20 histories in [0-9.]+ s, \d+ a second; 0 broke an invariant", capsys.readouterr().out)


def test_the_command_fails_with_the_history_of_a_broken_rule(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fencing, "clear_to_start", lambda draft: True)
    assert main(["--count", "200", "--seed", "1", "--show", "1"]) == 1
    printed = capsys.readouterr().out
    seed = re.search(r"=== seed (\d+): ", printed)
    assert seed is not None
    assert main(["--seed", seed[1], "--trace"]) == 1
    history = printed[: printed.index("\n=== ", 5)]
    assert history in capsys.readouterr().out

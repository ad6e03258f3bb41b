"""Random histories of faults, each judged by an oracle that knows what was done to it."""

import logging

from tests.simulation.history import History
from tests.simulation.run import prepared, run_many

FIRST_SEED = 1
SECONDS = 170.0
LEAST = 1000


def test_no_history_breaks_an_invariant() -> None:
    done, failures = run_many(FIRST_SEED, 1_000_000, jobs=2, stop_after=SECONDS)
    logging.getLogger(__name__).info("%d histories", done)
    assert [f"seed {one.seed}: {one.message}" for one in failures] == []
    assert done >= LEAST


def test_a_seed_tells_the_same_history_again() -> None:
    def told(seed: int) -> list[str]:
        with prepared():
            history = History(seed, tracing=True)
            history.run()
        return history.lines

    for seed in range(1, 20):
        assert told(seed) == told(seed)

"""No two processes ever write, whatever times each of them has, and whatever becomes of the Lease."""

from collections.abc import Callable

import pytest

from slipway.controller.lease import Lease, _Record
from tests.simulation.leases import History, TwoLead

Breakage = Callable[[pytest.MonkeyPatch], None]
HISTORIES = 150


def test_no_process_leads_while_the_one_before_may_write() -> None:
    histories = [History(seed).run() for seed in range(HISTORIES)]
    # The histories are worth something: leadership passes on again and again.
    assert sum(len(one.leaders) for one in histories) > 5 * HISTORIES


def own_duration_for_a_deleted_lease(patch: pytest.MonkeyPatch) -> None:
    """A standby waits for as long as its own Lease would last."""
    deleted = Lease._deleted_holder

    def broken(self: Lease) -> str | None:
        self._others_duration = self.times.duration
        return deleted(self)

    patch.setattr(Lease, "_deleted_holder", broken)


def own_duration_for_the_lease_of_another(patch: pytest.MonkeyPatch) -> None:
    """A standby does not read how long the Lease lasts."""
    other = Lease._other_holder

    def broken(self: Lease, record: _Record) -> str | None:
        record.spec.lease_duration_seconds = None
        return other(self, record)

    patch.setattr(Lease, "_other_holder", broken)


def no_time_between_deadline_and_end(patch: pytest.MonkeyPatch) -> None:
    """A leader writes until the Lease ends, as long as nobody else has it."""
    patch.setattr(
        Lease, "_left", lambda self: self._renewed + self.times.duration - self._clock() if self._renewed else 0
    )


def a_deleted_lease_is_free(patch: pytest.MonkeyPatch) -> None:
    """A standby takes a Lease that somebody has deleted at once."""
    patch.setattr(Lease, "_deleted_holder", lambda self: None)


BREAKAGES: dict[Breakage, int] = {
    own_duration_for_a_deleted_lease: 21,
    own_duration_for_the_lease_of_another: 2,
    no_time_between_deadline_and_end: 143,
    a_deleted_lease_is_free: 1,
}
"""Each with a seed near one that catches it."""
MOST_SEEDS = 500


def two_lead(seed: int) -> bool:
    try:
        History(seed).run()
    except TwoLead:
        return True
    return False


@pytest.mark.parametrize(("breakage", "first"), BREAKAGES.items(), ids=[one.__name__ for one in BREAKAGES])
def test_a_broken_rule_is_caught(breakage: Breakage, first: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        breakage(patch)
        caught = next(seed for seed in range(first, first + MOST_SEEDS) if two_lead(seed))
    assert not two_lead(caught)

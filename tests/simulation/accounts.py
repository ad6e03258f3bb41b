"""What the ledger in a status has to add up to: the time of the job, and the chips that its pods really held."""

from collections.abc import Collection, Iterable
from datetime import datetime

from slipway.api.status import SliceJobStatus
from slipway.core.accounting.ledger import Sums, account_at, sums
from slipway.core.accounting.spans import LOST
from tests.simulation.timeline import second_of
from tests.simulation.truth import Held, require

ROUNDING = 0.01
"""Each sum is rounded to milliseconds."""
BLUR = 8.0
"""Seconds by which the ledger may be wrong about either end of what one pod held.

Kubernetes dates the binding of a pod and the end of a container to the second, on clocks of its own. And a plan is made
from what the watch has shown: up to 5 s behind in bad weather, and the write takes its time.
"""


def check_time(created: datetime, old: SliceJobStatus, new: SliceJobStatus, now: datetime, slack: float) -> None:
    """The seconds of all states are the time of the job, no sum ever shrinks, and time is lost to what was charged.

    Raises:
        Violation: when they are not.
    """
    ledger = new.ledger
    require(ledger is not None, "a status was written without a ledger")
    assert ledger is not None
    found = sums(ledger.seconds)
    passed = (ledger.until - created).total_seconds()
    require(abs(sum(found.values()) - passed) < ROUNDING, f"the ledger has {found}, and {passed} s have passed")
    if old.ledger is not None:
        require(ledger.until >= old.ledger.until, f"the ledger ends at {ledger.until}, and ended at {old.ledger.until}")
        _not_less(sums(old.ledger.seconds), found)
        _not_less(sums(old.ledger.chip_seconds), sums(ledger.chip_seconds))
    if new.completion_time is not None:
        late = (ledger.until - new.completion_time).total_seconds()
        require(0 <= late <= slack, f"the ledger ends {late} s after the job")
    whole = sum(sums(account_at(created, new, now).seconds).values())
    age = (max(new.completion_time or now, ledger.until) - created).total_seconds()
    require(abs(whole - age) < ROUNDING, f"the account of {age} s adds up to {whole} s")
    charged = {cause for cause in LOST if any(one.cause is cause for one in new.attempts)}
    if new.attempts and new.attempts[-1].number == 0:
        blamed = {cause for cause, state in LOST.items() if any(one[0] == state[0] for one in found)}
        require(blamed <= charged, f"time is lost to {sorted(blamed)}, and {sorted(charged)} were charged")


def check_chips(
    created: datetime, old: SliceJobStatus, new: SliceJobStatus, held: Iterable[Held], unseen: Collection[str]
) -> None:
    """The chip seconds that were added are those that pods held meanwhile; `unseen` are UIDs of pods.

    `unseen` are also those whose end the API does not date. What the process has not seen of a pod it can only
    estimate: such a pod held its chips for any part of its life. So did one that ended without ever having started a
    container: nothing in the API dates its end.

    Raises:
        Violation: when they are not.
    """
    assert new.ledger is not None
    begin = second_of(old.ledger.until if old.ledger is not None else created)
    end = second_of(new.ledger.until)
    each = new.resolved.chips_per_host if new.resolved is not None else 0
    ends = {one.number: second_of(one.end_time) for one in new.attempts if one.end_time is not None}
    low = high = 0.0
    for one in held:
        known_end = one.until if one.until is not None else end
        estimated = one.uid in unseen or (one.until is not None and one.stopped is None)
        latest = end if estimated else max(known_end, ends.get(one.attempt, 0.0))
        high += _within(begin, end, one.since - BLUR, latest + BLUR)
        if not estimated:
            low += _within(begin, end, one.since + BLUR, min(known_end, one.stopped or end) - BLUR)
    added = _total(sums(new.ledger.chip_seconds)) - _total(sums(old.ledger.chip_seconds if old.ledger else None))
    require(
        low * each - ROUNDING <= added <= high * each + ROUNDING,
        f"{added} chip seconds are added from {begin} to {end}; pods held {low * each} to {high * each}",
    )


def _not_less(before: Sums, after: Sums) -> None:
    shrunk = {state for state, total in before.items() if after.get(state, 0.0) < total}
    require(not shrunk, f"the ledger had {before}, and has {after}")


def _total(found: Sums) -> float:
    return sum(found.values())


def _within(begin: float, end: float, since: float, until: float) -> float:
    return max(0.0, min(end, until) - max(begin, since))

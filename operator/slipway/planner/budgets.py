"""What an ended attempt costs, whether the job may try again, and when."""

from datetime import datetime, timedelta
from typing import Final

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, Cause, Phase, Result, SliceJobStatus
from slipway.planner.causes import BY_REASON

INFRASTRUCTURE_DELAYS: Final = (10, 20, 40, 80, 160, 300)
"""Seconds before each new try on a repaired host that refuses pods; repairs take ten minutes, so six tries do."""

UNCHARGED_DELAY: Final = 10
"""Seconds after an attempt whose end nothing is charged for: without a budget only time bounds the restarts."""

CAPACITY_RELEASED: Final = "CapacityReleased"
"""An attempt that let go of slices it could not use, for the sake of an older job."""

POOL_TAKEN: Final = "NodePoolTaken"
"""An attempt with a slice that was pinned to a node pool in which somebody else was, or which lost a node."""

FEWER_SLICES: Final = "FewerSlices"
"""An attempt that ended because another acceptable number of slices fits."""

NO_USE: Final = (CAPACITY_RELEASED, POOL_TAKEN, FEWER_SLICES)
"""Reasons of attempts that ended because their slices were not to be had."""

_NAMES: Final = {
    Cause.FAILURE: "failed",
    Cause.PREEMPTION: "preempted",
    Cause.INFRASTRUCTURE: "lost to infrastructure",
    Cause.UNCHARGED: "ended uncharged",
}


def charged(status: SliceJobStatus, cause: Cause) -> SliceJobStatus:
    """The status with one more attempt charged to the cause's budget."""
    update = {
        Cause.FAILURE: {"failures": status.failures + 1},
        Cause.PREEMPTION: {"preemptions": status.preemptions + 1},
        Cause.INFRASTRUCTURE: {
            "preemptions": status.preemptions + 1,
            "infrastructure_failures": status.infrastructure_failures + 1,
        },
        Cause.UNCHARGED: {"uncharged": status.uncharged + 1},
    }[cause]
    return status.model_copy(update=update)


def limits(spec: SliceJobSpec) -> tuple[int, int]:
    """Charged failures and preemptions that end the job; 0 reads as 1, and no retries means 1."""
    if not spec.retries.enabled:
        return 1, 1
    return max(1, spec.retries.max_failures), max(1, spec.retries.max_preemptions)


def count_of(status: SliceJobStatus, cause: Cause, spec: SliceJobSpec) -> str:
    """How much of the cause's budget is used, as `n of max`."""
    failures, preemptions = limits(spec)
    if cause is Cause.FAILURE:
        return f"failure {status.failures} of {failures}"
    if cause is Cause.UNCHARGED:
        return "not charged"
    return f"preemption {status.preemptions} of {preemptions}"


def verdict(status: SliceJobStatus, spec: SliceJobSpec) -> tuple[Phase, Result] | None:
    """The final phase the last charged attempt leads to, or None when the job may try again."""
    last = status.attempts[0]
    rule = BY_REASON.get(last.reason or "")
    max_failures, max_preemptions = limits(spec)
    if status.preemptions >= max_preemptions:
        budget = _spent("maxPreemptions", max_preemptions, status, (Cause.PREEMPTION, Cause.INFRASTRUCTURE), spec)
        return Phase.PREEMPTED, _result("PreemptionLimitExceeded", budget, last)
    if status.failures >= max_failures:
        budget = _spent("maxFailures", max_failures, status, (Cause.FAILURE,), spec)
        return Phase.FAILED, _result("FailureLimitExceeded", budget, last)
    if rule is not None and rule.final:
        return Phase.FAILED, _result(rule.reason, f"attempt {last.number} ended the job", last)
    return None


def _result(reason: str, budget: str, last: Attempt) -> Result:
    code = last.root.exit_code if last.root else None
    return Result(reason=reason, message=f"{budget}; last cause: {last.message}", exit_code=code)


def _spent(name: str, limit: int, status: SliceJobStatus, causes: tuple[Cause, ...], spec: SliceJobSpec) -> str:
    numbers = sorted(attempt.number for attempt in status.attempts if attempt.cause in causes)
    total = status.failures if Cause.FAILURE in causes else status.preemptions
    named = ", ".join(str(number) for number in numbers)
    earlier = f" and {total - len(numbers)} before them" if total > len(numbers) else ""
    plural = "attempt" if total == 1 else "attempts"
    if not spec.retries.enabled:
        return f"{plural} {named} {_NAMES[causes[0]]} and retries are disabled"
    return f"retries.{name} {limit} used up by {plural} {named}{earlier}"


def next_try(status: SliceJobStatus, spec: SliceJobSpec) -> datetime | None:
    """When the next attempt may begin; None for at once."""
    if not status.attempts or status.attempts[0].end_time is None:
        return None
    last, ended = status.attempts[0], status.attempts[0].end_time
    if last.reason == CAPACITY_RELEASED and ended is not None:
        return ended + timedelta(seconds=spec.retries.capacity_retry_seconds)
    seconds = _delay(last.cause, last.reason, _in_a_row(status), spec)
    return ended + timedelta(seconds=seconds) if seconds and ended else None


def _delay(cause: Cause | None, reason: str | None, in_a_row: int, spec: SliceJobSpec) -> int:
    if cause is Cause.INFRASTRUCTURE:
        return INFRASTRUCTURE_DELAYS[min(in_a_row, len(INFRASTRUCTURE_DELAYS)) - 1]
    if cause is Cause.UNCHARGED:
        return UNCHARGED_DELAY if reason in BY_REASON else 0
    if cause is Cause.FAILURE:
        backoff = spec.retries.backoff
        return min(backoff.max_seconds, backoff.initial_seconds << min(in_a_row - 1, 20))
    return 0


def _in_a_row(status: SliceJobStatus) -> int:
    """How many of the newest attempts ended for the same cause, those that never came to run left aside."""
    cause = status.attempts[0].cause
    count = 0
    for attempt in status.attempts:
        if attempt.reason in NO_USE:
            continue
        if attempt.cause is not cause:
            break
        count += 1
    return count

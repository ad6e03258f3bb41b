"""Which budget an ended attempt is charged to, whether another attempt may begin, and when."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, Cause, Phase, Result, SliceJobStatus
from slipway.planner.endings import Delay, ending_of, tries

INFRASTRUCTURE_DELAYS: Final = (10, 20, 40, 80, 160, 300)
"""Seconds before each next attempt after an infrastructure end. A repair takes ten minutes, which six attempts span."""

UNSTARTED_DELAYS: Final = (0, 10, 20, 40, 80, 160, 300)
"""Seconds before each next attempt after attempts in a row that were preempted before every host ran.

Without a delay, a controller that deletes new pods at once would cost an attempt each second.
"""

PAUSE_SECONDS: Final = 10
"""Seconds after an uncharged end. No budget limits such attempts, so a delay has to."""

HELD_SECONDS: Final = 30
LONGEST_HELD_SECONDS: Final = 600
"""The first and the longest pause after pods that had nodes waited for an image or for objects in vain."""

LONGEST_HOLD: Final = 6
"""How often the time is doubled for which a job holds what it cannot use, and stands back, each time it is in vain."""

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
    if cause is Cause.UNCHARGED or not cause.known:
        return "not charged"
    return f"preemption {status.preemptions} of {preemptions}"


def verdict(status: SliceJobStatus, spec: SliceJobSpec) -> tuple[Phase, Result] | None:
    """The final phase after the last charged attempt, or None when another attempt may begin."""
    last = status.attempts[0]
    max_failures, max_preemptions = limits(spec)
    if status.preemptions >= max_preemptions:
        budget = _spent("maxPreemptions", max_preemptions, status, (Cause.PREEMPTION, Cause.INFRASTRUCTURE), spec)
        return Phase.PREEMPTED, _result("PreemptionLimitExceeded", budget, last)
    if status.failures >= max_failures:
        budget = _spent("maxFailures", max_failures, status, (Cause.FAILURE,), spec)
        return Phase.FAILED, _result("FailureLimitExceeded", budget, last)
    most = spec.retries.max_start_failures
    if ending_of(last).never_started and _in_a_row(tries(status.attempts), _could_not_start) >= most:
        budget = f"retries.maxStartFailures {most} used up by attempts in a row that could not start"
        return Phase.FAILED, _result("StartFailureLimitExceeded", budget, last)
    if ending_of(last).final:
        return Phase.FAILED, _result(last.reason or "", f"attempt {last.number} ended the job", last)
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


def next_try(status: SliceJobStatus, spec: SliceJobSpec, *, contested: bool = False) -> datetime | None:
    """When the next attempt may begin; None when there is no delay.

    While an older job waits for the same (`contested`), a job that released its nodes stands back twice as long each
    time. Otherwise a third job, whose pods are Pending, would take them each time instead of the older one.
    """
    last = status.attempts[0] if status.attempts else None
    if last is None or last.end_time is None:
        return None
    seconds = _delay(last, tries(status.attempts), spec)
    if contested and ending_of(last).delay is Delay.CAPACITY:
        seconds = max(seconds, spec.retries.capacity_retry_seconds << releases(status))
    if ending_of(last).held:
        seconds = min(LONGEST_HELD_SECONDS, seconds << (releases(status) - 1))
    return last.end_time + timedelta(seconds=seconds) if seconds else None


def releases(status: SliceJobStatus) -> int:
    """How often the job has released what it held since its last attempt that ran, or since its beginning."""
    ran = next((one.number for one in tries(status.attempts[1:])), -1)
    released = (status.attempt or 0) - ran
    return min(released if status.attempt_ended else released - 1, LONGEST_HOLD)


def _delay(last: Attempt, recent: list[Attempt], spec: SliceJobSpec) -> int:
    match ending_of(last).delay:
        case Delay.BACKOFF:
            backoff = spec.retries.backoff
            in_a_row = _in_a_row(recent, lambda one: one.cause is Cause.FAILURE)
            return min(backoff.max_seconds, backoff.initial_seconds << min(in_a_row - 1, 20))
        case Delay.STARTED:
            return _nth(UNSTARTED_DELAYS, _in_a_row(recent, _preempted_before_it_ran))
        case Delay.REPAIR:
            return _nth(INFRASTRUCTURE_DELAYS, _in_a_row(recent, lambda one: one.cause is Cause.INFRASTRUCTURE))
        case Delay.PAUSE:
            return PAUSE_SECONDS
        case Delay.HELD:
            return HELD_SECONDS
        case Delay.CAPACITY:
            # The older job looks for quota once in this time, and must find it free.
            return 2 * spec.retries.capacity_retry_seconds
        case Delay.NONE:
            return 0


def _could_not_start(attempt: Attempt) -> bool:
    return ending_of(attempt).never_started


def _preempted_before_it_ran(attempt: Attempt) -> bool:
    return attempt.cause is Cause.PREEMPTION and attempt.running_time is None


def _nth(delays: tuple[int, ...], in_a_row: int) -> int:
    return delays[min(in_a_row, len(delays)) - 1]


def _in_a_row(recent: list[Attempt], alike: Callable[[Attempt], bool]) -> int:
    """How many of the newest attempts are alike, the last one at least."""
    return max(1, sum(1 for _ in takewhile(alike, recent)))

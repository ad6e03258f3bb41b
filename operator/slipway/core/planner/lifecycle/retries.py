"""Which budget an ended attempt is charged to, whether another attempt may begin, and when."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import takewhile
from typing import Final

from pydantic.alias_generators import to_camel

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, Cause, Phase, Result, SliceJobStatus
from slipway.core.vocabulary.charges import BUDGETS, Budget, Charge, charge_of
from slipway.core.vocabulary.endings import Delay, ending_of, tries

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

MOST_DOUBLINGS: Final = 6
"""Cap on doublings: each release in vain doubles how long the job keeps partial capacity, and how long it waits."""


def charged(status: SliceJobStatus, cause: Cause) -> SliceJobStatus:
    """The status with one more attempt charged to the cause's budget."""
    return status.model_copy(update={count: getattr(status, count) + 1 for count in charge_of(cause).counts})


def limit_of(budget: Budget, spec: SliceJobSpec) -> int:
    """How many charged attempts end the job; 0 reads as 1, and no retries means 1."""
    return max(1, getattr(spec.retries, budget.limit)) if spec.retries.enabled else 1


def _used(budget: Budget, status: SliceJobStatus) -> int:
    return int(getattr(status, budget.used))


def count_of(status: SliceJobStatus, charge: Charge, spec: SliceJobSpec) -> str:
    """How much of the budget is used, as `n of max`."""
    budget = charge.budget
    return f"{budget.noun} {_used(budget, status)} of {limit_of(budget, spec)}" if budget is not None else "not charged"


def verdict(status: SliceJobStatus, spec: SliceJobSpec) -> tuple[Phase, Result] | None:
    """The final phase after the last charged attempt, or None when another attempt may begin."""
    last = status.attempts[0]
    for budget in BUDGETS:
        if _used(budget, status) >= limit_of(budget, spec) and _counts(last, budget, spec):
            return budget.phase, _result(budget.reason, _spent(budget, status, spec), last)
    most = spec.retries.max_start_failures
    if ending_of(last).never_started and _in_a_row(tries(status.attempts), _could_not_start) >= most:
        spent = f"retries.maxStartFailures {most} used up by attempts in a row that could not start"
        return Phase.FAILED, _result("StartFailureLimitExceeded", spent, last)
    if ending_of(last).final:
        return Phase.FAILED, _result(last.reason or "", f"attempt {last.number} ended the job", last)
    return None


def _counts(last: Attempt, budget: Budget, spec: SliceJobSpec) -> bool:
    """Whether a budget that is used up ends the job.

    Retries that were disabled when attempts had been charged forbid no attempt for these: only the last one counts.
    """
    return spec.retries.enabled or charge_of(last.cause).budget is budget


def _result(reason: str, spent: str, last: Attempt) -> Result:
    code = last.root.exit_code if last.root else None
    return Result(reason=reason, message=f"{spent}; last cause: {last.message}", exit_code=code)


def _spent(budget: Budget, status: SliceJobStatus, spec: SliceJobSpec) -> str:
    if not spec.retries.enabled:
        return f"attempt {status.attempts[0].number} {budget.verb} and retries are disabled"
    numbers = sorted(attempt.number for attempt in status.attempts if charge_of(attempt.cause).budget is budget)
    total = _used(budget, status)
    named = ", ".join(str(number) for number in numbers)
    earlier = f" and {total - len(numbers)} before them" if total > len(numbers) else ""
    plural = "attempt" if total == 1 else "attempts"
    return f"retries.{to_camel(budget.limit)} {limit_of(budget, spec)} used up by {plural} {named}{earlier}"


def next_try(status: SliceJobStatus, spec: SliceJobSpec, *, contested: bool = False) -> datetime | None:
    """When the next attempt may begin; None when there is no delay.

    While an older job waits for the same (`contested`), a job that released its nodes stands back twice as long each
    time. Otherwise a third job, whose pods are Pending, would take them each time instead of the older one.
    """
    last = status.newest
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
    ran = next((attempt.number for attempt in tries(status.attempts[1:])), -1)
    released = (status.attempt or 0) - ran
    return min(released if status.attempt_ended else released - 1, MOST_DOUBLINGS)


def _delay(last: Attempt, recent: list[Attempt], spec: SliceJobSpec) -> int:
    alike = _in_a_row(recent, lambda attempt: attempt.cause == last.cause)
    match ending_of(last).delay:
        case Delay.BACKOFF:
            backoff = spec.retries.backoff
            return min(backoff.max_seconds, backoff.initial_seconds << min(alike - 1, 20))
        case Delay.STARTED:
            return _nth(UNSTARTED_DELAYS, _in_a_row(recent, lambda attempt: _unstarted(attempt, last.cause)))
        case Delay.REPAIR:
            return _nth(INFRASTRUCTURE_DELAYS, alike)
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


def _unstarted(attempt: Attempt, cause: Cause | None) -> bool:
    return attempt.cause == cause and attempt.running_time is None


def _nth(delays: tuple[int, ...], in_a_row: int) -> int:
    return delays[min(in_a_row, len(delays)) - 1]


def _in_a_row(recent: list[Attempt], alike: Callable[[Attempt], bool]) -> int:
    """How many of the newest attempts are alike, the last one at least."""
    return max(1, sum(1 for _ in takewhile(alike, recent)))

"""What a job's attempts have come to, in numbers: read off two statuses, so that a write whose answer was lost counts.

    measures(before, after)     what has happened between two looks at a status, for counters and histograms
    lost_share, fenced_since    what a status says at a moment, for gauges
    waiting_reason

Durations are differences of dates that the cluster wrote, most of them to the second. One that the clocks of two
machines would make negative is 0.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Final

from slipway.api.ledger import Account, Ledger
from slipway.api.status import Attempt, Cause, ConditionType, Phase, SliceJobStatus
from slipway.core.accounting.ledger import account_at, by_state
from slipway.core.accounting.spans import LOST, RUNNING
from slipway.core.model.pods import Pod
from slipway.core.model.roster import Roster
from slipway.core.vocabulary.charges import CHARGED

SUCCESS: Final = "success"
"""Stands where a cause would for an attempt that succeeded."""
STATES: Final = tuple(Account.model_fields)
"""What a ledger calls the states of a job."""


class TimedStep(StrEnum):
    """A part of an attempt's life that takes time."""

    DETECT = "detect"
    FENCE = "fence"
    CREATE = "create"
    SCHEDULE = "schedule"
    START = "start"
    RECOVERY = "recovery"


@dataclass(frozen=True, slots=True)
class Begun:
    """An attempt has begun."""

    after: Cause | None
    """Why the attempt before it ended; None for the first."""


@dataclass(frozen=True, slots=True)
class Ended:
    """An attempt has ended, and its cause is known."""

    cause: str
    """A Cause, or SUCCESS."""
    reason: str
    """One CamelCase word."""


@dataclass(frozen=True, slots=True)
class Took:
    """A step is over."""

    step: TimedStep
    seconds: float
    cause: Cause | None = None
    """Why the attempt ended that the step is about; None for steps of an attempt that starts."""


@dataclass(frozen=True, slots=True)
class Passed:
    """Time of a job that its ledger accounts for from now on."""

    state: str
    """A field of `Account`."""
    seconds: float
    chip_seconds: float


Measure = Begun | Ended | Took | Passed


def measures(before: SliceJobStatus, after: SliceJobStatus, pods: Iterable[Pod], now: datetime) -> Iterator[Measure]:
    """What has happened between two looks at the status of a job, the oldest attempt first.

    Args:
        before: the status at the last look.
        after: the status now.
        pods: the job's pods; looked at only when an attempt has just begun to run.
        now: the moment of this look, in UTC.
    """
    known = {attempt.number: attempt for attempt in before.attempts}
    last = -1 if before.attempt is None else before.attempt
    following: Attempt | None = None
    found: list[tuple[Measure, ...]] = []
    for index, one in enumerate(after.attempts):
        old = known.get(one.number)
        if old is None and one.number <= last:
            break
        found.append(tuple(_of_attempt(old, index, after, following, pods, now)))
        following = one
    for of_attempt in reversed(found):
        yield from of_attempt
    yield from _of_ledger(before.ledger, after.ledger)


def _of_ledger(before: Ledger | None, after: Ledger | None) -> Iterator[Passed]:
    if after is None or after == before:
        return
    seconds, chips = by_state(after.seconds), by_state(after.chip_seconds)
    if before is not None:
        seconds.subtract(by_state(before.seconds))
        chips.subtract(by_state(before.chip_seconds))
    for state, passed in seconds.items():
        if passed > 0.0:
            yield Passed(state, passed, chips[state])


def _of_attempt(
    old: Attempt | None,
    index: int,
    after: SliceJobStatus,
    following: Attempt | None,
    pods: Iterable[Pod],
    now: datetime,
) -> Iterator[Measure]:
    attempt, earlier = after.attempts[index], after.attempts[index + 1 :]
    if old is None:
        yield Begun(earlier[0].cause if earlier else None)
    if (
        attempt.running_time is not None
        and attempt.running_time != attempt.end_time
        and (old is None or old.running_time is None)
    ):
        yield from _of_start(attempt, attempt.running_time, pods)
        yield from _of_recovery(attempt.running_time, earlier, after)
    outcome = _outcome(attempt, after)
    if attempt.end_time is None or outcome is None or (old is not None and _outcome(old, after) is not None):
        return
    yield Ended(outcome, attempt.reason or "")
    if attempt.cause is None:
        return
    if attempt.root is not None and attempt.root.time is not None:
        yield _took(TimedStep.DETECT, attempt.root.time, attempt.end_time, attempt.cause)
    if old is not None and old.end_time is not None:
        # The attempt is charged, and the next one begins, when no pod of it may still run.
        closed = following.start_time if following is not None else now
        yield _took(TimedStep.FENCE, attempt.end_time, closed, attempt.cause)


def _outcome(attempt: Attempt, status: SliceJobStatus) -> str | None:
    """The cause of an ended attempt, or SUCCESS; None while it runs or is not judged."""
    if attempt.cause is not None:
        return attempt.cause
    newest = attempt.number == status.attempt
    return SUCCESS if newest and attempt.end_time is not None and status.phase is Phase.SUCCEEDED else None


def _of_start(attempt: Attempt, running: datetime, pods: Iterable[Pod]) -> Iterator[Took]:
    """The steps from the beginning of an attempt to its first moment with all hosts running; they add up to that."""
    own = list(Roster.of(attempt).current(pods))
    created = [pod.metadata.creation_timestamp for pod in own]
    bound = [pod.bound_at for pod in own]
    if not own or None in created or None in bound:
        return
    last_created = max(attempt.start_time, *filter(None, created))
    last_bound = max(last_created, *filter(None, bound))
    yield _took(TimedStep.CREATE, attempt.start_time, last_created)
    yield _took(TimedStep.SCHEDULE, last_created, last_bound)
    yield _took(TimedStep.START, last_bound, running)


def _of_recovery(running: datetime, earlier: Iterable[Attempt], status: SliceJobStatus) -> Iterator[Took]:
    """From the loss of the last attempt that ran until all hosts run again; a suspension in between is no recovery."""
    lost = next((attempt for attempt in earlier if attempt.running_time is not None), None)
    if lost is None or lost.end_time is None or lost.cause not in CHARGED:
        return
    suspended = status.condition(ConditionType.SUSPENDED)
    if suspended is None or suspended.last_transition_time <= lost.end_time:
        root = lost.root.time if lost.root is not None else None
        yield _took(TimedStep.RECOVERY, root or lost.end_time, running, lost.cause)


def _took(step: TimedStep, since: datetime, until: datetime, cause: Cause | None = None) -> Took:
    return Took(step, max(0.0, (until - since).total_seconds()), cause)


def lost_share(created: datetime, status: SliceJobStatus, now: datetime) -> float:
    """Which part of a job's time, running or lost with attempts, was lost, 0 to 1."""
    if not status.attempt and not status.attempt_ended:
        return 0.0
    passed = by_state(account_at(created, status, now).seconds)
    lost = sum(passed[state] for state, *_ in LOST.values())
    return lost / (lost + passed[RUNNING[0]]) if lost else 0.0


def fenced_since(status: SliceJobStatus) -> datetime | None:
    """Since when pods of an ended attempt may still run, so that no other begins; None when that is not so."""
    ended = status.newest if status.attempt_ended else None
    cleanup = status.condition(ConditionType.CLEANUP_PENDING)
    overdue = cleanup.last_transition_time if cleanup is not None and cleanup.status == "True" else None
    if ended is not None and (overdue is not None or (ended.cause is None and not status.final)):
        return ended.end_time
    return overdue

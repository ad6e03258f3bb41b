"""The life of a job as spans: stretches of time in one state, one after another, from its creation on.

They follow from the dates of the attempts alone. So whichever version of Slipway wrote the status, the time is
accounted for, and nothing has to be written when a span ends. A date that is missing makes a span coarser, and one
that is out of order, because two clocks wrote them, makes it empty; the spans always cover the whole time.
"""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Final

from slipway.api.status import Attempt, Cause, ConditionType, Phase, SliceJobStatus, suspended_since
from slipway.core.vocabulary.charges import CHARGED
from slipway.core.vocabulary.endings import PREEMPTED_BY_QUEUE, SUSPENDED, Ending, ending_of

State = tuple[str, ...]
"""A field of `Account`, and for lost time a field of `Loss`."""

QUEUED: Final[State] = ("queued",)
WAITING: Final[State] = ("waiting_for_capacity",)
STARTING: Final[State] = ("starting",)
RUNNING: Final[State] = ("running",)
CLEANING_UP: Final[State] = ("cleaning_up",)
SUSPENSION: Final[State] = ("suspended",)
LOST: Final[dict[Cause, State]] = {cause: (f"lost_to_{cause}",) for cause in CHARGED}
WORK: Final[State] = ("work",)
DETECT: Final[State] = ("detect",)
FENCE: Final[State] = ("fence",)
DELAY: Final[State] = ("delay",)
QUEUE: Final[State] = ("queue",)
SCHEDULE: Final[State] = ("schedule",)
START: Final[State] = ("start",)


@dataclass(frozen=True, slots=True)
class Span:
    """A stretch of time in one state."""

    state: State
    begin: datetime
    end: datetime


def spans(created: datetime, status: SliceJobStatus, now: datetime) -> list[Span]:
    """The life of a job until its end, or until `now`; what the newest attempt makes of the last ones may change."""
    life = _Life(status, whole(created), status.completion_time or now)
    for before, attempt in pairwise((None, *reversed(status.attempts))):
        assert attempt is not None
        life.between(before, attempt.start_time, attempt)
        life.attempt(attempt)
    newest = status.newest
    if newest is None or newest.end_time is not None:
        life.rest(newest)
    return life.spans


def whole(moment: datetime) -> datetime:
    """The moment with whole milliseconds, as it is read back from a status."""
    return moment - timedelta(microseconds=moment.microsecond % 1000)


def lost_to(attempt: Attempt) -> State:
    """The cause that time is lost to after an attempt that has ended; empty when it was charged to no budget.

    Until the attempt is charged that is the budget of what ended it.
    """
    return LOST.get(attempt.cause or ending_of(attempt).cause, ())


@dataclass(slots=True)
class _Life:
    status: SliceJobStatus
    cursor: datetime
    """Until when there are spans."""
    end: datetime
    lost: State = ()
    """The cause to which time is lost since the last attempt that ended; empty when there is none."""
    spans: list[Span] = field(default_factory=list)

    def to(self, moment: datetime, state: State) -> None:
        """In that state until then."""
        moment = min(whole(moment), whole(self.end))
        if moment > self.cursor:
            self.spans.append(Span(state, self.cursor, moment))
            self.cursor = moment

    def attempt(self, attempt: Attempt) -> None:
        """From its beginning to its end."""
        waits, queued = (self.lost + SCHEDULE, self.lost + QUEUE) if self.lost else (WAITING, QUEUED)
        ends, lost = attempt.end_time or self.end, lost_to(attempt) if attempt.end_time is not None else ()
        failed = attempt.root.time if lost and attempt.root is not None and attempt.root.time is not None else ends
        failed = min(failed, ends)
        self.to(min(self._admitted(attempt, failed), failed), queued)
        self.to(min(self._scheduled(attempt, failed), failed), waits)
        self.to(min(attempt.running_time or failed, failed), self.lost + START if self.lost else STARTING)
        saved = attempt.checkpoint_time if lost else None
        self.to(min(saved or failed, failed), RUNNING)
        self.to(failed, lost + WORK)
        self.to(ends, lost + DETECT)
        if lost or attempt.running_time is not None or ending_of(attempt).a_try:
            # An attempt that only waited leaves the time lost to what was lost before it.
            self.lost = lost

    def _admitted(self, attempt: Attempt, failed: datetime) -> datetime:
        newest = attempt is self.status.newest and attempt.end_time is None
        queued = newest and self.status.phase is Phase.QUEUED
        return failed if queued else attempt.admitted_time or attempt.start_time

    def _scheduled(self, attempt: Attempt, failed: datetime) -> datetime:
        if attempt.scheduled_time is not None:
            return attempt.scheduled_time
        if attempt.running_time is not None:
            # An older version of Slipway does not write when the pods were bound.
            return attempt.start_time
        placed = self.status.condition(ConditionType.CAPACITY_AVAILABLE)
        known = attempt.end_time is None and placed is not None and placed.status == "True"
        return placed.last_transition_time if known and placed is not None else failed

    def between(self, before: Attempt | None, begins: datetime, wait: Attempt | SliceJobStatus) -> None:
        """From the end of an attempt until the next one begins; before the first one from the creation on.

        `wait` dates the wait in the queue, if there was one.
        """
        ending = ending_of(before)
        if before is not None and self.lost and ending.a_try:
            self.to(min(_fenced(before, wait) or begins, begins), self.lost + FENCE)
        idle = self._idle(before, ending)
        if wait.queued_time is not None:
            self.to(min(wait.queued_time, begins), idle)
            self.to(min(wait.admitted_time or begins, begins), self.lost + QUEUE if self.lost else QUEUED)
        self.to(begins, idle)

    def _idle(self, before: Attempt | None, ending: Ending) -> State:
        """The state of a job that is in no queue, between two attempts."""
        if before is None:
            return STARTING
        if self.lost and ending.a_try:
            return self.lost + DELAY
        if ending is SUSPENDED:
            return SUSPENSION
        if ending.a_try:
            return CLEANING_UP
        if ending.held:
            return self.lost + START if self.lost else STARTING
        return self.lost + SCHEDULE if self.lost else WAITING

    def rest(self, newest: Attempt | None) -> None:
        """From the end of the newest attempt, or from the creation on, while no attempt is under way."""
        suspended = suspended_since(self.status)
        if newest is not None and ending_of(newest) is SUSPENDED:
            self.to(suspended or self.status.queued_time or self.end, CLEANING_UP)
        self.between(newest, suspended or self.end, self.status)
        self.to(self.end, SUSPENSION)


def _fenced(before: Attempt, wait: Attempt | SliceJobStatus) -> datetime | None:
    """When every pod of an attempt that was charged had terminated; None while that is not known.

    An attempt that the queue evicts is charged as it ends; the job waits in its queue when the pods have terminated.
    """
    if ending_of(before) is PREEMPTED_BY_QUEUE and before.charged_time == before.end_time:
        return wait.queued_time
    return before.charged_time

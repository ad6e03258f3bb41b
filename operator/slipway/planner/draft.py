"""The decision while it is being made: what the rules read and what they write to."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, Resolved, SliceJobStatus
from slipway.planner.acceptance import Unacceptable
from slipway.planner.actions import Action, ListPods
from slipway.planner.observation import Observation, observe, parse_intervals
from slipway.planner.snapshot import Job, Snapshot

FRESH: Final = timedelta(seconds=10)
"""How old a list of the pods may be on which a decision is made that only time has brought."""


@dataclass(slots=True)
class Draft:
    """One decision in the making; lives as long as one call of `plan`."""

    snapshot: Snapshot
    spec: SliceJobSpec
    resolved: Resolved
    now: datetime
    status: SliceJobStatus
    problem: Unacceptable | None = None
    """Why no further attempt can be made although earlier ones were."""
    seen: Observation = field(init=False)
    actions: list[Action] = field(default_factory=list)
    wake_at: datetime | None = None
    blocked: tuple[str, str] | None = None
    """Reason and message of what keeps the next attempt, or its pods, from being made."""

    def __post_init__(self) -> None:
        self.look()

    @property
    def job(self) -> Job:
        """The job that is decided on."""
        return self.snapshot.job

    @property
    def attempt(self) -> Attempt | None:
        """The newest attempt."""
        return self.status.attempts[0] if self.status.attempts else None

    @property
    def granted(self) -> int:
        """Slices of the newest attempt."""
        return self.status.slices.granted if self.status.slices else self.spec.most_slices

    @property
    def active(self) -> Attempt | None:
        """The newest attempt while it has not ended."""
        attempt = self.attempt
        return attempt if attempt is not None and attempt.end_time is None else None

    @property
    def unjudged(self) -> Attempt | None:
        """The newest attempt when it has ended without success and nothing has been charged for it yet."""
        attempt = self.attempt
        waiting = attempt is not None and attempt.end_time is not None and attempt.cause is None
        return attempt if waiting and not self.finished else None

    @property
    def finished(self) -> bool:
        """Whether the job has reached its final phase."""
        return self.status.phase is not None and self.status.phase.final

    def look(self) -> None:
        """Sort the pods anew, as the newest attempt asks."""
        done = parse_intervals(self.status.succeeded_hosts)
        self.seen = observe(self.snapshot, self.attempt, self.resolved, self.granted, done, self.now)

    def update(self, **changes: Any) -> None:
        """Change fields of the status."""
        self.status = self.status.model_copy(update=changes)

    def update_attempt(self, **changes: Any) -> None:
        """Change fields of the newest attempt's record."""
        newest, *older = self.status.attempts
        self.update(attempts=(newest.model_copy(update=changes), *older))

    def act(self, *actions: Action) -> None:
        """Ask for something to be done once the status is written."""
        self.actions.extend(actions)

    def reached(self, due: datetime) -> bool:
        """Whether that time has come and the pods are known as they were then; if not, sees to it that they will be.

        The watch may lag: what a timer waits for may have happened unseen.
        """
        if self.now < due:
            self.wake(due)
            return False
        if self.listed_since(max(due, self.now - FRESH)):
            return True
        self.list_pods()
        return False

    def listed_since(self, moment: datetime) -> bool:
        """Whether the pods were listed then, or later."""
        return self.snapshot.listed_at is not None and self.snapshot.listed_at >= moment

    def list_pods(self) -> None:
        """Ask for the job's pods, once, for what no watch may have shown."""
        if ListPods() not in self.actions:
            self.act(ListPods())

    def wake(self, at: datetime) -> None:
        """Ask to look again at that time at the latest."""
        if self.wake_at is None or at < self.wake_at:
            self.wake_at = at

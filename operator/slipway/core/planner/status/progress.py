"""Progress that a job prints: which log is read for it, what the status shows, and what of its work was saved."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slipway.api import names
from slipway.api.places import FIRST, HEAD
from slipway.api.progress import CHECKPOINT, PatternError, Progress, ProgressState, compiled
from slipway.api.status import Attempt, ConditionType, SliceJobStatus
from slipway.core.model.job import Job
from slipway.core.model.pods import Pod
from slipway.core.model.roster import Roster
from slipway.core.planner.contract.snapshot import Printed, Snapshot
from slipway.core.planner.state.draft import Draft

FIRST_AFTER: Final = timedelta(seconds=5)
"""How long after the last write the first progress of an attempt is written at the earliest."""
STEPS_AFTER: Final = timedelta(seconds=60)
"""The same of later progress."""

MOST_LOGS: Final = 1_000
"""Logs that one operator reads at once."""
LOGS_FORBIDDEN: Final = (
    "LogsForbidden",
    "spec.progress: the operator may not read logs: install the chart with readLogs true",
)
TOO_MANY_LOGS: Final = (
    "TooManyLogs",
    f"spec.progress: the operator reads the logs of {MOST_LOGS} other jobs, and of no more",
)


@dataclass(frozen=True, slots=True)
class Source:
    """The log that tells the progress of an attempt."""

    attempt: int
    pod: str
    uid: str
    """UID of the pod."""
    container: str
    asked: Progress
    known: ProgressState | None = None
    """What earlier lines have said."""


def source(job: Job, pods: Iterable[Pod]) -> Source | None:
    """The log to read now; None when the job asks for none, or what writes it has not started."""
    if job.spec is None or not job.in_attempt or job.status.final or job.deleting or job.status_problem:
        return None
    asked, newest = job.spec.progress, job.status.newest
    if asked is None or newest is None or groups(asked) is None:
        return None
    attempt, roster = newest.number, Roster.of(newest)
    of_ray = job.spec.ray is not None
    place, container = (HEAD, names.DRIVER_CONTAINER) if of_ray else (FIRST, names.WORKER_CONTAINER)
    for pod in roster.current(pods):
        own = pod.metadata.labels.job_uid == job.uid and not pod.is_copy
        if own and pod.place == place and pod.worker is not None and (pod.worker.running or pod.worker.terminated):
            stored = job.status.progress
            before = stored if stored is not None and stored.attempt == attempt else None
            return Source(attempt, pod.metadata.name, pod.metadata.uid, container, asked, before)
    return None


def groups(asked: Progress | None) -> frozenset[str] | None:
    """The groups of the pattern; None without one that can be used."""
    if asked is None:
        return None
    try:
        return frozenset(compiled(asked.pattern).groupindex)
    except PatternError:
        return None


def follow(draft: Draft) -> None:
    """Show in the status what the job has printed."""
    if draft.spec.progress is None:
        draft.update(progress=None)
        return
    printed = _of(draft.snapshot, draft.job.status.attempt)
    if printed is not None and printed.opened and printed.progress is not None:
        draft.update(progress=printed.progress)


def visible(draft: Draft) -> tuple[ConditionType, bool, str, str] | None:
    """The condition that says whether the log can be read; absent until it cannot."""
    condition = draft.job.status.condition(ConditionType.PROGRESS_VISIBLE)
    printed = _of(draft.snapshot, draft.job.status.attempt)
    if draft.spec.progress is None:
        return None
    if printed is not None and printed.problem is not None:
        return ConditionType.PROGRESS_VISIBLE, False, *printed.problem
    if condition is None:
        return None
    if printed is not None and printed.opened:
        return ConditionType.PROGRESS_VISIBLE, True, "LogRead", ""
    return ConditionType.PROGRESS_VISIBLE, condition.status == "True", condition.reason, condition.message


def only_steps(before: SliceJobStatus, after: SliceJobStatus) -> timedelta | None:
    """How long after the last write a status that shows nothing new but steps is written; None when there is more."""
    if before == after or before != after.model_copy(update={"progress": before.progress}):
        return None
    attempts = {state.attempt if state is not None else None for state in (before.progress, after.progress)}
    return STEPS_AFTER if len(attempts) == 1 else FIRST_AFTER


def saved_until(snapshot: Snapshot, attempt: Attempt) -> datetime | None:
    """Until when the work of an attempt that has ended is saved; None when its log does not tell.

    That is the last checkpoint that it printed, or the moment when it began to run.
    """
    asked = snapshot.job.spec.progress if snapshot.job.spec is not None else None
    printed, shown, began = _of(snapshot, attempt.number), snapshot.job.status.progress, attempt.running_time
    if began is None or attempt.end_time is None or CHECKPOINT not in (groups(asked) or ()):
        return None
    read = printed if printed is not None and printed.opened else None
    # A new process, or one with another pattern, may not have come to the checkpoints that the status shows.
    known = (read.progress if read is not None else None, shown)
    times = [state.checkpoint_time for state in known if state is not None and state.attempt == attempt.number]
    time = max(filter(None, times), default=began if read is not None else None)
    return min(max(time, began), attempt.end_time) if time is not None else None


def _of(snapshot: Snapshot, attempt: int | None) -> Printed | None:
    """What was read of the log of that attempt."""
    printed = snapshot.printed
    return printed if printed is not None and printed.attempt == attempt else None

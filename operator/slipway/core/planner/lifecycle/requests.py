"""Requests of the spec that end an attempt or the job: cancel, suspend, deadline, time to live."""

from datetime import datetime, timedelta
from typing import Final

from slipway.api.status import Phase, Result, SliceJobStatus
from slipway.core.model.job import Job
from slipway.core.planner.contract.actions import DeleteJob
from slipway.core.planner.lifecycle.attempts import end_at_once, finish, judge
from slipway.core.planner.state.draft import Draft
from slipway.core.vocabulary.endings import CANCELLED, DEADLINE_EXCEEDED, SUSPENDED, Ending

_TIME_TO_LIVE: Final = "spec.ttlSecondsAfterFinished"


def stop_on_request(draft: Draft) -> None:
    """Carry out cancel, deadline and suspend; each ends the active attempt and charges nothing."""
    if draft.active is not None and draft.seen.done:
        # Every host has succeeded, so there is nothing to stop.
        return
    if draft.spec.cancel:
        _stop(draft, Phase.CANCELLED, CANCELLED, "cancelled by spec.cancel")
    elif _past_deadline(draft):
        message = f"not finished within activeDeadlineSeconds ({draft.spec.active_deadline_seconds} s)"
        _stop(draft, Phase.FAILED, DEADLINE_EXCEEDED, message)
    elif draft.spec.suspend:
        end_at_once(draft, SUSPENDED, "suspended by spec.suspend")
        draft.update(start_time=None, waiting_since=None, image_wait_since=None)


def _stop(draft: Draft, phase: Phase, ending: Ending, message: str) -> None:
    end_at_once(draft, ending, message)
    if draft.unjudged is not None:
        # It ended before the request. Its pods may take long to terminate, so it is judged by the evidence so far.
        judge(draft)
    if not draft.status.final:
        finish(draft, phase, Result(reason=ending.reason, message=message))


def _past_deadline(draft: Draft) -> bool:
    limit, start = draft.spec.active_deadline_seconds, draft.status.start_time
    if limit is None or start is None or draft.spec.suspend or draft.status.phase is Phase.SUSPENDED:
        return False
    return draft.reached(start + timedelta(seconds=limit))


def expire(draft: Draft) -> None:
    """Delete a finished job when ttlSecondsAfterFinished have passed.

    MultiKueue deletes the copies that it has made, after it has read how they ended; it would make a new one of what is
    gone before.
    """
    due = expiry(draft.job, draft.status)
    if due is not None and not (draft.job.deleting or draft.job.origin) and draft.passed(due):
        draft.act(DeleteJob())


def expiry(job: Job, status: SliceJobStatus) -> datetime | None:
    """When a finished job is to be deleted."""
    ttl, ended = _time_to_live(job, status), status.completion_time
    return None if ttl is None or ended is None else ended + timedelta(seconds=ttl)


def _time_to_live(job: Job, status: SliceJobStatus) -> int | None:
    """The job's own; else what the site said when the job ended: a later default is not about jobs that are over."""
    if job.spec is None or job.written is None:
        return None
    if (own := job.written.ttl_seconds_after_finished) is not None:
        return own
    if status.resolved is None:
        # It was cancelled before it was accepted, and nothing was recorded.
        return job.spec.ttl_seconds_after_finished
    said = (default.value or "" for default in status.resolved.defaults or () if default.field == _TIME_TO_LIVE)
    return next((int(value) for value in said if value.isdecimal()), None)

"""What people ask of a job while it lives: cancel, suspend, a deadline, a time to live after its end."""

from datetime import timedelta

from slipway.api.status import Phase, Result
from slipway.planner.actions import DeleteJob
from slipway.planner.attempts import end_uncharged, finish, judge
from slipway.planner.draft import Draft


def stop_on_request(draft: Draft) -> None:
    """Carry out cancel, deadline and suspend; each ends the active attempt and charges nothing."""
    if draft.active is not None and draft.seen.done:
        # It has already done what it was for.
        return
    if draft.spec.cancel:
        _stop(draft, Phase.CANCELLED, "Cancelled", "cancelled by spec.cancel")
    elif _past_deadline(draft):
        message = f"not finished within activeDeadlineSeconds ({draft.spec.active_deadline_seconds} s)"
        _stop(draft, Phase.FAILED, "DeadlineExceeded", message)
    elif draft.spec.suspend:
        end_uncharged(draft, "Suspended", "suspended by spec.suspend")
        draft.update(start_time=None)


def _stop(draft: Draft, phase: Phase, reason: str, message: str) -> None:
    end_uncharged(draft, reason, message)
    if draft.unjudged is not None:
        # Its end was there before the request; the fence may stay open for long, so it is judged by what is known.
        judge(draft)
    if not draft.finished:
        finish(draft, phase, Result(reason=reason, message=message))


def _past_deadline(draft: Draft) -> bool:
    limit, start = draft.spec.active_deadline_seconds, draft.status.start_time
    if limit is None or start is None or draft.spec.suspend or draft.status.phase is Phase.SUSPENDED:
        return False
    return draft.reached(start + timedelta(seconds=limit))


def expire(draft: Draft) -> None:
    """Delete a finished job once its time to live is over."""
    ttl, ended = draft.spec.ttl_seconds_after_finished, draft.status.completion_time
    if ttl is None or ended is None or draft.job.deleting:
        return
    due = ended + timedelta(seconds=ttl)
    if draft.now >= due:
        draft.act(DeleteJob())
    else:
        draft.wake(due)

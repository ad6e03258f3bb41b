"""The life of an attempt: begun, running, ended, judged and charged. Each step is one write of the status.

The cause of an ended attempt is judged when the job is clear to start: when no pod of an ended attempt may still run.
So evidence that arrives late still counts. The charge and the beginning of the next attempt are one write. An attempt
is charged exactly once, because only an attempt with an end and without a cause can be charged.
"""

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from slipway.api.base import rfc3339
from slipway.api.places import intervals, pod_name
from slipway.api.status import MAX_ATTEMPTS, Attempt, Cause, Phase, Result, SliceCounts
from slipway.core.manifests.peers import Peers
from slipway.core.model.job import Job
from slipway.core.model.pods import NEVER
from slipway.core.model.roster import Roster
from slipway.core.planner.contract.actions import KeepHistory
from slipway.core.planner.contract.freshness import MAX_NODE_READS, Step
from slipway.core.planner.diagnosis.evidence import Evidence, told
from slipway.core.planner.diagnosis.verdict import combined, first_cause, recorded, root_of
from slipway.core.planner.lifecycle import fencing, retries, start_timeout
from slipway.core.planner.lifecycle.rivals import goes_first
from slipway.core.planner.state.draft import Draft
from slipway.core.planner.state.gate import Blocker
from slipway.core.planner.state.observation import seen_running
from slipway.core.vocabulary.endings import (
    CAPACITY_RELEASED,
    IMAGE_UNAVAILABLE,
    POD_DELETED,
    UNWITNESSED,
    Ending,
    ending_of,
    tries,
)
from slipway.core.vocabulary.reasons import BACKOFF, WAITING_FOR_OLD


def follow(draft: Draft) -> None:
    """Advance the newest attempt as far as the observation allows, and begin the next one when it is due."""
    if draft.active is not None:
        any(policy(draft) for policy in _POLICIES)
    ended = draft.unjudged if _knows_budgets(draft) else None
    if ended is not None and fencing.clear_to_start(draft) and not fencing.unknown_nodes(draft):
        nodes = _doubtful_nodes(draft, ended)
        if not fencing.is_seen_whole(draft):
            return
        if not nodes or draft.may(Step.CHARGE, ended.end_time or draft.now, nodes):
            judge(draft)
    if draft.active is None and draft.unjudged is None and not draft.status.final:
        begin_when_possible(draft)


def _knows_budgets(draft: Draft) -> bool:
    """Whether the attempt can be judged by what its site says.

    Of one that runs and began with unknown defaults only the job's own are known; once its end is written, the present
    ones of the site count.
    """
    known = not (draft.job.site.choice.bare and draft.job.defaults_unknown)
    if not known and draft.unjudged is not None:
        draft.wake(draft.now)
    return known


def _end_once_sure(draft: Draft) -> bool:
    """End the attempt for evidence that is certain. If none is, list the pods.

    A pod on a node that is gone may have succeeded before. Pods and Nodes are watched separately, and the watch of the
    pods may lag.
    """
    evidence = draft.seen.evidence
    cause = first_cause([one for one in evidence if _is_sure(draft, one)])
    if cause is not None:
        end_as(draft, cause)
    return bool(evidence)


def _is_sure(draft: Draft, evidence: Evidence) -> bool:
    if evidence.absent_since is not None:
        return draft.may(Step.END_BY_ABSENCE, evidence.absent_since)
    pod = draft.seen.live.get(evidence.place)
    if pod is None or pod.ended:
        return True
    ran = seen_running(draft.snapshot, draft.active, draft.now) if draft.active is not None else None
    # The version of a pod that waits may be from before its run.
    if pod.run_since == NEVER and ran is not None and not draft.may(Step.END_BY_RESTART, ran):
        return False
    gone = draft.snapshot.machine_gone_since(pod) if not pod.terminating else None
    return gone is None or draft.may(Step.END_BY_NODE, gone)


def _end_held(draft: Draft) -> bool:
    """End the attempt when the job may have pods no longer, and charge it for the reason.

    Its hosts may have ended before that, which a watch that lags has not shown yet.
    """
    held = draft.gate.closed
    if held is None or held.ending is None:
        return False
    read = draft.seen.begun_by_this_process or draft.may(Step.END_HELD)
    if not (read and draft.may(Step.END_EVICTED, held.since)):
        if draft.starting is None:
            # All its pods exist. How they are, and whether the job is still held, is read first.
            draft.gate = replace(draft.gate, closed=None)
        return False
    end_at_once(draft, held.ending, held.message)
    # Budgets that are not the job's would end it for good; the present ones count when the next attempt ends.
    over = retries.verdict(draft.status, draft.spec) if _knows_budgets(draft) else None
    if over is not None:
        finish(draft, *over)
    return True


def _give_up_unwitnessed(draft: Draft) -> bool:
    """End the attempt uncharged once a list of the pods shows that they are missing."""
    attempt, absent = draft.attempt, sorted(draft.seen.unwitnessed)
    if attempt is None or not absent or not draft.reached(attempt.start_time):
        return bool(absent)
    listed = ", ".join(pod_name(draft.job.name, attempt.number, place) for place in absent[:3])
    missing = f"{len(absent)} pod(s) are missing beside hosts that are done"
    message = f"{missing}, and it is unknown whether they ever ran: {listed}"
    end_at_once(draft, UNWITNESSED, message)
    return True


def _succeed(draft: Draft) -> bool:
    attempt = draft.attempt
    if attempt is None or not draft.seen.done:
        return False
    message = draft.runtime.succeeded(attempt.number, len(draft.seen.wanted))
    draft.update_attempt(
        end_time=draft.now, reason="Succeeded", message=message, running_time=attempt.running_time or draft.now
    )
    draft.update(succeeded_hosts=intervals(draft.seen.succeeded))
    finish(draft, Phase.SUCCEEDED, Result(reason="Succeeded", message=message, exit_code=0))
    return True


def end_as(draft: Draft, cause: Evidence) -> None:
    """End the active attempt for that evidence; it is charged when no pod of it may still run."""
    cause = told(cause, draft.hiding)
    draft.update_attempt(end_time=draft.now, reason=cause.ending.reason, message=cause.message, root=root_of(cause))
    draft.update(succeeded_hosts=intervals(draft.seen.succeeded))
    draft.look()


def end_at_once(draft: Draft, ending: Ending, message: str) -> None:
    """End the active attempt, if there is one, and charge it at once as its ending says: no pod of it can tell more."""
    if draft.active is None:
        return
    draft.update_attempt(end_time=draft.now, reason=ending.reason, message=message, cause=ending.cause)
    draft.status = retries.charged(draft.status, ending.cause)
    draft.look()


def finish(draft: Draft, phase: Phase, result: Result) -> None:
    """Enter a final phase."""
    draft.update(phase=phase, result=result, completion_time=draft.now)


def _record_running(draft: Draft) -> bool:
    if draft.starting is not None and draft.seen.all_started:
        # A kubelet whose clock is ahead dates the run of its worker later. None has been started a second time yet.
        runs = (pod.run_since for pod in draft.seen.live.values() if pod.started)
        draft.update_attempt(running_time=max((draft.now, *(run for run in runs if run not in (None, NEVER)))))
        draft.update(image_wait_since=None)
    return draft.starting is None


def _end_late_start(draft: Draft) -> bool:
    if (late := start_timeout.timeout(draft)) is not None:
        end_as(draft, late)
    return late is not None


_POLICIES: Final[tuple[Callable[[Draft], bool], ...]] = (
    _succeed,
    _end_once_sure,
    _end_held,
    _give_up_unwitnessed,
    _record_running,
    _end_late_start,
)
"""What may become of an active attempt, the most certain first. Each says whether it is what the attempt is at."""


def _doubtful_nodes(draft: Draft, attempt: Attempt) -> tuple[str, ...]:
    """Nodes to read again before a failure is charged, because their kubelets did not report how a pod ended.

    The node may have been replaced, and the watch of the nodes may not have shown that yet.
    """
    snapshot = draft.snapshot
    if not snapshot.nodes_watched:
        return ()
    unseen = [pod for pod in draft.seen.live.values() if pod.termination_unobserved]
    unseen += [pod for pod in snapshot.vanished_of(attempt) if pod.termination_unobserved or not pod.ended]
    nodes = {pod.spec.node_name for pod in unseen if not snapshot.machine_gone(pod)} - {""}
    cause = _cause_so_far(draft) if nodes else None
    return tuple(sorted(nodes)[:MAX_NODE_READS]) if cause is not None and cause.ending.outranked else ()


def judge(draft: Draft) -> None:
    """Record the final cause of the ended attempt, charge it, and finish the job if a budget is used up."""
    cause = _cause_so_far(draft)
    if cause is None:
        # Another version of Slipway has ended it for a reason that this one does not know.
        draft.update_attempt(cause=ending_of(draft.attempt).cause)
    else:
        cause = told(cause, draft.hiding)
        draft.update_attempt(
            cause=cause.ending.cause, reason=cause.ending.reason, message=cause.message, root=root_of(cause)
        )
    charge = draft.status.attempts[0].cause or Cause.FAILURE
    draft.status = retries.charged(draft.status, charge)
    if (end := retries.verdict(draft.status, draft.spec)) is not None:
        # A suspension before the judgement has reset the time from which activeDeadlineSeconds count.
        draft.update(start_time=draft.status.start_time or draft.status.attempts[0].start_time)
        finish(draft, *end)


def _cause_so_far(draft: Draft) -> Evidence | None:
    """The first cause among the evidence seen now and the evidence recorded when the attempt ended."""
    attempt = draft.attempt
    assert attempt is not None
    fresh = {evidence.place: evidence for evidence in draft.seen.evidence}
    noted = recorded(attempt)
    if noted is None:
        return first_cause(fresh.values())
    if noted.ending.of_all_hosts:
        # Later evidence of the pod it names is a separate cause.
        return first_cause((noted, *fresh.values()))
    place = noted.place
    if place not in fresh:
        noted = _dated(draft, attempt, noted)
    fresh[place] = combined(noted, fresh.get(place, noted))
    return first_cause(fresh.values())


def _dated(draft: Draft, attempt: Attempt, noted: Evidence) -> Evidence:
    """The recorded evidence, certain if the API server dates the pod's deletion, or the kubelet its worker's end."""
    pods = (*Roster.of(attempt).current(draft.snapshot.own_pods()), *draft.snapshot.vanished_of(attempt))
    there = [pod for pod in pods if pod.place == noted.place]
    dates = [pod.deletion_requested_at for pod in there if pod.deletion_requested_at is not None]
    if noted.ending is POD_DELETED and dates:
        # Who recorded it may have found the pod missing only after its peers had crashed.
        return replace(noted, time=min(noted.time, *dates), confirmed=True)
    if any(pod.end is not None for pod in there):
        return replace(noted, confirmed=True)
    return noted


def begin_when_possible(draft: Draft) -> None:
    """Begin the next attempt unless something blocks it. The reason is kept in `draft.blocked` for the status."""
    if draft.spec.suspend:
        return
    if draft.problem is not None:
        draft.blocked = Blocker(draft.problem.reason, draft.problem.message)
        draft.update(waiting_since=None)
        return
    if (old := _old_pods(draft)) is not None:
        draft.blocked = Blocker(WAITING_FOR_OLD, old)
        return
    # What blocks it anyway is said at once, also by a process that has yet to list the pods.
    seen_whole = fencing.is_seen_whole(draft) if draft.attempt is not None else fencing.knows_old_pods(draft)
    if draft.gate.closed is not None:
        draft.blocked = draft.gate.closed
        # What it waits for are no nodes.
        draft.update(waiting_since=None)
        return
    site = draft.job.site.choice
    if site.superseded or (draft.job.in_attempt and (site.problem or draft.effective.forbidden is not None)):
        # The attempt that is charged just now was not touched by what its site has said since; the next one is.
        draft.wake(draft.now)
        return
    older = goes_first(draft) if ending_of(draft.attempt) is CAPACITY_RELEASED else None
    contested = older is not None
    not_before = _next_try(draft, contested=contested)
    if not_before is not None and draft.now < not_before:
        # By then the older job may wait no longer.
        again = draft.now + timedelta(seconds=draft.spec.retries.capacity_retry_seconds)
        draft.wake(min(not_before, again) if contested else not_before)
        draft.blocked = _pause(draft, not_before, older)
        return
    if not (seen_whole and draft.admitted_still()):
        return
    # After a suspension other nodes may be free, so the most slices are requested again.
    shrunk = ending_of(draft.attempt).keeps_slices and draft.status.phase is not Phase.SUSPENDED
    _begin(draft, min(draft.granted, draft.most_slices) if shrunk else draft.most_slices)


def _next_try(draft: Draft, *, contested: bool) -> datetime | None:
    if draft.gate.at_once:
        return None
    due = retries.next_try(draft.status, draft.spec, contested=contested)
    if not contested or due is None or draft.status.waiting_since is None:
        return due
    # A job that has waited for timeouts.scheduleSeconds ends in its next attempt.
    return min(due, draft.status.waiting_since + timedelta(seconds=draft.resolved.schedule_seconds))


def _old_pods(draft: Draft) -> str | None:
    """Which pods must have gone before others are created, in a sentence."""
    if foreign := sorted(pod.metadata.name for pod in draft.seen.foreign):
        return f"{len(foreign)} pod(s) of an earlier job of this name must go first: {', '.join(foreign[:3])}"
    if not fencing.clear_to_start(draft):
        return f"{len(draft.seen.may_run)} pod(s) of ended attempts may still run"
    if orphans := fencing.orphaned(draft):
        return f"{orphans} pod(s) were removed before their kubelets reported an end; their containers may still run"
    return None


def _pause(draft: Draft, until: datetime, older: Job | None) -> Blocker:
    """What a job shows whose next attempt is not due."""
    ending, due = ending_of(draft.attempt), f"the next attempt begins at {rfc3339(until)}"
    if older is not None:
        due = f"the older job {older.namespace}/{older.name} goes first; {due}"
    if ending is CAPACITY_RELEASED:
        return Blocker(ending.reason, due, Phase.WAITING_FOR_CAPACITY)
    return Blocker(ending.reason if ending.held else BACKOFF, due)


def _begin(draft: Draft, slices: int) -> None:
    number = 0 if draft.status.attempt is None else draft.status.attempt + 1
    before = ending_of(draft.attempt)
    # The time without an image has a limit of its own.
    waits_on = draft.attempt is not None and not before.a_try and before is not IMAGE_UNAVAILABLE
    # Attempts without their slices are dropped, except the last: its ending decides how this one is placed.
    earlier = (*draft.status.attempts[:1], *tries(draft.status.attempts[1:]))
    if leaving := earlier[MAX_ATTEMPTS - 1 :]:
        draft.before = (KeepHistory(leaving),)
    draft.update(
        attempt=number,
        attempts=(
            Attempt(number=number, start_time=draft.now, defaults=draft.job.site.applied),
            *earlier[: MAX_ATTEMPTS - 1],
        ),
        waiting_since=(draft.status.waiting_since if waits_on else None) or draft.now,
        image_wait_since=None if before.a_try else draft.status.image_wait_since,
        succeeded_hosts=(),
        slices=SliceCounts(requested=draft.spec.most_slices, granted=slices),
        coordinator=Peers(draft.job, number, slices, draft.resolved).recorded_coordinator,
        ray=draft.runtime.state(draft.job),
        resolved=draft.resolved,
        start_time=draft.status.start_time or draft.now,
        capacity_look_time=None,
    )
    draft.look()

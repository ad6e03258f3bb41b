"""The ledger of a status that is about to be written."""

from datetime import datetime

from slipway.api.ledger import Ledger
from slipway.api.places import Place, parse_intervals
from slipway.api.status import Attempt, Phase, SliceJobStatus, suspended_since
from slipway.core.accounting.ledger import NOTHING, Holding, chips_of_pod, continued, held_by_attempt, places_with_chips
from slipway.core.accounting.spans import spans, whole
from slipway.core.model.pods import Pod
from slipway.core.model.roster import Roster
from slipway.core.planner.contract.snapshot import Snapshot
from slipway.core.planner.status.progress import saved_until
from slipway.core.vocabulary.charges import CHARGED


def accounted(snapshot: Snapshot, status: SliceJobStatus, now: datetime) -> SliceJobStatus:
    """A status that is about to be written, with its ledger.

    Args:
        snapshot: the job as it was until now, and its pods.
        status: what is to be written of it.
        now: the moment of the decision, in UTC.
    """
    before, created = snapshot.job.status, whole(snapshot.job.created)
    status = _dated(snapshot, status, now)
    ledger = status.ledger or Ledger(until=created, seconds=NOTHING)
    resumed = suspended_since(before) is not None and suspended_since(status) is None
    # Only the status of before tells since when a job was suspended that is resumed now.
    told, certain = (before, now) if resumed else (status, _certain(status) or created)
    # A kubelet's clock that is ahead may have dated the beginning of the runs: by this one they begin later.
    until = whole(max(certain, ledger.until)) if certain <= now else ledger.until
    if until == ledger.until and status.ledger is not None:
        return status
    passed = spans(created, told, until)
    return status.model_copy(update={"ledger": continued(ledger, passed, until, _seen(snapshot, status, until))})


def _dated(snapshot: Snapshot, status: SliceJobStatus, now: datetime) -> SliceJobStatus:
    """The status with the dates that the ledger is made from, of the attempt there was until now and of the queue."""
    status = _queued(snapshot.job.status, status, now)
    before = snapshot.job.status
    attempt = next((one for one in status.attempts if one.number == before.attempt), None)
    if attempt is None:
        return status
    old = next((one for one in before.attempts if one.number == before.attempt), attempt)
    dates: dict[str, datetime | None] = {}
    if attempt.scheduled_time is None and (attempt.running_time, attempt.end_time) != (old.running_time, old.end_time):
        dates["scheduled_time"] = _scheduled(snapshot, attempt, now)
    if before.phase is Phase.QUEUED and status.phase is not Phase.QUEUED and old.end_time is None:
        dates["admitted_time"] = min(filter(None, (now, dates.get("scheduled_time"), attempt.end_time)))
    if attempt.end_time is not None and old.cause is None and (saved := saved_until(snapshot, attempt)) is not None:
        dates["checkpoint_time"] = saved
    if old.cause is None and attempt.cause in CHARGED:
        dates["charged_time"] = now
    dated = attempt.model_copy(update=dates)
    return status.model_copy(update={"attempts": tuple(dated if one is attempt else one for one in status.attempts)})


def _queued(before: SliceJobStatus, status: SliceJobStatus, now: datetime) -> SliceJobStatus:
    """The status with the dates of a wait in the queue while no attempt is under way; the next attempt takes them over.

    Of several waits before one attempt the first beginning and the last end count.
    """
    since, until = before.queued_time, before.admitted_time
    if suspended_since(before) is not None and suspended_since(status) is None:
        since, until = None, None
    begins = bool(status.attempts) and status.attempt != before.attempt
    if status.phase is Phase.QUEUED and (not status.attempts or status.attempt_ended):
        since, until = since or now, None
    elif since is not None and until is None:
        until = now
    if not begins:
        return status.model_copy(update={"queued_time": since, "admitted_time": until})
    newest = status.attempts[0].model_copy(update={"queued_time": since, "admitted_time": until})
    update = {"queued_time": None, "admitted_time": None, "attempts": (newest, *status.attempts[1:])}
    return status.model_copy(update=update)


def _scheduled(snapshot: Snapshot, attempt: Attempt, now: datetime) -> datetime | None:
    """When the last pod of an attempt was bound to a node; None where not all were, as far as is known."""
    status = snapshot.job.status
    pods = (*Roster.of(attempt).current(snapshot.own_pods()), *snapshot.vanished_of(attempt))
    bound = {
        pod.place: pod.bound_at
        for pod in pods
        if not (pod.is_copy or pod.is_head) and pod.spec.node_name and pod.bound_at
    }
    if not bound or len(bound.keys() | parse_intervals(status.succeeded_hosts)) < places_with_chips(status):
        return None
    return min(max(attempt.start_time, *bound.values()), now)


def _seen(snapshot: Snapshot, status: SliceJobStatus, until: datetime) -> list[Holding]:
    """What the pods of the job hold, as far as they are seen; of the others what their attempt tells."""
    job = snapshot.job
    # Of the attempts there were, that is the number of slices; the one that begins now has no pods yet.
    before = job.status if job.status.resolved is not None else status
    each, places = chips_of_pod(before), places_with_chips(before)
    if not each:
        return []
    held, seen = [], dict[int, set[Place]]()
    ends = {one.number: one.end_time for one in status.attempts}
    gone = ((vanished.pod, vanished.removed_at or vanished.at) for vanished in snapshot.vanished)
    for pod, removed in (*((pod, None) for pod in snapshot.own_pods()), *gone):
        if pod.is_copy or pod.is_head:
            continue
        seen.setdefault(pod.attempt, set()).add(pod.place)
        if pod.spec.node_name and pod.bound_at is not None:
            held.append(Holding(each, pod.bound_at, _released(pod, removed, ends.get(pod.attempt)) or until))
    for attempt in status.attempts:
        held += held_by_attempt(attempt, places - len(seen.get(attempt.number, ())), before, until)
    return held


def _released(pod: Pod, removed: datetime | None, ended: datetime | None) -> datetime | None:
    """When a pod had terminated, and its chips were free; None while it has not.

    A pod that a node refuses has no date of its end; it ends its attempt in a moment. Neither has one whose container a
    kubelet does not know any more; it had ended by the time until which it was given to terminate, or with the attempt.
    """
    end = pod.end if pod.ended else None
    if end is not None and end.finished_at is not None:
        return end.finished_at
    if not pod.ended:
        return removed
    until = pod.metadata.deletion_timestamp if end is not None else None
    return max(filter(None, (ended, until)), default=removed)


def _certain(status: SliceJobStatus) -> datetime | None:
    """Until when no later evidence changes what the time is counted as; None while that is not known of any time."""
    if (over := status.completion_time or suspended_since(status)) is not None:
        return over
    if (newest := status.newest) is None:
        return None
    if newest.end_time is None or newest.cause is None:
        # Why it ended, and since when it was broken, is judged when its last pod has terminated. By the clocks of
        # kubelets, it may seem to have been broken, and to have ended, before every host ran.
        broken = newest.root.time if newest.root is not None else None
        return min(filter(None, (newest.running_time or newest.start_time, broken, newest.end_time)))
    return newest.charged_time or newest.end_time

"""The ledger: how long a job was in each state, and how many chips it held meanwhile.

The sums in the status hold what is certain: what the newest attempt may still change is added by a later write. They
are patched only together with another change of the status. `account_at` adds the time since then for commands and
metrics.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from slipway.api.ledger import Account, Ledger
from slipway.api.places import Place
from slipway.api.status import Attempt, Phase, SliceJobStatus
from slipway.planner.charges import CHARGED
from slipway.planner.objects import Pod
from slipway.planner.observation import parse_intervals
from slipway.planner.progress import saved_until
from slipway.planner.snapshot import Snapshot
from slipway.planner.spells import Spell, State, spells, suspended_since, whole

Sums = dict[State, float]

_NOTHING: Final = Account()


@dataclass(frozen=True, slots=True)
class Holding:
    """Chips that are held for a time: those of a pod that is bound, or of several."""

    chips: int
    begin: datetime
    end: datetime


def accounted(snapshot: Snapshot, status: SliceJobStatus, now: datetime) -> SliceJobStatus:
    """A status that is about to be written, with its ledger.

    Args:
        snapshot: the job as it was until now, and its pods.
        status: what is to be written of it.
        now: the moment of the decision, in UTC.
    """
    before, created = snapshot.job.status, whole(snapshot.job.created)
    status = _dated(snapshot, status, now)
    known = status.ledger or Ledger(until=created, seconds=_NOTHING)
    resumed = suspended_since(before) is not None and suspended_since(status) is None
    # Only the status of before tells since when a job was suspended that is resumed now.
    told, certain = (before, now) if resumed else (status, _certain(status) or created)
    # A kubelet's clock that is ahead may have dated the beginning of the runs: by this one they begin later.
    until = whole(max(certain, known.until)) if certain <= now else known.until
    if until == known.until and status.ledger is not None:
        return status
    passed = spells(created, told, until)
    return status.model_copy(update={"ledger": _continued(known, passed, until, _seen(snapshot, status, until))})


def account_at(created: datetime, status: SliceJobStatus, now: datetime) -> Ledger:
    """The ledger of a job at any moment: what is certain, and what the newest attempt makes of the time since.

    The chips of that time are estimated: all are held from when the last pod is bound until the attempt ends.
    """
    known = status.ledger or Ledger(until=whole(created), seconds=_NOTHING)
    until = whole(max(status.completion_time or now, known.until))
    held = (_whole_attempt(one, _places(status), status, until) for one in status.attempts)
    return _continued(known, spells(created, status, until), until, [one for some in held for one in some])


def sums(account: Account | None) -> Sums:
    """The sums of an account by state, in its order; seconds, or chip seconds."""
    found: Sums = {}
    for name, value in (account or _NOTHING).model_dump(exclude_none=True).items():
        found |= {(name, part): one for part, one in value.items()} if isinstance(value, dict) else {(name,): value}
    return found


def by_state(account: Account | None) -> Counter[str]:
    """The same without the parts of lost time; a state that the job was never in has 0."""
    found: Counter[str] = Counter()
    for (state, *_), value in sums(account).items():
        found[state] += value  # type: ignore[assignment]  # A Counter adds up seconds as well.
    return found


def _account(found: Sums) -> Account:
    nested: dict[str, float | dict[str, float]] = {}
    for (name, *part), value in found.items():
        if part:
            nested[name] = {**dict(nested.get(name, {})), part[0]: value}  # type: ignore[arg-type]
        else:
            nested[name] = value
    return Account.model_validate(nested)


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
    pods = (*snapshot.own_pods(), *(lost.pod for lost in snapshot.vanished))
    bound = {
        pod.place: pod.bound_at
        for pod in pods
        if pod.attempt == attempt.number and not (pod.is_copy or pod.is_head) and pod.spec.node_name and pod.bound_at
    }
    if not bound or len(bound.keys() | parse_intervals(status.succeeded_hosts)) < _places(status):
        return None
    return min(max(attempt.start_time, *bound.values()), now)


def _continued(known: Ledger, passed: Iterable[Spell], until: datetime, held: Iterable[Holding]) -> Ledger:
    seconds, chips = sums(known.seconds), sums(known.chip_seconds)
    holdings = [(one.begin.timestamp(), one.end.timestamp(), one.chips) for one in held]
    for spell in passed:
        begin, end = max(spell.begin, known.until).timestamp(), min(spell.end, until).timestamp()
        if begin < end:
            seconds[spell.state] = round(seconds.get(spell.state, 0.0) + end - begin, 3)
            weighed = sum(max(0.0, min(end, to) - max(begin, since)) * count for since, to, count in holdings)
            if weighed:
                chips[spell.state] = round(chips.get(spell.state, 0.0) + weighed, 3)
    return Ledger(until=until, seconds=_account(seconds), chip_seconds=_account(chips) if chips else None)


def _seen(snapshot: Snapshot, status: SliceJobStatus, until: datetime) -> list[Holding]:
    """What the pods of the job hold, as far as they are seen; of the others what their attempt tells."""
    job = snapshot.job
    # Of the attempts there were, that is the number of slices; the one that begins now has no pods yet.
    before = job.status if job.status.resolved is not None else status
    each, places = _chips(before), _places(before)
    if not each:
        return []
    held, seen = [], dict[int, set[Place]]()
    ends = {one.number: one.end_time for one in status.attempts}
    gone = ((one.pod, one.removed_at or one.at) for one in snapshot.vanished)
    for pod, removed in (*((pod, None) for pod in snapshot.own_pods()), *gone):
        if pod.is_copy or pod.is_head:
            continue
        seen.setdefault(pod.attempt, set()).add(pod.place)
        if pod.spec.node_name and pod.bound_at is not None:
            held.append(Holding(each, pod.bound_at, _released(pod, removed, ends.get(pod.attempt)) or until))
    for attempt in status.attempts:
        held += _whole_attempt(attempt, places - len(seen.get(attempt.number, ())), before, until)
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


def _whole_attempt(attempt: Attempt, places: int, status: SliceJobStatus, until: datetime) -> Iterator[Holding]:
    """What so many pods of an attempt held that nobody sees any more: all were bound from one moment until its end."""
    since = attempt.scheduled_time or attempt.running_time
    if since is not None and places > 0 and (each := _chips(status)):
        yield Holding(each * places, since, attempt.end_time or until)


def _places(status: SliceJobStatus) -> int:
    """How many pods with chips the newest attempt has."""
    return status.slices.granted * status.resolved.hosts if status.slices and status.resolved else 0


def _chips(status: SliceJobStatus) -> int:
    """TPU chips or GPUs of one pod."""
    return (status.resolved.chips_per_host or status.resolved.gpus_per_host or 0) if status.resolved else 0

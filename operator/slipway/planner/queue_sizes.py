"""How many slices a job asks its queue for, where it can run on several numbers of them.

Kueue admits all pods of a Workload or none, so the number is in the Workload, and a label says for which attempt it was
chosen. While the Workload has no quota, the number is changed in its place; with quota a new Workload asks for more.
"""

from datetime import timedelta
from typing import Final

from slipway.planner import queue_bodies, queue_words
from slipway.planner.actions import Body
from slipway.planner.draft import Draft
from slipway.planner.endings import ending_of
from slipway.planner.kueue_objects import QUOTA_RESERVED, Workload

_WAIT_FOR_QUOTA: Final = frozenset({queue_words.NO_QUOTA, queue_words.NEVER_FITS})


def asked(draft: Draft, known: Workload) -> int:
    """The number of slices that a Workload asks for."""
    return known.pods_of(queue_bodies.WORKERS) // draft.resolved.hosts


def is_replaced(draft: Draft, known: Workload) -> bool:
    """Whether the next attempt needs another admission, because it asks for more slices than this one is for.

    An admission is also for fewer pods than the Workload asks for when it was decided before the number was raised.
    """
    attempt = draft.attempt
    if draft.active is not None:
        return False
    given, wanted = known.given_to(queue_bodies.WORKERS), known.pods_of(queue_bodies.WORKERS)
    if given is not None and given < wanted:
        return True
    if attempt is None or ending_of(attempt).keeps_slices:
        return False
    return asked(draft, known) < draft.spec.most_slices and known.metadata.labels.for_attempt <= attempt.number


def change(draft: Draft, known: Workload) -> Body | None:
    """The patch by which a Workload without quota asks for another number of slices; None when it need not."""
    if known.holds(QUOTA_RESERVED) or not draft.spec.acceptable_slices or draft.problem is not None:
        return None
    slices = draft.spec.most_slices if is_replaced(draft, known) else _fewer(draft, known)
    if slices == asked(draft, known):
        return None
    labels = queue_bodies.labels_of(draft)
    return {"metadata": {"labels": labels}, "spec": {"podSets": queue_bodies.pod_sets(draft, slices)}}


def _fewer(draft: Draft, known: Workload) -> int:
    """The number of slices to ask for now: fewer once the job has waited for quota for capacityRetrySeconds.

    The same time passes before the next smaller number, and none where Kueue says that the number never fits.
    """
    now, sizes = asked(draft, known), sorted(draft.spec.acceptable_slices, reverse=True)
    reason, _ = queue_words.waiting(known)
    if reason not in _WAIT_FOR_QUOTA or not known.is_current(QUOTA_RESERVED):
        return now
    fitting = max((one for one in sizes if one < now and one <= _room(draft, known, now)), default=now)
    if reason == queue_words.NEVER_FITS or fitting == now:
        return fitting
    tried = sum(one >= now for one in sizes)
    since = draft.status.queued_time or draft.now
    due = since + tried * timedelta(seconds=draft.spec.retries.capacity_retry_seconds)
    return fitting if draft.passed(due) else now


def _room(draft: Draft, known: Workload, slices: int) -> int:
    """How many slices there is quota for, as far as Kueue's words tell."""
    for resource, count in draft.hardware.resources().items():
        each = int(count) * draft.resolved.hosts
        if missing := queue_words.missing(known, resource):
            return slices - -(-missing // each)
    return slices - 1

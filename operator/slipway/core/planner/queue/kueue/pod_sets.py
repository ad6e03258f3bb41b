"""What pods a job asks its queue for, and how many slices where it can run on several numbers of them.

Kueue admits all pods of a Workload or none, so the number is in the Workload, and a label says for which attempt it was
chosen. While the Workload has no quota, the number is changed in its place; with quota a new Workload asks for more.
"""

from datetime import timedelta
from decimal import Decimal
from typing import Final

from slipway.api.resources import amount
from slipway.api.status import suspended_since
from slipway.core.explain import kueue_messages
from slipway.core.model.parts import Body
from slipway.core.model.workload import EVICTED, QUOTA_RESERVED, Workload
from slipway.core.planner.queue.kueue import workloads
from slipway.core.planner.state.draft import Draft
from slipway.core.vocabulary.endings import SUSPENDED, ending_of
from slipway.core.vocabulary.reasons import NEVER_FITS, NO_QUOTA

PAUSE: Final = timedelta(hours=1)
"""Time that a job keeps quota at least that it got when it asked for more slices."""
_WAIT_FOR_QUOTA: Final = frozenset({NO_QUOTA, NEVER_FITS})


def asked(draft: Draft, known: Workload) -> int:
    """The number of slices that a Workload asks for."""
    return known.pods_of(workloads.WORKERS) // draft.resolved.hosts


def is_replaced(draft: Draft, known: Workload) -> bool:
    """Whether the next attempt needs another admission: for more slices, or for pods of another kind.

    The job keeps its quota unless there is more for it that nobody waits for. An admission is also for fewer pods than
    the Workload asks for when it was decided before the number was raised. In another cluster the site of that cluster
    decides what the pods are, and its attempts come and go beside the same admission.
    """
    if draft.active is not None or draft.job.elsewhere:
        return False
    if workloads.is_outdated(draft, known) or not _is_of_slices(draft, known):
        return True
    assignment = known.assignment(workloads.WORKERS)
    if assignment is not None and assignment.count is not None and assignment.count < known.pods_of(workloads.WORKERS):
        return True
    if not _was_chosen_before(draft, known) or _is_worth_keeping(draft, known):
        return False
    return any(_is_unused(draft, known, one) for one in draft.spec.acceptable_slices)


def _is_of_slices(draft: Draft, known: Workload) -> bool:
    """Whether a Workload asks for the pods of as many slices as the job can have; somebody may have edited it."""
    pods, hosts = known.pods_of(workloads.WORKERS), draft.resolved.hosts
    sizes = {draft.spec.most_slices, *draft.spec.acceptable_slices}
    return bool(draft.job.origin) or (pods % hosts == 0 and pods // hosts in sizes)


def _was_chosen_before(draft: Draft, known: Workload) -> bool:
    """Whether fewer slices than the most are asked for, and were chosen for an attempt that has ended."""
    attempt = draft.attempt
    if draft.active is not None or attempt is None or ending_of(attempt).keeps_slices:
        return False
    return asked(draft, known) < draft.spec.most_slices and known.metadata.labels.for_attempt <= attempt.number


def _is_worth_keeping(draft: Draft, known: Workload) -> bool:
    """Whether it is not worth giving up the admission: a topology assigns nodes, or a larger size was tried lately."""
    if workloads.WORKERS in known.placed or known.status.admission_checks:
        return True
    created = known.metadata.creation_timestamp
    return known.metadata.labels.for_attempt > 0 and created is not None and draft.now < created + PAUSE


def _is_unused(draft: Draft, known: Workload, slices: int) -> bool:
    """Whether there is unused quota for so many slices, in the flavors that the job has."""
    now = asked(draft, known)
    assignment = known.assignment(workloads.WORKERS)
    if not 0 < now < slices or assignment is None or not assignment.resource_usage:
        return False
    unused, more = draft.snapshot.kueue.unused, Decimal(slices - now) / now
    return all(
        (amount(used) or 0) * more <= unused.get(assignment.flavors.get(resource, ""), {}).get(resource, 0)
        for resource, used in assignment.resource_usage.items()
    )


def change(draft: Draft, known: Workload) -> Body | None:
    """The patch by which a Workload without quota asks for other pods, or another number; None when it need not."""
    if known.holds(QUOTA_RESERVED) or draft.problem is not None:
        return None
    if workloads.is_outdated(draft, known):
        return _pods(draft, draft.spec.most_slices)
    if not draft.spec.acceptable_slices:
        return None
    slices = draft.spec.most_slices if _was_chosen_before(draft, known) else _fewer(draft, known)
    return None if slices == asked(draft, known) else _pods(draft, slices)


def moved(draft: Draft, known: Workload, spec: Body) -> Body:
    """The patch of a Workload for a changed spec: another queue, which may have quota for all, is asked for all."""
    if not draft.spec.acceptable_slices or spec.get("queueName", known.spec.queue_name) == known.spec.queue_name:
        return {"spec": spec}
    most = _pods(draft, draft.spec.most_slices)
    return most | {"spec": most["spec"] | spec}


def _pods(draft: Draft, slices: int) -> Body:
    labels = workloads.labels_of(draft)
    return {"metadata": {"labels": labels}, "spec": {"podSets": workloads.pod_sets(draft, slices)}}


def _fewer(draft: Draft, known: Workload) -> int:
    """The number of slices to ask for now: fewer once the job has waited for quota for capacityRetrySeconds.

    The same time passes before the next smaller number, and none where Kueue says that the number never fits. A job
    that gave its quota back for more takes as many slices as before at once.
    """
    now, sizes = asked(draft, known), sorted(draft.spec.acceptable_slices, reverse=True)
    reason, _ = kueue_messages.waiting(known)
    if reason not in _WAIT_FOR_QUOTA or not known.is_current(QUOTA_RESERVED):
        return now
    if not kueue_messages.is_about(known, workloads.WORKERS):
        # The Ray head is one pod however many slices there are.
        return now
    fitting = max((size for size in sizes if size < now and size <= _room(draft, known, now)), default=now)
    if reason == NEVER_FITS or fitting == now or (_gave_back(draft, known) and fitting >= draft.granted):
        return fitting
    tried = sum(size >= now for size in sizes)
    # The status of a suspended job has the times of its wait before the suspension.
    queued = draft.status.queued_time if suspended_since(draft.job.status) is None else None
    since = queued or draft.now
    due = since + tried * timedelta(seconds=draft.spec.retries.capacity_retry_seconds)
    return fitting if draft.passed(due) else now


def _gave_back(draft: Draft, known: Workload) -> bool:
    """Whether the Workload took the place of one with quota for fewer slices."""
    attempt, created = draft.attempt, known.metadata.creation_timestamp
    if attempt is None or attempt.end_time is None or created is None or ending_of(attempt) == SUSPENDED:
        return False
    if known.condition(EVICTED):
        # It has had quota for more, and lost it before an attempt began.
        return False
    return created >= attempt.end_time.replace(microsecond=0) and draft.granted < draft.spec.most_slices


def _room(draft: Draft, known: Workload, slices: int) -> int:
    """How many slices there is quota for, as far as Kueue's words tell."""
    for resource, count in draft.hardware.resources().items():
        each = int(count) * draft.resolved.hosts
        if missing := kueue_messages.missing(known, resource):
            return slices - -(-missing // each)
    return slices - 1

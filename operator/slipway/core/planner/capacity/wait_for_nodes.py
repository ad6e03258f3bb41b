"""Waiting for nodes. The pods stay Pending, because autoscalers add nodes for Pending pods. Nothing is charged."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slipway.api import names
from slipway.api.places import HEAD
from slipway.api.status import Attempt, Phase, Result, SliceCounts
from slipway.core.explain.kubelet import of_scheduler
from slipway.core.explain.preemption import Standing
from slipway.core.explain.scheduler import MAX_VISITS, View, explain_unscheduled
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.manifests.redact import foreign
from slipway.core.model.pods import Pod
from slipway.core.planner.contract.snapshot import Rejection
from slipway.core.planner.lifecycle import attempts, recreation, retries, rivals
from slipway.core.planner.lifecycle.attempts import end_at_once, finish
from slipway.core.planner.lifecycle.start_trouble import scale_up
from slipway.core.planner.state.draft import Draft
from slipway.core.vocabulary.endings import CAPACITY_RELEASED, FEWER_SLICES, POOL_TAKEN, SCHEDULE_TIMEOUT, Ending
from slipway.core.vocabulary.reasons import COMING, GATED, GATED_BY_KUEUE, QUOTA_EXCEEDED, UNSCHEDULABLE, WAIT_FOR_USER

GATE: Final = "kueue.x-k8s.io/admission"
GATED_PODS: Final = (
    "Kueue takes every pod for a job of its own, gates it and counts it once more; so that it does not, label the "
    f"SliceJob {names.QUEUE_LABEL}, have SliceJob.v1alpha1.{names.GROUP} added to integrations.externalFrameworks of "
    f"Kueue's configuration, and let Kueue's ServiceAccount get, list and watch {names.PLURAL}.{names.GROUP}"
)
"""What is said of pods that Kueue gates, which it does where a LocalQueue is named `default`."""

_NEVER: Final = "preemptionPolicy=Never"
SCHEDULER_SETTLES: Final = timedelta(seconds=10)
"""Within this time the scheduler has observed the pods and Nodes that Slipway has observed."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """Why the pods of an attempt are not all created and scheduled."""

    phase: Phase
    reason: str
    """One CamelCase word."""
    message: str
    """The message of the scheduler or of the API server."""


def shortage(draft: Draft) -> Shortage | None:
    """Why pods of the active attempt are not created or not scheduled; None when nothing holds them up."""
    if draft.starting is None:
        return None
    if (rejection := refusal(draft)) is not None:
        phase = Phase.WAITING_FOR_CAPACITY if rejection.reason == QUOTA_EXCEEDED else Phase.PENDING
        phase = Phase.STARTING if rejection.of_names else phase
        return Shortage(phase, rejection.reason, rejection.message)
    words = draft.seen.unscheduled_because
    if UNSCHEDULABLE in words:
        return _unscheduled(draft, words[UNSCHEDULABLE])
    if gated_by_kueue(draft.seen.unscheduled):
        return Shortage(Phase.QUEUED, GATED_BY_KUEUE, GATED_PODS)
    if GATED in words:
        return Shortage(Phase.QUEUED, GATED, words[GATED] or "the pods wait for admission by their queue")
    return None


def refusal(draft: Draft) -> Rejection | None:
    """Why the API server has refused what the active attempt still lacks.

    The answer to the request that was accepted after all may have been lost.
    """
    attempt = draft.active
    lacks = attempt is not None and (draft.seen.absent or draft.snapshot.served != attempt.number)
    return draft.snapshot.rejection if lacks else None


def _unscheduled(draft: Draft, words: str) -> Shortage:
    count = f"{len(draft.seen.unscheduled)} of {len(draft.seen.wanted)} pods cannot be scheduled"
    explanation = of_scheduler(words, draft.spec.image or "")
    if explanation is None:
        return Shortage(Phase.WAITING_FOR_CAPACITY, UNSCHEDULABLE, f"{count}: {words}")
    phase = Phase.PENDING if explanation.reason in WAIT_FOR_USER else Phase.WAITING_FOR_CAPACITY
    return Shortage(phase, explanation.reason, f"{count}: {explanation.message}; {explanation.next_step}")


def explained(draft: Draft, short: Shortage) -> Shortage:
    """The shortage in words about node pools and autoscalers, where Slipway sees more than the scheduler says."""
    if short.reason != UNSCHEDULABLE:
        return short
    found, scales = _of_pools(draft, short), scale_up(draft, draft.seen.unscheduled[0])
    if scales is None:
        return found
    coming, words = scales
    what = "the cluster autoscaler adds nodes" if coming else "the cluster autoscaler adds no nodes"
    message = f"{found.message}; {what}: {foreign(words, draft.hiding)}"
    return Shortage(found.phase, COMING if coming else found.reason, message)


def _of_pools(draft: Draft, short: Shortage) -> Shortage:
    snapshot = draft.snapshot
    refusals = (pod.condition("PodScheduled", "False") for pod in draft.seen.unscheduled)
    dates = (condition.last_transition_time for condition in refusals if condition is not None)
    view = View(
        job=draft.job,
        settings=snapshot.settings,
        nodes=snapshot.nodes.values(),
        tenants=snapshot.pools.tenants,
        tpu_pools=snapshot.pools.tpu_pools,
        slices=draft.granted,
        refused_at=max((date for date in dates if date is not None), default=draft.now),
        now=draft.now,
        standing=_standing(draft, short),
        waiting=0 if any(pod.is_head for pod in draft.seen.unscheduled) else len(draft.seen.unscheduled),
        wanted=len(draft.seen.wanted),
    )
    try:
        answer = explain_unscheduled(view)
    except InvalidSpec:
        # A spec that was changed to what cannot be accepted; the attempt goes on with what it was accepted with.
        return short
    draft.refresh_visitors = answer.unread[:MAX_VISITS]
    if answer.found is None:
        return short
    step = f"; {answer.found.next_step}" if answer.found.next_step else ""
    return Shortage(short.phase, answer.found.reason, answer.found.message + step)


def _standing(draft: Draft, short: Shortage) -> Standing:
    """What priority the pods have; that they may preempt nobody only the scheduler's words show."""
    return Standing(draft.seen.unscheduled[0].spec.priority, _NEVER not in short.message)


def wait(draft: Draft) -> None:
    """Count the checks for capacity, and end the attempt or the job when it has waited long enough."""
    attempt, short = draft.starting, shortage(draft)
    if attempt is None or _gave_up(draft, attempt, short):
        return
    if short is None or short.phase is not Phase.WAITING_FOR_CAPACITY:
        return
    every = timedelta(seconds=draft.spec.retries.capacity_retry_seconds)
    if refused := _refused_pools(draft, attempt):
        if draft.reached(min(refused.values()) + SCHEDULER_SETTLES):
            _leave_pools(draft, refused, short)
        return
    if fewer := _fewer(draft):
        if draft.reached(_last_progress(draft, attempt) + every):
            _take(draft, fewer)
        return
    # The time that it is kept must grow more slowly than the back-off, or this job's Pending pods take nodes that
    # another job released for an older one.
    held_until = _last_progress(draft, attempt) + every * 2 ** (retries.releases(draft.status) // 2)
    if draft.passed(held_until) and _stuck(draft) and draft.reached(held_until):
        _release_capacity(draft)
        return
    _count_looks(draft, every)


def _count_looks(draft: Draft, every: timedelta) -> None:
    """Add the checks that were due since the last one counted. They are written with the next change of the status."""
    last = draft.status.capacity_look_time
    looks = 1 if last is None else (draft.now - last) // every
    counted = draft.now if last is None else last + looks * every
    if looks > 0:
        draft.update(capacity_look_time=counted, capacity_waits=draft.status.capacity_waits + looks)
    draft.wake(counted + every)


def _last_progress(draft: Draft, attempt: Attempt) -> datetime:
    """When a pod of the attempt was last bound to a node."""
    times = (pod.bound_at for pod in draft.seen.live.values() if pod.spec.node_name)
    return max((attempt.start_time, *(moment for moment in times if moment is not None)))


def _gave_up(draft: Draft, attempt: Attempt, short: Shortage | None) -> bool:
    gone = recreation.due(draft)
    waits = short or draft.seen.unscheduled or gone
    if not waits or not waited_enough(draft, attempt):
        return False
    words = recreation.words(draft, gone) if gone else f"{len(draft.seen.unscheduled)} pods are not scheduled"
    words = explained(draft, short).message if short else words
    give_up(draft, f"not scheduled within timeouts.scheduleSeconds ({draft.resolved.schedule_seconds} s): {words}")
    return True


def waited_enough(draft: Draft, attempt: Attempt) -> bool:
    """Whether the job has waited for timeouts.scheduleSeconds, in this attempt and those before that only waited."""
    since = draft.status.waiting_since or attempt.start_time
    return draft.reached(since + timedelta(seconds=draft.resolved.schedule_seconds))


def give_up(draft: Draft, message: str, ending: Ending = SCHEDULE_TIMEOUT) -> None:
    """End the attempt, and the job as failed, because it has waited for too long; `ending` says what for."""
    end_at_once(draft, ending, message)
    finish(draft, Phase.FAILED, Result(reason=SCHEDULE_TIMEOUT.reason, message=message))


def _placed(draft: Draft) -> int:
    """How many slices there are nodes for.

    Without a node pool of its own, a slice can have any node that was found. The scheduler takes pods in no order: it
    may give some hosts of each slice a node, and all hosts of none. Workers without devices may also have the only node
    for the Ray head.
    """
    missing = {pod.place for pod in draft.seen.unscheduled} | draft.seen.absent
    if draft.hardware.own_pool:
        return draft.granted - len({place.slice for place in missing - {HEAD}})
    places = draft.seen.wanted - missing - {HEAD}
    for_head = HEAD in missing and not draft.hardware.resources()
    return (len(places) - for_head) // draft.resolved.hosts


def _fewer(draft: Draft) -> int:
    """The largest acceptable number of slices that have their nodes; 0 if it is not smaller than the present number."""
    placed = _placed(draft)
    fitting = max((one for one in draft.spec.acceptable_slices if one <= placed), default=0)
    return fitting if fitting < draft.granted else 0


def _take(draft: Draft, fewer: int) -> None:
    """Begin an attempt with fewer slices."""
    message = f"{_placed(draft)} of {draft.granted} slices found nodes: starting with {fewer}"
    draft.update(slices=SliceCounts(requested=draft.spec.most_slices, granted=fewer))
    end_at_once(draft, FEWER_SLICES, message)
    attempts.begin_when_possible(draft)


def _refused_pools(draft: Draft, attempt: Attempt) -> dict[str, datetime]:
    """Node pools that slices are pinned to and in which the scheduler finds no room, with the time it said so."""
    found: dict[str, datetime] = {}
    for pod in draft.seen.unscheduled:
        refused, pool = pod.condition("PodScheduled", "False"), pod.metadata.labels.node_pool
        if pool and refused is not None and refused.reason == UNSCHEDULABLE:
            since = refused.last_transition_time or attempt.start_time
            found[pool] = max(since, found.get(pool, since))
    return found


def _leave_pools(draft: Draft, refused: Iterable[str], short: Shortage) -> None:
    """Begin an attempt whose node pools the scheduler chooses."""
    pools = ", ".join(sorted(refused)[:3])
    message = f"no room in {pools}, though it looked free; the scheduler chooses for the next attempt: {short.message}"
    end_at_once(draft, POOL_TAKEN, message)
    attempts.begin_when_possible(draft)


def _stuck(draft: Draft) -> bool:
    """Whether the job holds nodes or quota that it cannot use alone and that an older job can use.

    Two jobs that each hold a part of what both need would wait for ever; the younger one gives way. A slice may also
    be divided in a way that leaves no room for the rest of it.
    """
    refused = draft.snapshot.rejection
    lacks_quota = refused is not None and refused.reason == QUOTA_EXCEEDED and bool(draft.seen.absent)
    return bool(draft.seen.unscheduled or lacks_quota) and (_split(draft) or rivals.rival(draft) is not None)


def _split(draft: Draft) -> bool:
    """Whether some pods of a slice are bound and others found no room in the same node pool."""
    if not draft.hardware.is_tpu:
        return False
    waiting = {pod.place.slice for pod in draft.seen.unscheduled if not pod.is_head}
    workers = ((place, pod) for place, pod in draft.seen.live.items() if not place.is_head)
    return any(pod.spec.node_name and place.slice in waiting for place, pod in workers)


def _release_capacity(draft: Draft) -> None:
    held, older = len(draft.seen.live) - len(draft.seen.unscheduled), rivals.rival(draft)
    why = "trying other pools"
    if older is not None:
        why = f"the older job {older.namespace}/{older.name} waits for {rivals.waits_for(older)}"
    message = f"{held} of {len(draft.seen.wanted)} hosts had nodes, and the job could not start: {why}"
    end_at_once(draft, CAPACITY_RELEASED, message)
    attempts.begin_when_possible(draft)


def gated_by_kueue(pods: Iterable[Pod]) -> bool:
    """Whether Kueue holds these pods themselves, and not the SliceJob."""
    return any(gate.name == GATE for pod in pods for gate in pod.spec.scheduling_gates)

"""Waiting for nodes: the pods stay pending, for autoscalers need to see them, and nothing is charged."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from slipway.api.status import Attempt, Phase, Result, SliceCounts
from slipway.planner import attempts
from slipway.planner.attempts import end_uncharged, finish
from slipway.planner.budgets import CAPACITY_RELEASED, FEWER_SLICES, POOL_TAKEN
from slipway.planner.draft import Draft
from slipway.planner.observation import waiting_for
from slipway.planner.snapshot import HEAD

UNSCHEDULABLE: Final = "Unschedulable"
GATED: Final = "SchedulingGated"
ROOM_APPEARS: Final = timedelta(seconds=10)
"""Within this time the scheduler has heard of pods and nodes that Slipway has heard of."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """What the pods of an attempt wait for."""

    phase: Phase
    reason: str
    """One CamelCase word."""
    message: str
    """In the words of whoever refused them."""


def shortage(draft: Draft) -> Shortage | None:
    """What keeps pods of the active attempt from being created or placed."""
    attempt = draft.active
    if attempt is None or attempt.running_time is not None:
        return None
    if (rejection := draft.snapshot.rejection) is not None:
        phase = Phase.STARTING if rejection.of_names else Phase.WAITING_FOR_CAPACITY
        return Shortage(phase, rejection.reason, rejection.message)
    words: dict[str, str] = {}
    for pod in draft.seen.unscheduled:
        reason, message = waiting_for(pod)
        words.setdefault(reason, message)
    if UNSCHEDULABLE in words:
        count = f"{len(draft.seen.unscheduled)} of {len(draft.seen.wanted)} pods"
        message = f"{count} cannot be scheduled: {words[UNSCHEDULABLE]}"
        return Shortage(Phase.WAITING_FOR_CAPACITY, UNSCHEDULABLE, message)
    if GATED in words:
        return Shortage(Phase.QUEUED, GATED, words[GATED] or "the pods wait for admission by their queue")
    return None


def wait(draft: Draft) -> None:
    """Count the looks for missing capacity and give up when the longest wait is over."""
    attempt, short = draft.active, shortage(draft)
    if attempt is None or attempt.running_time is not None or _gave_up(draft, attempt, short):
        return
    if short is None or short.phase is not Phase.WAITING_FOR_CAPACITY:
        return
    every = timedelta(seconds=draft.spec.retries.capacity_retry_seconds)
    last = draft.status.capacity_look_time
    if refused := _refused_pools(draft, attempt):
        if draft.reached(min(refused.values()) + ROOM_APPEARS):
            _leave_pools(draft, refused, short)
        return
    if last is not None and draft.now >= last + every and (fewer := _fewer(draft)):
        if draft.reached(last + every):
            _take(draft, fewer)
        return
    if _should_let_go(draft, every):
        _let_go(draft)
        return
    if last is None or draft.now >= last + every:
        draft.update(capacity_look_time=draft.now, capacity_waits=draft.status.capacity_waits + 1)
        last = draft.now
    draft.wake(last + every)


def _gave_up(draft: Draft, attempt: Attempt, short: Shortage | None) -> bool:
    deadline = attempt.start_time + timedelta(seconds=draft.resolved.schedule_seconds)
    if not (short or draft.seen.unscheduled) or not draft.reached(deadline):
        return False
    words = short.message if short else f"{len(draft.seen.unscheduled)} pods are not scheduled"
    message = f"not scheduled within timeouts.scheduleSeconds ({draft.resolved.schedule_seconds} s): {words}"
    end_uncharged(draft, "ScheduleTimeout", message)
    finish(draft, Phase.FAILED, Result(reason="ScheduleTimeout", message=message))
    return True


def _placed(draft: Draft) -> int:
    """Slices of which every pod has its node."""
    missing = {pod.slot[0] for pod in draft.seen.unscheduled} | {slot[0] for slot in draft.seen.absent}
    return draft.granted - len(missing - {HEAD[0]})


def _fewer(draft: Draft) -> int:
    """The most acceptable slices that have found their nodes; 0 when that would not be fewer, or none."""
    placed = _placed(draft)
    fitting = max((one for one in draft.spec.acceptable_slices if one <= placed), default=0)
    return fitting if fitting < draft.granted else 0


def _take(draft: Draft, fewer: int) -> None:
    """Start again with fewer slices."""
    message = f"{_placed(draft)} of {draft.granted} slices found nodes: starting with {fewer}"
    draft.update(slices=SliceCounts(requested=draft.spec.most_slices, granted=fewer))
    end_uncharged(draft, FEWER_SLICES, message)
    attempts.begin_when_possible(draft)


def _refused_pools(draft: Draft, attempt: Attempt) -> dict[str, datetime]:
    """The node pools that slices are pinned to and in which the scheduler finds no room, and since when."""
    found: dict[str, datetime] = {}
    for pod in draft.seen.unscheduled:
        refused, pool = pod.condition("PodScheduled", "False"), pod.metadata.labels.node_pool
        if pool and refused is not None and refused.reason == UNSCHEDULABLE:
            since = refused.last_transition_time or attempt.start_time
            found[pool] = max(since, found.get(pool, since))
    return found


def _leave_pools(draft: Draft, refused: Iterable[str], short: Shortage) -> None:
    """Begin anew, with pods for which the scheduler chooses."""
    pools = ", ".join(sorted(refused)[:3])
    message = f"no room in {pools}, though it looked free; the scheduler chooses for the next attempt: {short.message}"
    end_uncharged(draft, POOL_TAKEN, message)
    attempts.begin_when_possible(draft)


def _should_let_go(draft: Draft, after: timedelta) -> bool:
    """Whether the job holds capacity that it cannot use and that an older job waits for.

    Two jobs that each hold a part of what both need would wait for ever; the younger one gives way.
    """
    bound = [pod.condition("PodScheduled") for pod in draft.seen.live.values() if pod.spec.node_name]
    times = [one.last_transition_time for one in bound if one is not None and one.last_transition_time is not None]
    stuck = draft.seen.unscheduled and (draft.snapshot.older_waits or _split(draft))
    return bool(times and stuck) and draft.reached(max(times) + after)


def _split(draft: Draft) -> bool:
    """Whether a slice stands in a node pool that has no room for the rest of it: there it waits for ever."""
    if draft.resolved.type is None:
        return False
    waiting = {pod.slot[0] for pod in draft.seen.unscheduled}
    return any(pod.spec.node_name and slot[0] in waiting for slot, pod in draft.seen.live.items())


def _let_go(draft: Draft) -> None:
    held = len(draft.seen.live) - len(draft.seen.unscheduled)
    older = draft.snapshot.older_waits
    message = f"{held} of {len(draft.seen.wanted)} hosts had nodes and the rest did not come" + (
        ", while an older job waits for the same kind of slice: it goes first" if older else ": trying other node pools"
    )
    end_uncharged(draft, CAPACITY_RELEASED, message)
    attempts.begin_when_possible(draft)

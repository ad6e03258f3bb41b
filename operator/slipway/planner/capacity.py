"""Waiting for nodes: the pods stay pending, for autoscalers need to see them, and nothing is charged."""

from datetime import timedelta

from slipway.api.status import Phase, Result, SliceCounts
from slipway.planner import attempts
from slipway.planner.attempts import end_uncharged, finish
from slipway.planner.budgets import CAPACITY_RELEASED, FEWER_SLICES
from slipway.planner.draft import Draft
from slipway.planner.observation import waiting_for
from slipway.planner.snapshot import HEAD


def shortage(draft: Draft) -> tuple[Phase, str] | None:
    """The waiting phase and who said what, when pods of the active attempt cannot be placed."""
    attempt = draft.active
    if attempt is None or attempt.running_time is not None:
        return None
    if (rejection := draft.snapshot.rejection) is not None:
        return Phase.WAITING_FOR_CAPACITY, rejection.message
    words: dict[str, str] = {}
    for pod in draft.seen.unscheduled:
        reason, message = waiting_for(pod)
        words.setdefault(reason, message)
    if "Unschedulable" in words:
        count = len(draft.seen.unscheduled)
        return (
            Phase.WAITING_FOR_CAPACITY,
            f"{count} of {len(draft.seen.wanted)} pods cannot be scheduled: {words['Unschedulable']}",
        )
    if "SchedulingGated" in words:
        return Phase.QUEUED, words["SchedulingGated"] or "the pods wait for admission by their queue"
    return None


def wait(draft: Draft) -> None:
    """Count the looks for missing capacity and give up when the longest wait is over."""
    attempt = draft.active
    if attempt is None or attempt.running_time is not None:
        return
    deadline = attempt.start_time + timedelta(seconds=draft.resolved.schedule_seconds)
    short = shortage(draft)
    if draft.reached(deadline) and (short is not None or draft.seen.unscheduled):
        words = short[1] if short else f"{len(draft.seen.unscheduled)} pods are not scheduled"
        message = f"not scheduled within timeouts.scheduleSeconds ({draft.resolved.schedule_seconds} s): {words}"
        end_uncharged(draft, "ScheduleTimeout", message)
        finish(draft, Phase.FAILED, Result(reason="ScheduleTimeout", message=message))
        return
    if short is None or short[0] is Phase.QUEUED:
        return
    every = timedelta(seconds=draft.spec.retries.capacity_retry_seconds)
    last = draft.status.capacity_look_time
    if last is not None and draft.reached(last + every) and _take_fewer(draft):
        return
    if _should_let_go(draft, every):
        _let_go(draft)
        return
    if last is None or draft.now >= last + every:
        draft.update(capacity_look_time=draft.now, capacity_waits=draft.status.capacity_waits + 1)
        last = draft.now
    draft.wake(last + every)


def _take_fewer(draft: Draft) -> bool:
    """Start again with the most acceptable slices that have found their nodes; whether it did."""
    missing = {pod.slot[0] for pod in draft.seen.unscheduled} | {slot[0] for slot in draft.seen.absent}
    placed = draft.granted - len(missing - {HEAD[0]})
    fitting = max((one for one in draft.spec.acceptable_slices if one <= placed), default=0)
    if fitting == 0 or fitting >= draft.granted:
        return False
    message = f"{placed} of {draft.granted} slices found nodes: starting with {fitting}"
    draft.update(slices=SliceCounts(requested=draft.spec.most_slices, granted=fitting))
    end_uncharged(draft, FEWER_SLICES, message)
    attempts.begin_when_possible(draft)
    return True


def _should_let_go(draft: Draft, after: timedelta) -> bool:
    """Whether the job holds capacity that it cannot use and that an older job waits for.

    Two jobs that each hold a part of what both need would wait for ever; the younger one gives way.
    """
    bound = [pod.condition("PodScheduled") for pod in draft.seen.live.values() if pod.spec.node_name]
    times = [one.last_transition_time for one in bound if one is not None and one.last_transition_time is not None]
    if not times or not draft.seen.unscheduled or not (draft.snapshot.older_waits or _split(draft)):
        return False
    return draft.reached(max(times) + after)


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

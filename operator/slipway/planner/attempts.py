"""The life of an attempt: begun, running, ended, judged and charged. Each step is one write of the status.

Between the end and the charge lies the fence: the cause is judged when nothing of the attempt can run any more, so
that late evidence still counts, and the charge is made in the same write as the next attempt's beginning. An attempt
is charged exactly once because only one that has an end and no cause can be.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from slipway.api import names
from slipway.api.status import MAX_ATTEMPTS, Attempt, Cause, Phase, Result, SliceCounts, rfc3339
from slipway.planner import budgets, environment, fencing, placement, ray
from slipway.planner.actions import Action, Body, CreateObjects, CreatePods, CreateServices, CreateToken, LookAtNodes
from slipway.planner.causes import START_TIMEOUT, Evidence
from slipway.planner.draft import Draft
from slipway.planner.observation import CREATING, intervals, waiting_for
from slipway.planner.pods import config_maps, service
from slipway.planner.snapshot import HEAD, WAITING_FOR_OLD, Pod, Rejection, Slot
from slipway.planner.verdict import combined, first_cause, recorded, root_of

PINNING_TAKES: Final = 60
"""Seconds: a job that is to be placed sooner has no time to find out that a node pool only looked free."""
UNWITNESSED: Final = "Unwitnessed"
MOST_DOUBTED: Final = 64
"""Nodes asked for before a judgement, the first by name: one that died takes few along, and more would cost time."""
_OLD_GO: Final = timedelta(seconds=1)


def follow(draft: Draft) -> None:
    """Take the newest attempt as far as what is seen allows, and begin the next one when its time has come."""
    if draft.active is not None:
        _follow_active(draft)
    if draft.unjudged is not None and fencing.closed(draft) and not fencing.unknown_nodes(draft):
        if nodes := _doubtful_nodes(draft, draft.unjudged):
            draft.act(LookAtNodes(nodes, draft.unjudged.number))
        else:
            judge(draft)
    if draft.active is None and draft.unjudged is None and not draft.finished:
        begin_when_possible(draft)


def _follow_active(draft: Draft) -> None:
    seen = draft.seen
    if seen.done:
        _succeed(draft)
    elif seen.evidence:
        _end_once_sure(draft)
    elif seen.unwitnessed:
        _give_up_unwitnessed(draft)
    elif draft.active and draft.active.running_time is None and seen.all_started:
        _record_running(draft)
    elif draft.active and draft.active.running_time is None and (late := _start_timeout(draft)) is not None:
        _end(draft, late)


def _end_once_sure(draft: Draft) -> None:
    """End the attempt for what surely hit it, and list the pods if there is nothing that surely did.

    A pod on a machine that is gone may have succeeded before: pods and nodes come through different watches, and that
    of the pods may be the one that lags.
    """
    cause = first_cause(one for one in draft.seen.evidence if _is_sure(draft, one))
    if cause is not None:
        _end(draft, cause)
    else:
        draft.list_pods()


def _is_sure(draft: Draft, one: Evidence) -> bool:
    pod = draft.seen.live.get((one.slice, one.host))
    gone = draft.snapshot.machine_gone_since(pod) if pod is not None and not (pod.going or pod.ended) else None
    return gone is None or draft.listed_since(gone)


def _give_up_unwitnessed(draft: Draft) -> None:
    """Begin anew, for which nobody is charged, once a list of the pods shows that they are really missing."""
    attempt = draft.attempt
    if attempt is None or not draft.reached(attempt.start_time):
        return
    absent = sorted(draft.seen.unwitnessed)
    listed = ", ".join(names.name_of(draft.job.name, attempt.number, slot) for slot in absent[:3])
    message = (
        f"{len(absent)} pod(s) are missing beside hosts that are done, and no operator saw whether they ran: {listed}"
    )
    end_uncharged(draft, UNWITNESSED, message)


def _succeed(draft: Draft) -> None:
    attempt = draft.attempt
    assert attempt is not None
    hosts = len(draft.seen.wanted)
    message = f"all {hosts} hosts of attempt {attempt.number} exited 0" if hosts > 1 else "the host exited 0"
    if draft.spec.ray is not None:
        message = f"the entrypoint of attempt {attempt.number} exited 0"
    draft.update_attempt(
        end_time=draft.now, reason="Succeeded", message=message, running_time=attempt.running_time or draft.now
    )
    draft.update(succeeded_hosts=intervals(draft.seen.succeeded))
    finish(draft, Phase.SUCCEEDED, Result(reason="Succeeded", message=message, exit_code=0))


def _end(draft: Draft, cause: Evidence) -> None:
    draft.update_attempt(end_time=draft.now, reason=cause.rule.reason, message=cause.message, root=root_of(cause))
    draft.update(succeeded_hosts=intervals(draft.seen.succeeded))
    draft.look()


def end_uncharged(draft: Draft, reason: str, message: str) -> None:
    """End the active attempt, if there is one, without charging it to any budget."""
    if draft.active is None:
        return
    draft.update_attempt(end_time=draft.now, reason=reason, message=message, cause=Cause.UNCHARGED)
    draft.status = budgets.charged(draft.status, Cause.UNCHARGED)
    draft.look()


def finish(draft: Draft, phase: Phase, result: Result) -> None:
    """Enter a final phase."""
    draft.update(phase=phase, result=result, completion_time=draft.now)


def _record_running(draft: Draft) -> None:
    draft.update_attempt(running_time=draft.now)


def _start_timeout(draft: Draft) -> Evidence | None:
    """Evidence once the pods have been scheduled for too long without all of them running."""
    if draft.seen.unscheduled or draft.seen.absent:
        return None
    late = sorted((slot, pod) for slot, pod in draft.seen.live.items() if not pod.started)
    since = max((pod.bound_at for _, pod in late if pod.bound_at), default=None)
    if since is None or not _in_vain(draft, late, since):
        return None
    slot, pod = next((entry for entry in late if waiting_for(entry[1])[0] != CREATING), late[0])
    reason, words = waiting_for(pod)
    return Evidence(
        rule=START_TIMEOUT,
        time=draft.now,
        message=f"{len(late)} host(s) did not start within {draft.resolved.start_seconds} s of being scheduled; "
        f"{names.place_of(slot)} (pod {pod.metadata.name} on node {pod.spec.node_name}) is waiting: {reason} "
        f"{words}".strip(),
        slice=slot[0],
        host=slot[1],
        pod=pod.metadata.name,
        node=pod.spec.node_name or None,
    )


def _in_vain(draft: Draft, late: Iterable[tuple[Slot, Pod]], since: datetime) -> bool:
    """Whether these pods had all the time there is to start, on machines that were well."""
    allowed, snapshot = timedelta(seconds=draft.resolved.start_seconds), draft.snapshot
    if not draft.reached(since + allowed):
        return False
    if not all(map(snapshot.machine_well, draft.seen.live.values())):
        # What waits for a machine in trouble is judged when the control plane gives the machine up.
        return False
    back = max(filter(None, (snapshot.ready_since(pod) for _, pod in late)), default=since)
    return draft.reached(max(since, back) + allowed)


def _doubtful_nodes(draft: Draft, attempt: Attempt) -> tuple[str, ...]:
    """Nodes to be asked for, once, before a failure is charged: their kubelets did not tell how pods of it ended.

    A machine that was replaced explains that, and the watch of the nodes may not have told yet.
    """
    snapshot = draft.snapshot
    if snapshot.nodes_asked == attempt.number or not snapshot.nodes_watched:
        return ()
    unseen = [pod for pod in draft.seen.live.values() if pod.end_unseen]
    unseen += [pod for pod in snapshot.vanished_of(attempt.number) if pod.end_unseen or not pod.ended]
    nodes = {pod.spec.node_name for pod in unseen if not snapshot.machine_gone(pod)} - {""}
    cause = _cause_so_far(draft) if nodes else None
    return tuple(sorted(nodes)[:MOST_DOUBTED]) if cause is not None and cause.rule.outranked else ()


def judge(draft: Draft) -> None:
    """Name the cause of the ended attempt for good, charge it, and see whether the job may try again."""
    cause = _cause_so_far(draft)
    if cause is None:
        draft.update_attempt(cause=Cause.FAILURE)
    else:
        draft.update_attempt(
            cause=cause.rule.cause, reason=cause.rule.reason, message=cause.message, root=root_of(cause)
        )
    charge = draft.status.attempts[0].cause or Cause.FAILURE
    draft.status = budgets.charged(draft.status, charge)
    if (end := budgets.verdict(draft.status, draft.spec)) is not None:
        finish(draft, *end)


def _cause_so_far(draft: Draft) -> Evidence | None:
    """The first cause by what is seen and what was noted."""
    attempt = draft.attempt
    assert attempt is not None
    fresh = {(one.slice, one.host): one for one in draft.seen.evidence}
    noted = recorded(attempt)
    if noted is None:
        return first_cause(fresh.values())
    if noted.rule is START_TIMEOUT:
        # It is about all pods that wait; what has hit the one it names since then is another matter.
        return first_cause((noted, *fresh.values()))
    place = (noted.slice, noted.host)
    if place not in fresh and _end_reported(draft, attempt, place):
        noted = replace(noted, confirmed=True)
    fresh[place] = combined(noted, fresh.get(place, noted))
    return first_cause(fresh.values())


def _end_reported(draft: Draft, attempt: Attempt, place: Slot) -> bool:
    """Whether the kubelet has told how the worker of that place ended."""
    pods = (*draft.snapshot.own_pods(), *(lost.pod for lost in draft.snapshot.vanished))
    ends = (pod.worker for pod in pods if (pod.attempt, pod.slot) == (attempt.number, place))
    return any(end is not None and end.terminated is not None for end in ends)


def begin_when_possible(draft: Draft) -> None:
    """Begin the next attempt unless something stands in its way; what does is noted for the status."""
    if draft.spec.suspend:
        return
    if draft.problem is not None:
        draft.blocked = (draft.problem.reason, draft.problem.message)
        return
    if draft.seen.foreign:
        listed = ", ".join(sorted(pod.metadata.name for pod in draft.seen.foreign)[:3])
        draft.blocked = (
            "WaitingForOldPods",
            f"{len(draft.seen.foreign)} pod(s) of an earlier job of this name must go first: {listed}",
        )
        return
    if not fencing.closed(draft):
        draft.blocked = ("WaitingForOldPods", f"{len(draft.seen.may_run)} pod(s) of ended attempts may still run")
        return
    not_before = budgets.next_try(draft.status, draft.spec)
    if not_before is not None and draft.now < not_before:
        draft.wake(not_before)
        released = draft.attempt is not None and draft.attempt.reason == budgets.CAPACITY_RELEASED
        reason = budgets.CAPACITY_RELEASED if released else "Backoff"
        draft.blocked = (reason, f"the next attempt begins at {rfc3339(not_before)}")
        return
    shrunk = draft.attempt is not None and draft.attempt.reason in (budgets.FEWER_SLICES, budgets.POOL_TAKEN)
    if draft.status.phase is Phase.SUSPENDED:
        # What was free before the pause says nothing about now.
        shrunk = False
    _begin(draft, draft.granted if shrunk else draft.spec.most_slices)


def _begin(draft: Draft, slices: int) -> None:
    number = 0 if draft.status.attempt is None else draft.status.attempt + 1
    draft.update(
        attempt=number,
        attempts=(Attempt(number=number, start_time=draft.now), *draft.status.attempts)[:MAX_ATTEMPTS],
        succeeded_hosts=(),
        slices=SliceCounts(requested=draft.spec.most_slices, granted=slices),
        coordinator=environment.coordinator(draft.job, number, draft.resolved) if slices > 1 else None,
        ray=ray.state(draft.job) if draft.spec.ray is not None else None,
        resolved=draft.resolved,
        start_time=draft.status.start_time or draft.now,
        capacity_look_time=None,
    )
    draft.look()


def create(draft: Draft) -> None:
    """Ask for what the active attempt lacks: its pods, and the Services by which they find each other."""
    attempt, refused = draft.active, draft.snapshot.rejection
    if attempt is None:
        return
    if refused is not None and draft.now < (again := refused.at + _pause(draft, refused)):
        draft.wake(again)
        return
    pods = _missing_pods(draft, attempt)
    if not pods and not draft.seen.live:
        return
    if draft.snapshot.served != attempt.number and (refused is not None or not pods):
        # After a refusal first of all: it may be a Service's name that was taken, and then no pod shall be made.
        draft.act(CreateServices(attempt.number, services(draft)))
    draft.act(*pods)


def _pause(draft: Draft, refused: Rejection) -> timedelta:
    """How long to wait before asking again for what was refused; what has lost its owner goes by itself."""
    return (
        _OLD_GO if refused.reason == WAITING_FOR_OLD else timedelta(seconds=draft.spec.retries.capacity_retry_seconds)
    )


def _missing_pods(draft: Draft, attempt: Attempt) -> tuple[Action, ...]:
    """What makes the pods that the attempt lacks, if now is the time, and before its first ones what they need."""
    seen = draft.seen
    if attempt.running_time is not None or not seen.absent or seen.unwitnessed:
        return ()
    if draft.problem is not None:
        draft.blocked = (draft.problem.reason, draft.problem.message)
        return ()
    if seen.foreign or any(pod.attempt != attempt.number for pod in seen.may_run):
        return ()
    if placement.has_pool_to_itself(draft.resolved) and not seen.begun_here and draft.snapshot.listed_at is None:
        # What another process has pinned and no watch has shown yet would get siblings in another pool.
        draft.list_pods()
        return ()
    before = () if seen.live else _surroundings(draft, attempt.number)
    return (*before, CreatePods(attempt.number, tuple(sorted(seen.absent)), _pools(draft)))


def _pools(draft: Draft) -> dict[int, str]:
    """What is settled about the node pools of slices: they follow the pods they have, or the scheduler chooses."""
    if not placement.has_pool_to_itself(draft.resolved):
        return {}
    before = draft.status.attempts[1:2]
    doubtful = bool(before) and before[0].reason in (budgets.POOL_TAKEN, budgets.CAPACITY_RELEASED)
    settled = {slot[0]: pod.metadata.labels.node_pool for slot, pod in draft.seen.live.items() if slot != HEAD}
    # A slice that waits keeps out of the pools that another process chose; it may wait for what we would choose now.
    waited_for = not draft.seen.begun_here and "" in settled.values()
    if doubtful or waited_for or draft.resolved.schedule_seconds < PINNING_TAKES:
        return dict.fromkeys(sorted({slot[0] for slot in draft.seen.absent if slot != HEAD}), "") | settled
    return settled


def _surroundings(draft: Draft, number: int) -> tuple[Action, ...]:
    """What has to be there before the first pod of an attempt."""
    job = draft.job
    bodies = config_maps(job, number, draft.granted, draft.resolved)
    if draft.spec.ray is None:
        return (CreateObjects(bodies),) if bodies else ()
    return CreateObjects((ray.network_policy(job), *bodies)), CreateToken(ray.token_secret(job))


def services(draft: Draft) -> tuple[Body, ...]:
    """The Services of the job."""
    job = draft.job
    return (service(job),) if draft.spec.ray is None else (service(job), ray.service(job))

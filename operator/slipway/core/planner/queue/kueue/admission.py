"""A job in a queue of Kueue: it has pods only while its Workload is admitted, and keeps its quota over restarts.

    gate(draft)      before the attempts: whether the job may have pods, and why not
    settle(draft)    after them: what Kueue is told, so that quota is held exactly as long as pods may run

Kueue is told nothing when an attempt fails and the next one begins: one Workload stands for both.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from slipway.api.places import FIRST, HEAD
from slipway.api.status import Phase
from slipway.core.explain import kueue_messages
from slipway.core.manifests.additions import PodAdditions
from slipway.core.manifests.redact import foreign
from slipway.core.model.parts import Body
from slipway.core.model.pods import Pod
from slipway.core.model.workload import EVICTED, FINALIZER, FINISHED, QUOTA_RESERVED, Workload
from slipway.core.planner.contract.actions import Action, CreateWorkload, DeleteWorkload, PatchWorkload
from slipway.core.planner.contract.freshness import EVER
from slipway.core.planner.contract.snapshot import Snapshot
from slipway.core.planner.lifecycle import fencing
from slipway.core.planner.queue.kueue import pod_sets, priority_boost, readiness, topology, workloads
from slipway.core.planner.queue.kueue.queue_refusals import leaves_for_now, refusal
from slipway.core.planner.queue.kueue.workloads import Contradiction
from slipway.core.planner.state.draft import Draft, retry_pause
from slipway.core.planner.state.gate import OPEN, Blocker, Gate
from slipway.core.vocabulary.endings import PREEMPTED_BY_QUEUE, STOPPED_BY_QUEUE, ending_of
from slipway.core.vocabulary.reasons import (
    DELETED_WORKLOAD,
    ENTERING,
    FINISHED_WORKLOAD,
    NOT_USABLE,
    PREEMPTS,
    WAITING_FOR_OLD,
)


def gate(draft: Draft) -> Gate:
    """What the queue lets the job do: no pods while it does not admit the job.

    Raises:
        InvalidSpec: when the job can be in no queue and has made no attempt.
    """
    kueue = draft.snapshot.kueue
    if draft.job.queue is None or not (kueue.version or kueue.problem):
        topology.leave(draft)
    if draft.job.queue is None:
        return OPEN
    workload = kueue.workload
    if (refused := refusal(draft)) is not None:
        if draft.attempt is None and (workload is None or not kueue.problem):
            raise refused
        if draft.active is None or not _has_to_go(draft, workload):
            return _closed(draft, Blocker(refused.reason, refused.message, Phase.QUEUED))
    if draft.spec.suspend:
        return OPEN
    admitted = workload if workload is not None and workload.admitted and is_ours(draft, workload) else None
    if admitted is not None and not pod_sets.is_replaced(draft, admitted):
        slices = pod_sets.asked(draft, admitted) if draft.spec.acceptable_slices else None
        # The queue has had the job wait, and has admitted it again: its quota is not to lie idle.
        at_once = ending_of(draft.attempt) in (PREEMPTED_BY_QUEUE, STOPPED_BY_QUEUE)
        try:
            return Gate(at_once=at_once, slices=slices, additions=_additions(draft, admitted))
        except Contradiction as problem:
            blocker = Blocker(NOT_USABLE, f"admitted by its queue, but {problem}", Phase.QUEUED)
            return Gate(blocker, at_once=at_once, slices=slices)
    return _closed(draft, _blocker(draft, workload))


def _closed(draft: Draft, blocker: Blocker) -> Gate:
    return Gate(blocker, keeps_place=draft.job.is_as_accepted)


def stand(draft: Draft) -> None:
    """Say where the job stands in its queue, while that has not dispatched it to another cluster.

    Raises:
        InvalidSpec: when the job can be in no queue.
    """
    if (refused := refusal(draft)) is not None:
        raise refused
    draft.blocked = _blocker(draft, draft.snapshot.kueue.workload)
    draft.gate = Gate(draft.blocked)


def _has_to_go(draft: Draft, known: Workload | None) -> bool:
    """Whether the queue evicts the job, which is obeyed although others of Kueue's objects cannot be read."""
    kueue = draft.snapshot.kueue
    return bool(kueue.version) and not kueue.unseen and _eviction(draft, known) is not None


def _eviction(draft: Draft, known: Workload | None) -> Mapping[str, Any] | None:
    """The condition that says why the queue evicts the job; None while it does not."""
    if known is None or not is_ours(draft, known) or not known.holds(EVICTED):
        return None
    return known.condition(EVICTED)


def is_ours(draft: Draft, known: Workload) -> bool:
    """Whether a Workload of the job's name is that of the job, and not of an earlier one."""
    labels, job = known.metadata.labels, draft.job
    # The copy of a job has another UID than the job, which the copy of its Workload names.
    return labels.job_uid == job.uid or (job.origin != "" and labels.origin == job.origin)


def _blocker(draft: Draft, known: Workload | None) -> Blocker:
    """What a job shows that may have no pods, and how an attempt ends that has some."""
    preempted = (_eviction(draft, known) or {}).get("reason") in workloads.REQUEUED_AT_ONCE
    ending = PREEMPTED_BY_QUEUE if preempted else STOPPED_BY_QUEUE
    ends = (known.since(EVICTED), known.since(FINISHED), known.metadata.deletion_timestamp) if known is not None else ()
    # By a clock that is ahead it has yet to happen, and is obeyed all the same.
    since = max((end for end in ends if end is not None and end <= draft.now), default=EVER)
    return Blocker(*_words(draft, known), Phase.QUEUED, ending, since)


def _words(draft: Draft, known: Workload | None) -> tuple[str, str]:
    """Reason and message of a job that may have no pods."""
    if known is None:
        if draft.job.origin:
            removed = "MultiKueue has removed the Workload of this copy, and will remove the copy"
            return DELETED_WORKLOAD, removed
        refused = draft.snapshot.rejection
        if refused is not None:
            return refused.reason, refused.message
        return ENTERING, _without_workload(draft)
    name = f"Workload {known.metadata.name}"
    if not is_ours(draft, known):
        return WAITING_FOR_OLD, f"{name} of an earlier job of this name must go first"
    if known.deleting:
        return DELETED_WORKLOAD, f"{name} was deleted; the job is queued again when its pods have gone"
    if known.holds(FINISHED):
        said = known.condition(FINISHED).get("message", "")
        return FINISHED_WORKLOAD, f"{name} was finished by somebody else: {said}; the job is queued again"
    outdated = workloads.is_outdated(draft, known)
    if outdated or known.admitted:
        what = "the defaults of its pods have changed: they" if outdated else f"all {draft.spec.most_slices} slices"
        return ENTERING, f"{what} are asked for again by a new {name}"
    reason, message = kueue_messages.waiting(known)
    kueue = draft.snapshot.kueue
    message = foreign(kueue_messages.with_name(message, kueue.preemptor), draft.hiding)
    if reason == PREEMPTS:
        message = kueue_messages.with_preempted(message, kueue.preempted)
    if (asked := pod_sets.asked(draft, known)) < draft.spec.most_slices:
        message = f"{message}; {asked} of {draft.spec.most_slices} slices are asked for"
    return reason, message


def _without_workload(draft: Draft) -> str:
    """What is said of a job without a Workload; of an attempt that has pods it says why they are deleted."""
    queue = f"LocalQueue {draft.job.queue}"
    if draft.active is None:
        return f"its Workload in {queue} is being created"
    if any(attempt.admitted_time is not None for attempt in draft.status.attempts):
        return f"its Workload in {queue} is gone"
    return f"it has no Workload in {queue}: it was put in that queue while the attempt went on, or the Workload is gone"


def _additions(draft: Draft, admitted: Workload) -> tuple[PodAdditions, PodAdditions]:
    """What the admission adds to pods that are yet to be created.

    Raises:
        Contradiction: when the pods could not have it.
    """
    kueue = draft.snapshot.kueue
    workers = workloads.additions(kueue, workloads.WORKERS)
    head = workloads.additions(kueue, workloads.RAY_HEAD)
    if not draft.seen.live and draft.problem is None:
        factory = draft.pod_factory()
        for added, place in ((workers, FIRST), (head, HEAD)):
            if place in draft.seen.wanted:
                workloads.refuse_contradictions(added, factory.pod(0, place))
    if workloads.WORKERS in admitted.placed:
        workers = topology.placed(draft, admitted, workers, workloads.WORKERS)
    if workloads.RAY_HEAD in admitted.placed:
        head = topology.placed(draft, admitted, head, workloads.RAY_HEAD, head=True)
    return workers, head


def settle(draft: Draft) -> None:
    """Tell Kueue what has become of the job: once its pods cannot run any more, the quota is given back."""
    kueue = draft.snapshot.kueue
    if not kueue.version or kueue.unseen:
        return
    workload = kueue.workload
    if kueue.problem and not (workload is not None and is_ours(draft, workload) and _is_over(draft, workload)):
        return
    if workload is None:
        _create(draft)
    elif not is_ours(draft, workload):
        draft.act(*of_no_job(kueue.version, workload, draft.seen.foreign))
    elif draft.job.queue is None:
        draft.act(*_removal(kueue.version, workload))
    elif _is_over(draft, workload):
        if not _was_let_go(draft, workload) and _nothing_runs(draft):
            _let_go(draft, workload)
    else:
        _keep_up(draft, workload)


def _is_over(draft: Draft, known: Workload) -> bool:
    """Whether the Workload is, or has to be, without quota."""
    evicted = known.holds(EVICTED) and (known.status.admission is not None or known.holds(QUOTA_RESERVED))
    return draft.status.final or leaves_for_now(draft, known) or known.deleting or known.holds(FINISHED) or evicted


def _was_let_go(draft: Draft, known: Workload) -> bool:
    """Whether nothing is left to be told to Kueue."""
    ends = known.deleting or (draft.status.final and known.holds(FINISHED))
    return ends and FINALIZER not in known.metadata.finalizers


def _let_go(draft: Draft, known: Workload) -> None:
    """Give the quota back."""
    if draft.status.final and not known.deleting:
        _finish(draft, known)
    elif leaves_for_now(draft, known) or known.deleting or known.holds(FINISHED):
        draft.act(*_removal(draft.snapshot.kueue.version, known))
    elif (boost := priority_boost.removal(known)) is not None:
        draft.act(_patch(draft, known, boost))
    else:
        draft.act(_patch(draft, known, workloads.released(known, draft.now), status=True))


def of_no_job(version: str, known: Workload, pods: Iterable[Pod]) -> tuple[PatchWorkload | DeleteWorkload, ...]:
    """What becomes of the Workload of a job that is gone, or about to go; `pods` are those that the API still has.

    MultiKueue removes the Workloads that it has made: there is one before there is a job.
    """
    if known.metadata.labels.origin:
        return ()
    uid = known.metadata.labels.job_uid
    if any(pod.may_run for pod in pods if pod.metadata.labels.job_uid == uid):
        return ()
    return _removal(version, known)


def of_stopped_job(snapshot: Snapshot) -> tuple[Action, ...]:
    """What becomes of the Workload, or an earlier job's of the name, when a job is being deleted or cannot be run."""
    workload, version = snapshot.kueue.workload, snapshot.kueue.version
    if workload is None or not version or snapshot.kueue.unseen:
        return ()
    return of_no_job(version, workload, snapshot.pods)


def _nothing_runs(draft: Draft) -> bool:
    """Whether no pod of the job may run, and none is created by what is under way."""
    if draft.job.elsewhere:
        return True
    if draft.active is not None or not fencing.clear_to_start(draft) or fencing.orphaned(draft):
        return False
    return draft.attempt is None or fencing.is_seen_whole(draft)


def ask_again(draft: Draft) -> tuple[Action, ...]:
    """Create the Workload that was refused, while the status goes on to say so."""
    if draft.job.queue is None or draft.snapshot.kueue.workload is not None:
        return ()
    return (CreateWorkload(draft.snapshot.kueue.version, workloads.workload(draft)),)


def _create(draft: Draft) -> None:
    job = draft.job
    if job.queue is None or job.origin or draft.status.final or draft.spec.suspend or draft.problem is not None:
        return
    # An attempt without a Workload ends first: the quota would be for the next one.
    if draft.refresh_workload or (draft.active is not None and not draft.job.elsewhere):
        return
    if refusal(draft) is not None:
        return
    refused = draft.snapshot.rejection
    if refused is not None:
        since = (draft.attempt and draft.attempt.end_time) or draft.job.created
        if not draft.passed(refused.at + retry_pause(since, refused.at)):
            return
    draft.act(CreateWorkload(draft.snapshot.kueue.version, workloads.workload(draft)))


def _removal(version: str, known: Workload) -> tuple[PatchWorkload | DeleteWorkload, ...]:
    """Delete a Workload, and after that let it go: its finalizer holds the quota until then."""
    if not known.deleting:
        return (DeleteWorkload(version, known.metadata.name, known.metadata.uid),)
    if FINALIZER not in known.metadata.finalizers:
        return ()
    patch = {"metadata": workloads.without_finalizer(known)}
    return (PatchWorkload(version, known.metadata.name, known.metadata.resource_version, patch),)


def _finish(draft: Draft, known: Workload) -> None:
    result = draft.status.result
    if not known.holds(FINISHED):
        reason = "Succeeded" if draft.status.phase is Phase.SUCCEEDED else "Failed"
        words = result.message if result is not None else ""
        patch = workloads.with_condition(known, FINISHED, True, reason, words, draft.now)
        draft.act(_patch(draft, known, patch, status=True))
    elif FINALIZER in known.metadata.finalizers:
        draft.act(_patch(draft, known, workloads.without_finalizer(known)))


def _keep_up(draft: Draft, known: Workload) -> None:
    """Follow the labels of the job, and say whether its pods run and how much work they would lose."""
    if not draft.job.origin and (change := _followed(draft, known)) is not None:
        # What MultiKueue has copied follows the labels of the job that it was copied from.
        draft.act(*change)
    elif known.admitted and (ready := readiness.change(draft, known)) is not None:
        draft.act(_patch(draft, known, ready, status=True))
    elif known.admitted and (boost := priority_boost.change(draft, known)) is not None:
        draft.act(_patch(draft, known, boost))


def _followed(draft: Draft, known: Workload) -> tuple[Action, ...] | None:
    """What makes the Workload what the job and its labels ask for; None when it is."""
    waits = not known.holds(QUOTA_RESERVED) and draft.problem is None
    if waits and draft.snapshot.kueue.topologies is not None and known.placed != workloads.placed(draft):
        # The flavors of the queue have got a topology, or have lost it; podSets are made once.
        return _removal(draft.snapshot.kueue.version, known)
    enters_again = draft.problem is None and refusal(draft) is None
    if known.admitted:
        replaced = pod_sets.is_replaced(draft, known)
    else:
        replaced = known.holds(QUOTA_RESERVED) and workloads.is_outdated(draft, known)
    if enters_again and replaced:
        return _removal(draft.snapshot.kueue.version, known) if _nothing_runs(draft) else ()
    if (sizes := pod_sets.change(draft, known)) is not None:
        return (_change(draft, known, sizes),)
    spec = workloads.changed_spec(draft, known)
    return (_change(draft, known, pod_sets.moved(draft, known, spec)),) if spec is not None else None


def _patch(draft: Draft, known: Workload, patch: Body, *, status: bool = False) -> PatchWorkload:
    return _change(draft, known, {"status" if status else "metadata": patch}, status=status)


def _change(draft: Draft, known: Workload, patch: Body, *, status: bool = False) -> PatchWorkload:
    version = draft.snapshot.kueue.version
    return PatchWorkload(version, known.metadata.name, known.metadata.resource_version, patch, status)

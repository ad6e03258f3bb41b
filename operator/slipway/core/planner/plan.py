"""The entry of the planner: what to write and what to do, given a snapshot.

    observe -> plan -> apply

`plan` is pure and total: the same snapshot at the same moment gives the same plan, and every snapshot gives one.
Carrying a plan out twice does nothing twice, so an operator that crashes anywhere goes on from what it finds.
"""

from datetime import datetime, timedelta
from typing import Final

from slipway.api.places import FIRST, HEAD
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Phase
from slipway.core.manifests.accepted import InvalidSpec, effective
from slipway.core.manifests.redact import foreign, named
from slipway.core.model.job import Job
from slipway.core.model.parts import Body
from slipway.core.planner import multikueue
from slipway.core.planner.capacity import held_nodes, wait_for_nodes
from slipway.core.planner.contract.actions import Check, DeleteJob, DeletePods, Plan
from slipway.core.planner.contract.snapshot import Rejection, Snapshot
from slipway.core.planner.lifecycle import attempts, creation, fencing, requests
from slipway.core.planner.queue import queues
from slipway.core.planner.state.draft import Draft
from slipway.core.planner.status import conditions, progress, throttle
from slipway.core.planner.status.ledger import accounted
from slipway.core.validation.acceptance import accept, changed_since

CHECK_AGAIN: Final = timedelta(seconds=60)
"""How long a refusal of the pods stands at most: what was missing, such as a ServiceAccount, may be there by then."""

CHECK_SOON: Final = timedelta(seconds=1)
"""How long it stands at least."""


def plan(snapshot: Snapshot, now: datetime) -> Plan:
    """Decide what becomes of a job.

    Args:
        snapshot: the job, its pods and their nodes as they were last seen.
        now: the moment of the decision, in UTC.

    Returns:
        The status to write first, what to do after that, and when to look again at the latest.
    """
    job = snapshot.job
    if job.deleting:
        return Plan(job.status, () if job.orphaning else (*_remove_pods(snapshot), *queues.of_stopped_job(snapshot)))
    if job.status_problem:
        return Plan(conditions.unreadable(job, "StatusUnreadable", job.status_problem, now))
    if job.spec is None and job.status.attempt is not None and not job.status.final:
        kept = () if job.in_attempt else queues.of_stopped_job(snapshot)
        return Plan(conditions.unreadable(job, "InvalidSpec", job.problem, now), kept)
    try:
        if job.spec is None:
            raise InvalidSpec("InvalidSpec", job.problem)
        draft = _draft(snapshot, job.spec, now)
        if job.elsewhere:
            multikueue.follow(draft)
            return _settled(draft)
        if draft.status.final:
            return _after_the_end(draft)
        draft.gate = queues.gate(draft)
        if (asked := _check(draft)) is not None:
            return asked
    except InvalidSpec as problem:
        return _refusal(snapshot, problem, now)
    requests.stop_on_request(draft)
    if not draft.status.final:
        attempts.follow(draft)
        held_nodes.follow(draft)
        wait_for_nodes.wait(draft)
    fencing.delete_stale_pods(draft)
    creation.create(draft)
    queues.settle(draft)
    progress.follow(draft)
    conditions.summarise(draft)
    return _settled(draft)


def _draft(snapshot: Snapshot, spec: SliceJobSpec, now: datetime) -> Draft:
    """A draft to decide on.

    A job that has made attempts is always followed to their end, whatever became of its spec since.
    """
    job = snapshot.job
    try:
        asked = accept(job, snapshot.settings)
        problem = changed_since(job, asked.resolved)
    except InvalidSpec as error:
        if job.status.attempt is None or job.status.resolved is None:
            raise
        asked, problem = effective(spec, job.status.resolved, job.site), error
    told = _without_secrets(problem, job) if problem is not None and job.status.attempt is not None else None
    return Draft(snapshot, asked, now, job.status, told)


def _without_secrets(problem: InvalidSpec, job: Job) -> InvalidSpec:
    """What is wrong with a spec as it may be written: it may repeat what the author of the job wrote."""
    return InvalidSpec(problem.reason, foreign(problem.message, job.site.hiding(job.spec)))


def _check(draft: Draft) -> Plan | None:
    """Before anything exists, the API server must agree to pods and Services in a dry run."""
    snapshot, job = draft.snapshot, draft.job
    if job.status.attempt is not None:
        return None
    rejection = snapshot.rejection
    if rejection is not None and rejection.final:
        again = queues.ask_again(draft) if snapshot.checked else ()
        if draft.now < _checked_again(job, rejection):
            words = named(rejection.message, _checked(draft))
            what = "Workload" if again else "pods"
            raise InvalidSpec(rejection.reason, f"{snapshot.settings.maker} refuses the {what}: {words}")
        if again:
            return Plan(job.status, again)
    if snapshot.checked or (rejection is not None and not rejection.final) or draft.spec.suspend or draft.spec.cancel:
        return None
    if draft.gate.keeps_place:
        # A refusal would cost the job its place in the queue; an admitted job is asked about before its first attempt.
        return None
    # The answer for equal pods is known; whether somebody has the name of a Service is not.
    pods = () if snapshot.equal_accepted else _checked(draft)
    services = creation.first_of_each_role(draft.runtime.services(draft.peers(0)))
    return Plan(job.status, (Check((*pods, *services)),))


def _checked(draft: Draft) -> tuple[Body, ...]:
    """One pod of each kind."""
    factory = draft.pod_factory()
    return tuple(factory.pod(0, place) for place in (FIRST, HEAD) if place in draft.seen.wanted)


def _refusal(snapshot: Snapshot, problem: InvalidSpec, now: datetime) -> Plan:
    job = snapshot.job
    if job.status.final:
        due = requests.expiry(job, job.status) if not job.origin else None
        over = due is not None and now >= due
        ends = (DeleteJob(),) if over else queues.of_stopped_job(snapshot)
        return Plan(job.status, ends, wake_at=None if over else due)
    status = conditions.refuse(job, problem.reason, _without_secrets(problem, job).message, now)
    if throttle.only_progress(job.status, status) and throttle.words_of(job.status) == throttle.words_of(status):
        status = job.status
    if status != job.status:
        status = accounted(snapshot, status, now)
    refused = snapshot.rejection if snapshot.rejection and snapshot.rejection.reason == problem.reason else None
    again = _checked_again(job, refused) if refused else None
    return Plan(status, queues.of_stopped_job(snapshot), wake_at=again)


def _checked_again(job: Job, refused: Rejection) -> datetime:
    """When to ask again: ever later, for what came together with the job, its namespace say, is there in a moment."""
    return refused.at + min(max(refused.at - job.created, CHECK_SOON), CHECK_AGAIN)


def _remove_pods(snapshot: Snapshot) -> tuple[DeletePods, ...]:
    """A job that is being deleted takes its pods along at once; the garbage collector would take its time."""
    return tuple(fencing.deletions(snapshot.staying(snapshot.own_pods()), None, ended_too=True))


def _after_the_end(draft: Draft) -> Plan:
    """A final phase never changes; what still runs is stopped, and the record goes when its time is over.

    What another version has written of a phase that only it knows is left to it.
    """
    fencing.delete_stale_pods(draft)
    queues.settle(draft)
    requests.expire(draft)
    if draft.status.phase is not None and draft.status.phase.known:
        progress.follow(draft)
        conditions.summarise(draft)
    return _settled(draft)


def _settled(draft: Draft) -> Plan:
    """The plan of a draft; a status that only shows progress is held back until it is worth a write."""
    before, status = draft.job.status, draft.status
    written = draft.snapshot.status_written
    if written is None and before.succeeded_hosts == status.succeeded_hosts:
        # Right after taking over, Events and pods of others are not read yet: a message may be poorer than the stored.
        written = draft.snapshot.known.leading_since
    minor = before != status and throttle.only_progress(before, status)
    if status.attempt is None and status.phase is Phase.PENDING and draft.refresh_pods:
        # The first attempt begins in a moment, when the pods of an earlier job of this name are listed.
        status = before
    elif minor and (draft.refresh_events or draft.refresh_visitors):
        # The answers are there in a moment, and complete the words.
        status = before
    elif minor and written is not None:
        due = written + throttle.progress_interval(before, status, len(draft.seen.wanted))
        status = status if draft.passed(due) else before
    if status != before:
        status = accounted(draft.snapshot, status, draft.now)
    return Plan(status, (*draft.actions, *draft.refresh), draft.wake_at, draft.before)

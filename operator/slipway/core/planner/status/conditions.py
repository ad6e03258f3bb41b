"""The parts of the status that follow from the attempts: phase, conditions and counts."""

from datetime import datetime
from typing import Final

from slipway.api.base import rfc3339
from slipway.api.places import HEAD, intervals
from slipway.api.status import (
    MAX_HOSTS,
    Attempt,
    Condition,
    ConditionType,
    Phase,
    PhaseKind,
    Resolved,
    Result,
    SliceCounts,
    SliceJobStatus,
)
from slipway.core.manifests.redact import brief
from slipway.core.model.job import Job
from slipway.core.planner.capacity import wait_for_nodes
from slipway.core.planner.lifecycle import fencing, retries
from slipway.core.planner.lifecycle.start_trouble import trouble
from slipway.core.planner.state.draft import Draft
from slipway.core.planner.state.gate import Blocker
from slipway.core.planner.state.observation import blocked_hosts
from slipway.core.planner.status import progress
from slipway.core.validation.acceptance import HASH_VERSION
from slipway.core.validation.warnings import sidecars
from slipway.core.vocabulary.endings import CANCELLED, SUSPENDED, ending_of
from slipway.core.vocabulary.reasons import WAIT_FOR_USER, WAITING_FOR_OLD

_ABSENT_WHEN_FALSE: Final = (ConditionType.RECONCILING, ConditionType.STALLED)
"""kstatus wants these present only while they are true."""
_SUSPENDED: Final = "suspended by spec.suspend; nothing is charged; set it to false to begin the next attempt"
_NODES_HIDDEN: Final = (
    "the operator may not read Nodes: it learns of lost machines from their pods alone, and force-deletes none; to "
    "change that, install the chart with readNodes true"
)
_NOTHING_HELD: Final = "no pod runs and no capacity is held"


def summarise(draft: Draft) -> None:
    """Set everything in the status that follows from the attempts."""
    phase, reason, message = _story(draft)
    if not draft.job.status.final:
        _count(draft)
    draft.update(
        phase=phase,
        observed_generation=draft.job.generation,
        resolved=_resolved(draft),
        conditions=_conditions(draft, phase, reason, message),
    )


def _resolved(draft: Draft) -> Resolved:
    """The effective values. Those of the accepted spec stay until a changed spec is accepted during a suspension."""
    accepted, suspended = draft.status.resolved, draft.job.status.phase is Phase.SUSPENDED
    if accepted is not None and draft.job.status.final:
        # What has become of the site since is nothing to a job that is over.
        return accepted
    if accepted is None or (suspended and draft.problem is None):
        return draft.resolved
    # Where another version of Slipway made the hash, it is made anew.
    mine = accepted.template_hash.startswith(HASH_VERSION)
    return draft.resolved.model_copy(update={"template_hash": accepted.template_hash}) if mine else draft.resolved


def _story(draft: Draft) -> tuple[Phase, str, str]:
    """Phase, reason and message."""
    status, attempt = draft.status, draft.attempt
    if status.result is not None and status.phase is not None:
        return status.phase, status.result.reason, status.result.message
    if draft.spec.suspend and draft.active is None and draft.unjudged is None:
        return Phase.SUSPENDED, SUSPENDED.reason, _SUSPENDED
    if draft.blocked is not None:
        return _blocked(draft, attempt, draft.blocked)
    if attempt is None:
        return Phase.PENDING, "Pending", "nothing has been created yet"
    if attempt.end_time is not None:
        return Phase.RESTARTING, attempt.reason or "Restarting", f"attempt {attempt.number}: {attempt.message}"
    if attempt.running_time is not None:
        return Phase.RUNNING, "Running", draft.runtime.running(attempt.number, len(draft.seen.wanted))
    if (short := wait_for_nodes.shortage(draft)) is not None:
        short = wait_for_nodes.explained(draft, short)
        return short.phase, short.reason, short.message
    return _start(draft, attempt.number)


def _blocked(draft: Draft, attempt: Attempt | None, blocker: Blocker) -> tuple[Phase, str, str]:
    """What a job shows whose next attempt, or the creation of whose pods, is blocked."""
    if blocker.phase is not None:
        return blocker.phase, blocker.reason, blocker.message
    due = retries.next_try(draft.status, draft.spec) if attempt is not None and ending_of(attempt).held else None
    if (
        attempt is not None
        and due is not None
        and draft.now < due
        and blocker.reason in (attempt.reason, WAITING_FOR_OLD)
    ):
        draft.wake(due)
        again = f"attempt {attempt.number}: {attempt.message}; the next attempt begins at {rfc3339(due)}"
        return Phase.PENDING, attempt.reason or "", again
    return (Phase.RESTARTING if attempt else Phase.PENDING), blocker.reason, blocker.message


def _start(draft: Draft, number: int) -> tuple[Phase, str, str]:
    """Why the pods of a started attempt do not run yet: phase, reason and message."""
    late = draft.seen.late
    explanation = trouble(draft)
    if explanation is None:
        return Phase.STARTING, "Starting", f"attempt {number}: waiting for its pods to run"
    phase = Phase.PENDING if explanation.reason in WAIT_FOR_USER else Phase.STARTING
    condition = draft.job.status.condition(ConditionType.RUNNING)
    if explanation.vague and condition is not None and condition.reason == explanation.reason:
        return phase, condition.reason, condition.message
    waiting, said = f"{len(late)} of {len(draft.seen.wanted)} pods wait", brief(explanation.message, draft.hiding)
    return phase, explanation.reason, f"attempt {number}: {waiting}: {said}; {explanation.next_step}"


def _count(draft: Draft) -> None:
    requested, per_slice = draft.spec.most_slices, draft.resolved.hosts
    started: dict[int, int] = {}
    if draft.active is not None or draft.status.phase is Phase.SUCCEEDED:
        for place in draft.seen.started - {HEAD}:
            started[place.slice] = started.get(place.slice, 0) + 1
    ready = sum(count == per_slice for count in started.values())
    draft.update(
        slices=SliceCounts(requested=requested, granted=draft.granted, ready=ready),
        ready_slices=f"{ready}/{requested}",
        hosts=blocked_hosts(draft.seen, draft.hiding, MAX_HOSTS) if draft.starting else (),
        succeeded_hosts=intervals(draft.seen.succeeded) if draft.active else draft.status.succeeded_hosts,
    )


def _conditions(draft: Draft, phase: Phase, reason: str, message: str) -> tuple[Condition, ...]:
    failed = phase.kind in (PhaseKind.FAILED, PhaseKind.STOPPED)
    settled = phase.final or phase.kind in (PhaseKind.RUNS, PhaseKind.RESTS)
    fence_open = not fencing.clear_to_start(draft)
    late = fencing.overdue(draft)
    found: list[tuple[ConditionType, bool, str, str]] = [
        _accepted(draft),
        _capacity(draft, phase, reason, message),
        (ConditionType.RUNNING, phase is Phase.RUNNING, reason, message),
        _finished(phase, message),
        (ConditionType.COMPLETE, phase is Phase.SUCCEEDED, reason, message if phase.final else ""),
        (ConditionType.FAILED, failed, reason if failed else "NotFailed", message if failed else ""),
        _suspended(phase, fence_open),
        (ConditionType.RECONCILING, not settled, reason, message),
        (ConditionType.STALLED, failed, reason, message),
    ]
    if draft.runtime.waits_for_clients:
        found.append(_ready(draft, reason, message))
    if late or draft.job.status.condition(ConditionType.CLEANUP_PENDING) is not None:
        found.append((ConditionType.CLEANUP_PENDING, bool(late), "PodsNotTerminating" if late else "Clean", late))
    visible = draft.snapshot.nodes_watched
    if not visible or draft.job.status.condition(ConditionType.NODES_VISIBLE) is not None:
        words = ("NodesWatched", "") if visible else ("NodesForbidden", _NODES_HIDDEN)
        found.append((ConditionType.NODES_VISIBLE, visible, *words))
    if (logs := progress.visible(draft)) is not None:
        found.append(logs)
    return _dated(found, draft.job.status, draft.now, draft.job.generation)


def _finished(phase: Phase, message: str) -> tuple[ConditionType, bool, str, str]:
    """The one condition that becomes True however the job ends."""
    return ConditionType.FINISHED, phase.final, phase.value if phase.final else "NotFinished", message * phase.final


def _kept(draft: Draft, kind: ConditionType) -> tuple[ConditionType, bool, str, str] | None:
    """A condition that stays as it was written with the end of the job; None while the job has not ended."""
    condition = draft.job.status.condition(kind) if draft.job.status.final else None
    return (kind, condition.status == "True", condition.reason, condition.message) if condition is not None else None


def _accepted(draft: Draft) -> tuple[ConditionType, bool, str, str]:
    if (kept := _kept(draft, ConditionType.ACCEPTED)) is not None:
        return kept
    if draft.problem is not None:
        return ConditionType.ACCEPTED, False, draft.problem.reason, draft.problem.message
    said = draft.job.status.condition(ConditionType.ACCEPTED)
    if said is not None and draft.gate.keeps_place and not draft.snapshot.checked:
        return ConditionType.ACCEPTED, True, said.reason, said.message
    asked = draft.attempt is not None or draft.snapshot.checked
    pods = "takes its pods" if asked else "checks its pods in a dry run before the first attempt"
    message = f"the spec is valid and {draft.snapshot.settings.maker} {pods}{sidecars(draft.spec)}"
    return ConditionType.ACCEPTED, True, "Accepted", message


def _capacity(draft: Draft, phase: Phase, reason: str, message: str) -> tuple[ConditionType, bool, str, str]:
    if phase.kind is PhaseKind.LACKS_NODES:
        return ConditionType.CAPACITY_AVAILABLE, False, reason, message
    if (kept := _kept(draft, ConditionType.CAPACITY_AVAILABLE)) is not None:
        return kept
    attempt, observation = draft.active, draft.seen
    if attempt is None:
        return ConditionType.CAPACITY_AVAILABLE, False, "NoAttempt", "no attempt is under way"
    placed = attempt.running_time is not None or not (observation.unscheduled or observation.absent)
    return (
        ConditionType.CAPACITY_AVAILABLE,
        placed,
        "Scheduled" if placed else "NotScheduledYet",
        "every pod of the attempt has a node" if placed else "",
    )


def _ready(draft: Draft, reason: str, message: str) -> tuple[ConditionType, bool, str, str]:
    """Whether clients can reach a Ray head with all its workers."""
    running = draft.active is not None and draft.active.running_time is not None
    head = draft.seen.live.get(HEAD)
    if running and (head is None or not head.started):
        return ConditionType.READY, False, "HeadNotReady", "the Ray head does not answer"
    return ConditionType.READY, running, reason, message


def _suspended(phase: Phase, fence_open: bool) -> tuple[ConditionType, bool, str, str]:
    if phase is not Phase.SUSPENDED:
        return ConditionType.SUSPENDED, False, "NotSuspended", ""
    if fence_open:
        return ConditionType.SUSPENDED, False, "PodsEnding", "the pods are being stopped"
    return ConditionType.SUSPENDED, True, SUSPENDED.reason, _NOTHING_HELD


def _dated(
    found: list[tuple[ConditionType, bool, str, str]], before: SliceJobStatus, now: datetime, generation: int
) -> tuple[Condition, ...]:
    """The conditions, each with the lastTransitionTime it had if its status has not changed."""
    old = {condition.type: condition for condition in before.conditions}
    dated = []
    for kind, holds, reason, message in found:
        if not holds and kind in _ABSENT_WHEN_FALSE:
            continue
        value = "True" if holds else "False"
        same = old.get(kind)
        since = same.last_transition_time if same is not None and same.status == value else now
        dated.append(
            Condition(
                type=kind,
                status=value,
                reason=reason,
                message=message[:32768],
                last_transition_time=since,
                observed_generation=generation,
            )
        )
    return tuple(dated)


def refuse(job: Job, reason: str, message: str, now: datetime) -> SliceJobStatus:
    """The status of a job without attempts whose spec or pods are rejected. Cancel and suspend still take effect."""
    phase, why, words = Phase.INVALID, reason, message
    never_began = job.spec if job.status.attempt is None else None
    if never_began is not None and never_began.cancel:
        phase, why, words = Phase.CANCELLED, CANCELLED.reason, "cancelled by spec.cancel"
    elif never_began is not None and never_began.suspend:
        phase, why, words = Phase.SUSPENDED, SUSPENDED.reason, _SUSPENDED
    found = [
        (ConditionType.ACCEPTED, False, reason, message),
        (ConditionType.RUNNING, False, why, words),
        _finished(phase, words),
        (ConditionType.COMPLETE, False, why, ""),
        (ConditionType.FAILED, phase is not Phase.SUSPENDED, why, words),
        (ConditionType.STALLED, phase is not Phase.SUSPENDED, why, words),
        _suspended(phase, fence_open=False),
    ]
    changed = {kind for kind, *_ in found} | set(_ABSENT_WHEN_FALSE)
    others = (condition for condition in job.status.conditions if condition.type not in changed)
    return job.status.model_copy(
        update={
            "phase": phase,
            "observed_generation": job.generation,
            "conditions": (*_dated(found, job.status, now, job.generation), *others),
            "result": Result(reason=why, message=words) if phase.final else None,
            "completion_time": now if phase.final else None,
        }
    )


def unreadable(job: Job, reason: str, problem: str, now: datetime) -> SliceJobStatus:
    """The status with Accepted False: all that is written while it, or the spec of a job that began, cannot be read."""
    message = (
        f"{problem}; the status and the pods stay as they are: restore the field, or run the version of Slipway that "
        "wrote it"
    )
    accepted = _dated([(ConditionType.ACCEPTED, False, reason, message)], job.status, now, job.generation)
    others = (condition for condition in job.status.conditions if condition.type != ConditionType.ACCEPTED)
    return job.status.model_copy(update={"conditions": (*accepted, *others)})

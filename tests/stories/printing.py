"""What an operator writes and does, a line each: of a story, of a recorded decision, and of a failed history."""

from collections.abc import Collection, Iterable, Iterator
from typing import Final

from slipway.api.places import Place
from slipway.api.status import ConditionType, SliceJobStatus
from slipway.core.model.parts import Body
from slipway.core.planner.contract.actions import (
    Action,
    Check,
    CreateObjects,
    CreatePods,
    CreateServices,
    CreateToken,
    CreateWorkload,
    DeleteHostLists,
    DeleteJob,
    DeletePods,
    DeleteWorkload,
    ForceDeletePod,
    KeepHistory,
    PatchWorkload,
    Plan,
    Refresh,
)

_PLAIN: Final[dict[type[Action], str]] = {
    CreateToken: "create the token of the Ray cluster",
    CreateWorkload: "create the Workload",
    PatchWorkload: "patch the Workload",
    DeleteWorkload: "delete the Workload",
    DeleteHostLists: "delete the host lists of earlier attempts",
    KeepHistory: "keep attempts that leave the status",
    DeleteJob: "delete the job",
}
_COUNTS: Final = ("failures", "preemptions", "infrastructure_failures", "uncharged")


def lines(before: SliceJobStatus, decision: Plan, *, reads: bool = False) -> Iterator[str]:
    """What one decision writes, then what it does; with `reads` also what it wants to know first."""
    yield from written(before, decision.status)
    for action in (*decision.before, *decision.actions):
        if reads or not isinstance(action, Refresh):
            yield f"do      {words_of(action)}"


def written(before: SliceJobStatus, after: SliceJobStatus) -> Iterator[str]:
    """What is new in a status: ends and charges of attempts, counts, then what the job does now."""
    known = {attempt.number: attempt for attempt in before.attempts}
    for attempt in reversed(after.attempts):
        old = known.get(attempt.number)
        if old is None:
            yield f"status  attempt {attempt.number} begins"
        if attempt.end_time is not None and (old is None or old.end_time is None):
            yield f"status  attempt {attempt.number} has ended: {attempt.reason}"
        if attempt.cause is not None and (old is None or old.cause is None):
            yield f"status  attempt {attempt.number}: {attempt.cause}, {attempt.reason}: {attempt.message}"
    counts = [(name, getattr(before, name), getattr(after, name)) for name in _COUNTS]
    if changed := [f"{name.replace('_', ' ')} {new}" for name, old, new in counts if old != new]:
        yield f"status  {', '.join(changed)}"
    if _now(before) != _now(after):
        yield f"status  {_now(after)}"


def _now(status: SliceJobStatus) -> str:
    if status.result is not None:
        return f"{_phase(status, status.result.reason)}: {status.result.message}"
    refused = status.condition(ConditionType.ACCEPTED)
    if refused is not None and refused.status == "False":
        return f"{_phase(status, refused.reason)}: {refused.message}"
    running = status.condition(ConditionType.RUNNING)
    return f"{_phase(status, running.reason)}: {running.message}" if running is not None else f"{status.phase}"


def _phase(status: SliceJobStatus, reason: str) -> str:
    return f"{status.phase}" if reason == status.phase else f"{status.phase} ({reason})"


def words_of(action: Action) -> str:
    """What an action asks the API server for."""
    match action:
        case Check(bodies):
            return f"dry run of {_kinds(bodies)}"
        case CreateObjects(bodies):
            return f"create {_kinds(bodies)}"
        case CreateServices(attempt, bodies):
            return f"create {_kinds(bodies)} of attempt {attempt}"
        case CreatePods(attempt, places, _):
            return f"create {_count(places)} of attempt {attempt}"
        case DeletePods():
            return _deletion(action)
        case ForceDeletePod(name, _, node):
            return f"force-delete pod {name} of node {node}"
        case Refresh():
            return f"read again: {_reads(action)}"
        case _:
            return _PLAIN[type(action)]


def _count(places: Collection[Place]) -> str:
    workers = sum(not place.is_head for place in places)
    pods = f"{workers} pod{'s' * (workers != 1)}"
    return pods if workers == len(places) else f"{pods} and the Ray head" if workers else "the Ray head"


def _deletion(action: DeletePods) -> str:
    slices = f"slice{'s' * (len(action.slices) != 1)} {', '.join(map(str, action.slices))}" if action.slices else ""
    what = " and ".join(filter(None, (slices, "the Ray head" if action.head else "")))
    ended = ", ended ones too" if action.ended_too else ""
    grace = f", {action.grace_seconds} s of grace" if action.grace_seconds is not None else ""
    spared = f", but not {', '.join(place.words for place in action.except_places)}" if action.except_places else ""
    return f"delete the pods of {what} of attempt {action.attempt}{spared}{ended}{grace}"


def _kinds(bodies: Iterable[Body]) -> str:
    known = [body["kind"] for body in bodies]
    return ", ".join(f"{known.count(kind)} {kind}{'s' * (known.count(kind) > 1)}" for kind in dict.fromkeys(known))


def _reads(asked: Refresh) -> str:
    named = {"nodes": asked.nodes, "kubelets": asked.kubelets, "visitors": asked.visitors, "events": asked.events}
    parts = ["pods"] * asked.pods + ["the Workload"] * asked.workload
    return ", ".join([*parts, *(f"{kind} {', '.join(names)}" for kind, names in named.items() if names)])

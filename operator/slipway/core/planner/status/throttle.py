"""Which changes of a status are only progress, and how long these are held back: each write goes to every watch."""

from datetime import timedelta
from typing import Any, Final

from slipway.api.status import Condition, ConditionType, Phase, PhaseKind, SliceJobStatus
from slipway.core.explain import scheduler
from slipway.core.planner.state.observation import NOTHING_WRONG
from slipway.core.planner.status import progress

REASONS_AFTER: Final = timedelta(seconds=5)
COUNTS_AFTER: Final = timedelta(seconds=30)
LARGE_JOBS_AFTER: Final = timedelta(seconds=60)
"""How long progress is held back before it is written: new reasons, new counts, and the most for a large job."""
WORDS_AFTER: Final = timedelta(seconds=120)
"""How often a job that waits for nodes or quota writes that others have them now."""
LOOKS_AFTER: Final = timedelta(seconds=600)
"""How often a job that only waits for capacity writes its status."""


def progress_interval(before: SliceJobStatus, after: SliceJobStatus, hosts: int) -> timedelta:
    """How long after the last write a change that is only progress is held back, for a job of so many hosts.

    A large job takes longer to start, and each write sends its large status to every watch. The reasons why hosts wait,
    and the hosts that have succeeded, are written sooner than the number of hosts that have started.
    """
    if (only_steps := progress.only_steps(before, after)) is not None:
        return only_steps
    if _uncounted(before) == _uncounted(after):
        return WORDS_AFTER if _explained(before) != _explained(after) else LOOKS_AFTER
    if _reason(before) != _reason(after):
        return REASONS_AFTER
    least = COUNTS_AFTER if _hold_up(before) == _hold_up(after) else REASONS_AFTER
    return min(max(least, timedelta(seconds=hosts / 10)), LARGE_JOBS_AFTER)


def _uncounted(status: SliceJobStatus) -> SliceJobStatus:
    """Without what changes while a job waits for nodes or quota and nothing happens: counts, and words."""
    update: dict[str, Any] = {"capacity_look_time": None, "capacity_waits": 0, "progress": None}
    if _lacks_nodes(status):
        update["conditions"] = tuple(condition.model_copy(update={"message": ""}) for condition in status.conditions)
        update["hosts"] = tuple(host.model_copy(update={"message": None}) for host in status.hosts)
    return status.model_copy(update=update)


def _lacks_nodes(status: SliceJobStatus) -> bool:
    return status.phase is not None and status.phase.kind is PhaseKind.LACKS_NODES


def _hold_up(status: SliceJobStatus) -> tuple[object, ...]:
    """What is written sooner than counts."""
    reasons = frozenset(host.reason for host in status.hosts) - NOTHING_WRONG
    placed = status.condition(ConditionType.CAPACITY_AVAILABLE)
    return status.phase, reasons, status.succeeded_hosts, placed is not None and placed.status


def _explained(status: SliceJobStatus) -> str:
    """What Slipway says of node pools, and Kueue of queues. The scheduler's words change with every pod."""
    running = status.condition(ConditionType.RUNNING)
    told = status.phase is Phase.QUEUED or (running is not None and running.reason in scheduler.NODE_REASONS)
    return running.message if running is not None and told else ""


def _reason(status: SliceJobStatus) -> str:
    """Why the job does not run, in one word."""
    running = status.condition(ConditionType.RUNNING)
    return running.reason if running is not None else ""


def words_of(status: SliceJobStatus) -> list[str]:
    """What the conditions say to people."""
    return [condition.message for condition in status.conditions]


def only_progress(before: SliceJobStatus, after: SliceJobStatus) -> bool:
    """Whether only progress changed: counts, hosts, reasons, messages. It need not be written at once."""
    return _essence(before) == _essence(after)


def _essence(status: SliceJobStatus) -> SliceJobStatus:
    waits = (status.phase is Phase.PENDING or _lacks_nodes(status)) and status.attempt is not None
    return status.model_copy(
        update={
            "phase": Phase.STARTING if waits else status.phase,
            "slices": None,
            "ready_slices": None,
            "hosts": (),
            "succeeded_hosts": (),
            "capacity_look_time": None,
            "capacity_waits": 0,
            "progress": None,
            "conditions": tuple(map(_essential, status.conditions)),
        }
    )


def _essential(condition: Condition) -> tuple[str, str | None, int | None]:
    """What is essential of a condition.

    That all pods have nodes is on the way to Running, which is mostly written a moment later.
    """
    status = None if condition.type == ConditionType.CAPACITY_AVAILABLE else condition.status
    return condition.type, status, condition.observed_generation

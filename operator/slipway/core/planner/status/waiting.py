"""Every reason why a job waits, and the one for which it does."""

from typing import Final

from slipway.api.status import ConditionType, Phase, SliceJobStatus
from slipway.core.explain import api_server, kubelet, kueue_messages, scheduler
from slipway.core.vocabulary.endings import CAPACITY_RELEASED
from slipway.core.vocabulary.reasons import (
    BACKOFF,
    GATED,
    GATED_BY_KUEUE,
    NAME_TAKEN,
    POD_REJECTED,
    UNSCHEDULABLE,
    WAITING_FOR_OLD,
)

_STARTING: Final = "Starting"
WAITING_REASONS: Final = tuple(
    sorted(
        kubelet.START_REASONS
        | scheduler.NODE_REASONS.keys()
        | kueue_messages.QUEUE_REASONS
        | {row.reason for row in api_server.ROWS}
        | {POD_REJECTED, NAME_TAKEN, WAITING_FOR_OLD, UNSCHEDULABLE, BACKOFF, CAPACITY_RELEASED.reason}
        | {GATED, GATED_BY_KUEUE, _STARTING, Phase.PENDING}
    )
)
"""Why a job waits, in one word each."""


def waiting_reason(status: SliceJobStatus) -> str | None:
    """Why a job that wants to run does not; None when it runs, has ended, or is not to run."""
    if not (status.phase or Phase.PENDING).waiting:
        return None
    if status.attempt_ended and status.attempts[0].cause is None:
        return WAITING_FOR_OLD
    running = status.condition(ConditionType.RUNNING)
    return running.reason if running is not None else Phase.PENDING

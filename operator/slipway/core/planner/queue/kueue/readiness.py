"""What Kueue is told of the pods of an admitted job: whether they run."""

from datetime import timedelta
from typing import Final

from slipway.core.model.parts import Body
from slipway.core.model.workload import PODS_READY, Workload
from slipway.core.planner.queue.kueue import workloads
from slipway.core.planner.state.draft import Draft

RECOVERING: Final = timedelta(seconds=60)
"""How long the pods of an admitted job may be away before Kueue is told so; restarts take less."""


def change(draft: Draft, known: Workload) -> Body | None:
    """PodsReady, where Kueue does not know yet what it is."""
    attempt, before = draft.attempt, known.condition(PODS_READY)
    if attempt is None:
        return None
    if draft.active is not None and attempt.running_time is not None:
        if known.holds(PODS_READY):
            return None
        reason = "Recovered" if before.get("reason") == "WaitForRecovery" else "Started"
        return workloads.with_condition(known, PODS_READY, True, reason, "All pods run", draft.now)
    if not known.holds(PODS_READY) or not draft.passed((attempt.end_time or attempt.start_time) + RECOVERING):
        return None
    return workloads.with_condition(
        known, PODS_READY, False, "WaitForRecovery", "The pods of the next attempt do not run yet", draft.now
    )

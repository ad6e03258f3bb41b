"""What a status says in conditions and counts has to be true of its phase, of the spec, and of what really runs."""

from collections.abc import Collection
from datetime import datetime
from typing import Final

from slipway.api.places import HEAD, Place
from slipway.api.status import ConditionType, Phase, SliceJobStatus
from tests.simulation.truth import require

SUSPENDED: Final = ConditionType.SUSPENDED


def check_words(
    old: SliceJobStatus, new: SliceJobStatus, generation: int, written: tuple[datetime | None, datetime], slack: float
) -> None:
    """Conditions say what the phase says, of the present spec, and date their changes.

    `written` are the moments of the last write and of this one.

    Raises:
        Violation: when they do not.
    """
    require(new.observed_generation == generation, f"generation {generation} is said to be {new.observed_generation}")
    known = {one.type: one for one in new.conditions}
    holds = {kind for kind, one in known.items() if one.status == "True"}
    phase = new.phase
    assert phase is not None
    wanted = {
        ConditionType.RUNNING: phase is Phase.RUNNING,
        ConditionType.COMPLETE: phase is Phase.SUCCEEDED,
        ConditionType.FINISHED: phase.final,
        ConditionType.FAILED: phase is Phase.INVALID or (phase.final and phase is not Phase.SUCCEEDED),
    }
    wrong = [kind for kind, right in wanted.items() if (kind in holds) is not right]
    require(not wrong, f"conditions {wrong} are wrong in phase {phase}")
    require(SUSPENDED not in holds or phase is Phase.SUSPENDED, f"condition Suspended is True in phase {phase}")
    earlier = {one.type: one for one in old.conditions}
    before, now = written
    for one in new.conditions:
        was = earlier.get(one.type)
        if was is not None and was.status != one.status:
            since = one.last_transition_time
            early = before is not None and (before - since).total_seconds() > slack
            late = (since - now).total_seconds() > slack
            require(not (early or late), f"condition {one.type} became {one.status} at {since}, it is said")


def check_counts(new: SliceJobStatus, started: Collection[Place], hosts: int, pods: int) -> None:
    """No slice is ready, and no attempt runs, before its hosts do; `started` are places whose container has started.

    Raises:
        Violation: when one is.
    """
    newest, counts = new.newest, new.slices
    if newest is None or counts is None:
        return
    ready = sum(sum(one.slice == index for one in started if one != HEAD) == hosts for index in range(counts.granted))
    require(counts.ready <= ready, f"{counts.ready} slices are ready, and the hosts of {ready} have started")
    shown = f"{counts.ready}/{counts.requested}"
    require(new.ready_slices == shown, f"readySlices is {new.ready_slices}, slices are {shown}")
    if newest.running_time is not None:
        require(len(started) == pods, f"attempt {newest.number} runs, and only {sorted(started)} have started")
    address = new.coordinator.address if new.coordinator is not None else ""
    right = not address or address.startswith(f"{newest.number}-0-0.")
    require(right, f"the coordinator of attempt {newest.number} is {address}")

"""Priority by checkpoints: of jobs that may be preempted, Kueue takes first those that lose little work by it.

Kueue adds a number in an annotation of the Workload to its priority, where its feature gate PriorityBoost is on. The
number is 0 after a checkpoint and grows by one each time that the time since then has doubled. A job that waits has
none: it would preempt others of its own priority.
"""

from datetime import datetime, timedelta
from typing import Final

from slipway.api import names
from slipway.api.base import rfc3339
from slipway.core.model.parts import Body
from slipway.core.model.workload import Workload
from slipway.core.planner.state.draft import Draft

MOST: Final = 8
"""The largest boost: more than two hours after the last checkpoint."""
PAUSE: Final = timedelta(minutes=1)
"""Time between two changes, at least."""


def change(draft: Draft, known: Workload) -> Body | None:
    """The patch of the metadata of an admitted Workload that sets its boost; None where nothing is to be written."""
    annotations = known.metadata.annotations
    if not draft.snapshot.kueue.boosts or (annotations.boost and not annotations.boosted_at):
        # Kueue does not read it, or another controller writes it.
        return None
    since = _saved(draft)
    wanted = boost(draft.now - since) if since is not None else 0
    if str(wanted) == (annotations.boost or "0"):
        if since is not None and wanted < MOST:
            draft.wake(since + timedelta(minutes=2**wanted))
        return None
    if annotations.boosted_at is not None and not draft.passed(annotations.boosted_at + PAUSE):
        return None
    return _annotations(str(wanted) if wanted else None, rfc3339(draft.now))


def removal(known: Workload) -> Body | None:
    """The patch of the metadata that takes the boost away; None without one of Slipway's."""
    annotations = known.metadata.annotations
    return _annotations(None, None) if annotations.boost and annotations.boosted_at else None


def boost(age: timedelta) -> int:
    """The boost of a job that long after its last checkpoint."""
    return min(max(0, age // timedelta(minutes=1)).bit_length(), MOST)


def _saved(draft: Draft) -> datetime | None:
    """When the attempt that runs printed its last checkpoint; None where it did not."""
    attempt, progress = draft.active, draft.status.progress
    if attempt is None or attempt.running_time is None or progress is None or draft.spec.progress is None:
        return None
    return progress.checkpoint_time if progress.attempt == attempt.number else None


def _annotations(value: str | None, time: str | None) -> Body:
    return {"annotations": {names.PRIORITY_BOOST: value, names.PRIORITY_BOOST_TIME: time}}

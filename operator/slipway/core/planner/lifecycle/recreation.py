"""Pods that are gone and had no node: they are created again, a place at most so often."""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Final

from slipway.api.base import rfc3339
from slipway.api.places import Place, pod_name
from slipway.api.status import Attempt, Phase
from slipway.core.planner.state.draft import Draft, retry_pause
from slipway.core.planner.state.gate import Blocker
from slipway.core.vocabulary.reasons import PODS_DELETED

LONGEST: Final = timedelta(seconds=300)
"""How far apart the pods of one place are created at most.

Without a pause, a controller that deletes new pods at once would cost a request for each pod many times a second.
"""


def due(draft: Draft) -> dict[Place, datetime]:
    """When the pod may be created again of each place whose last one is gone and was bound to no node."""
    attempt, absent = draft.starting, draft.seen.absent
    found: dict[Place, datetime] = {}
    for lost in draft.snapshot.vanished if attempt is not None and absent else ():
        pod = lost.pod
        bound = bool(pod.spec.node_name) or pod.ended
        if attempt is None or bound or pod.is_copy or not draft.seen.roster.is_current(pod) or pod.place not in absent:
            continue
        again = (pod.metadata.creation_timestamp or lost.at) + _apart(attempt, lost.at)
        found[pod.place] = max(again, found.get(pod.place, again))
    return found


def _apart(attempt: Attempt, now: datetime) -> timedelta:
    return retry_pause(attempt.start_time, now, LONGEST)


def is_rare(draft: Draft, apart: timedelta) -> bool:
    """Whether the pods of a place are created that far apart by now."""
    return draft.starting is not None and _apart(draft.starting, draft.now) >= apart


def later(draft: Draft) -> dict[Place, datetime]:
    """Those of these places whose time has not come."""
    return {place: again for place, again in due(draft).items() if not draft.passed(again)}


def places(draft: Draft) -> tuple[Place, ...]:
    """Where pods are to be created now. While others have to wait, `draft.blocked` says why."""
    if waiting := later(draft):
        again = f"the next ones are created at {rfc3339(min(waiting.values()))}"
        draft.blocked = Blocker(PODS_DELETED, f"{words(draft, waiting)}; {again}", Phase.PENDING)
    return tuple(sorted(draft.seen.absent - waiting.keys()))


def words(draft: Draft, waiting: Iterable[Place]) -> str:
    """What is wrong with these places, and what would help."""
    gone, number = sorted(waiting), draft.attempt.number if draft.attempt is not None else 0
    return (
        f"{len(gone)} of {len(draft.seen.wanted)} pods were deleted before they had a node, "
        f"for example {pod_name(draft.job.name, number, gone[0])}; find out who deletes them: a controller, or a "
        "policy of the cluster"
    )

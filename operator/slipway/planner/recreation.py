"""Pods that are gone and had no node: they are created again, a place at most so often."""

from datetime import datetime, timedelta
from typing import Final

from slipway.api.base import rfc3339
from slipway.api.places import Place, pod_name
from slipway.api.status import Phase
from slipway.planner.draft import Draft, Hold

PODS_DELETED: Final = "PodsDeleted"
SHORTEST: Final = timedelta(seconds=2)
LONGEST: Final = timedelta(seconds=300)
"""How far apart the pods of one place are created at least: the longer the attempt has been starting, the farther.

Without it, a controller that deletes new pods at once would cost a request for each pod many times a second.
"""


def due(draft: Draft) -> dict[Place, datetime]:
    """When the pod may be created again of each place whose last one is gone and was bound to no node."""
    attempt, absent = draft.starting, draft.seen.absent
    found: dict[Place, datetime] = {}
    for lost in draft.snapshot.vanished if attempt is not None and absent else ():
        pod = lost.pod
        bound = bool(pod.spec.node_name) or pod.ended
        if attempt is None or bound or pod.is_copy or pod.attempt != attempt.number or pod.place not in absent:
            continue
        apart = min(max((lost.at - attempt.start_time) / 4, SHORTEST), LONGEST)
        again = (pod.metadata.creation_timestamp or lost.at) + apart
        found[pod.place] = max(again, found.get(pod.place, again))
    return found


def places(draft: Draft) -> tuple[Place, ...]:
    """Where pods are to be created now. While others have to wait, `draft.blocked` says why."""
    later = {place: again for place, again in due(draft).items() if not draft.passed(again)}
    if later:
        draft.blocked = _hold(draft, later)
    return tuple(sorted(draft.seen.absent - later.keys()))


def _hold(draft: Draft, later: dict[Place, datetime]) -> Hold:
    attempt, first = draft.attempt, min(later)
    name = pod_name(draft.job.name, attempt.number if attempt is not None else 0, first)
    message = (
        f"{len(later)} of {len(draft.seen.wanted)} pods were deleted before they had a node, {name} say, which is "
        f"created again at {rfc3339(later[first])}; find out who deletes them: a controller, or a policy of the cluster"
    )
    return Hold(PODS_DELETED, message, Phase.PENDING)

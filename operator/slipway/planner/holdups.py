"""Pods that have nodes and wait for what only a person can change: an image, a Secret, a ConfigMap, a volume.

The nodes are paid for meanwhile. What can never start ends the attempt at once. Where the image may come back or the
objects may appear, the nodes are released after a minute, and requested again after growing pauses. An image that no
attempt could pull for timeouts.startSeconds is a failure.
"""

from datetime import timedelta
from typing import Final

from slipway.api.places import Place
from slipway.planner import explain, late_start
from slipway.planner.attempts import begin_when_possible, end_as, end_at_once
from slipway.planner.draft import Draft
from slipway.planner.endings import CANNOT_START, ENDINGS, IMAGE_UNAVAILABLE, Ending
from slipway.planner.evidence import Evidence
from slipway.planner.explain import Explanation
from slipway.planner.objects import Pod
from slipway.planner.redact import foreign
from slipway.planner.trouble import trouble

HOLD: Final = timedelta(seconds=60)
"""How long pods keep their nodes while they wait for that."""


def follow(draft: Draft) -> None:
    """Date the hold-up of the active attempt, and end the attempt when it has held its nodes long enough."""
    attempt = draft.starting
    if attempt is None:
        return
    if _end_hopeless(draft):
        return
    found = trouble(draft)
    ending = ENDINGS.get(found.reason) if found is not None else None
    if found is None or ending is None or not ending.held:
        if attempt.held_time is not None and attempt.unheld_time is None:
            draft.update_attempt(unheld_time=draft.now)
        return
    if attempt.held_time is None or attempt.unheld_time is not None:
        draft.update_attempt(held_time=draft.now, unheld_time=None)
    if ending is IMAGE_UNAVAILABLE and draft.status.image_wait_since is None:
        bound = (pod.bound_at for pod in draft.seen.live.values() if pod.bound_at is not None)
        draft.update(image_wait_since=max(bound, default=draft.now))
    _release(draft, ending, found)


def _end_hopeless(draft: Draft) -> bool:
    """End the attempt as a failure when a pod waits for what can never be."""
    for place, pod in draft.seen.late:
        found = explain.hopeless(pod, draft.spec.image or "")
        if found is not None:
            end_as(draft, _never(draft, place, pod, found))
            return True
    return False


def _never(draft: Draft, place: Place, pod: Pod, found: Explanation) -> Evidence:
    said = foreign(found.message, draft.hiding)
    return Evidence(
        ending=CANNOT_START,
        time=draft.now,
        message=f"{place.words} (pod {pod.metadata.name}) could not start: {said}; {found.next_step}",
        place=place,
        pod=pod.metadata.name,
        node=pod.spec.node_name or None,
    )


def _release(draft: Draft, ending: Ending, found: Explanation) -> None:
    attempt = draft.active
    if attempt is None or attempt.held_time is None or not draft.reached(attempt.held_time + HOLD):
        return
    if ending is IMAGE_UNAVAILABLE and (late := late_start.image_timeout(draft)) is not None:
        end_as(draft, late)
        return
    held = f"{len(draft.seen.late)} of {len(draft.seen.wanted)} pods held nodes for {HOLD.seconds} s and did not start"
    end_at_once(draft, ending, f"{held}: {foreign(found.message, draft.hiding)}; {found.next_step}")
    begin_when_possible(draft)

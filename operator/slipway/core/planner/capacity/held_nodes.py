"""Pods that have nodes and wait for what only a person can change: an image, a Secret, a refusal of other pods.

The nodes are paid for meanwhile. What can never start ends the attempt at once. Where the image may come back, the
objects may appear or the other pods may be created, the nodes are released after a minute, and requested again after
growing pauses. An image that no attempt could pull for timeouts.startSeconds is a failure. The others end the job after
timeouts.scheduleSeconds, in which the time counts that it has waited for nodes.
"""

from dataclasses import dataclass
from datetime import timedelta
from typing import Final

from slipway.api.places import Place
from slipway.core.explain import kubelet
from slipway.core.explain.kubelet import Explanation
from slipway.core.manifests.redact import brief
from slipway.core.model.pods import Pod
from slipway.core.planner.capacity import wait_for_nodes
from slipway.core.planner.diagnosis.evidence import Evidence
from slipway.core.planner.lifecycle import recreation, start_timeout
from slipway.core.planner.lifecycle.attempts import begin_when_possible, end_as, end_at_once
from slipway.core.planner.lifecycle.start_trouble import trouble
from slipway.core.planner.state.draft import Draft
from slipway.core.vocabulary.endings import CANNOT_START, ENDINGS, IMAGE_UNAVAILABLE, PODS_REFUSED, Ending
from slipway.core.vocabulary.reasons import QUOTA_EXCEEDED, WAITING_FOR_OLD

HOLD: Final = timedelta(seconds=60)
"""How long pods keep their nodes while they wait for that."""


def follow(draft: Draft) -> None:
    """Date the hold-up of the active attempt, and end the attempt when it has held its nodes long enough."""
    attempt = draft.starting
    if attempt is None:
        return
    if _end_hopeless(draft):
        return
    hold_up = _hold_up(draft)
    lacks_image = hold_up is not None and hold_up.ending is IMAGE_UNAVAILABLE
    if draft.status.image_wait_since is not None and not lacks_image and _image_came(draft):
        draft.update(image_wait_since=None)
    if hold_up is None:
        if attempt.held_time is not None and attempt.unheld_time is None:
            draft.update_attempt(unheld_time=draft.now)
        return
    if attempt.held_time is None or attempt.unheld_time is not None:
        draft.update_attempt(held_time=draft.now, unheld_time=None)
    if lacks_image and draft.status.image_wait_since is None:
        bound = (pod.bound_at for pod in draft.seen.live.values() if pod.bound_at is not None)
        draft.update(image_wait_since=max(bound, default=draft.now))
    _release(draft, hold_up)


@dataclass(frozen=True, slots=True)
class _HoldUp:
    """What pods that have nodes wait for."""

    ending: Ending
    """How the attempt ends that releases the nodes."""
    words: str


def _hold_up(draft: Draft) -> _HoldUp | None:
    explanation = trouble(draft)
    if explanation is not None and (ending := _ending(explanation.reason)) is not None:
        return _HoldUp(ending, f"{brief(explanation.message, draft.hiding)}; {explanation.next_step}")
    if not _with_nodes(draft):
        return None
    refused = wait_for_nodes.refusal(draft)
    if refused is not None and refused.reason not in (QUOTA_EXCEEDED, WAITING_FOR_OLD):
        return _HoldUp(_ending(refused.reason) or PODS_REFUSED, refused.message)
    later = recreation.later(draft) if recreation.is_rare(draft, HOLD) else {}
    return _HoldUp(PODS_REFUSED, recreation.words(draft, later)) if later else None


def _ending(reason: str) -> Ending | None:
    """How an attempt ends that holds nodes for that reason; None where the reason holds no attempt up."""
    ending = ENDINGS.get(reason)
    return ending if ending is not None and ending.held else None


def _with_nodes(draft: Draft) -> int:
    """How many pods of the attempt have nodes."""
    return sum(bool(pod.spec.node_name) for pod in draft.seen.live.values())


def _image_came(draft: Draft) -> bool:
    """Whether no pod that has a node lacks its image any more.

    One that does not run may have it: a Ray head that waits for its workers, and a worker that lacks a Secret.
    """
    return _with_nodes(draft) > 0 and all(_has_image(pod) for _, pod in draft.seen.late if pod.spec.node_name)


def _has_image(pod: Pod) -> bool:
    """Whether the kubelet has come as far with its program as to run it, or to make its container from the image."""
    state = pod.program
    if state is None or state.waiting is None:
        return state is not None and bool(state.running or state.terminated)
    return state.waiting.reason in kubelet.IMAGE_IS_THERE


def _end_hopeless(draft: Draft) -> bool:
    """End the attempt as a failure when a pod waits for what can never be."""
    for place, pod in draft.seen.late:
        explanation = kubelet.hopeless(pod, draft.spec.image or "")
        if explanation is not None:
            end_as(draft, _never(draft, place, pod, explanation))
            return True
    return False


def _never(draft: Draft, place: Place, pod: Pod, explanation: Explanation) -> Evidence:
    said = brief(explanation.message, draft.hiding)
    return Evidence(
        ending=CANNOT_START,
        time=draft.now,
        message=f"{place.words} (pod {pod.metadata.name}) could not start: {said}; {explanation.next_step}",
        place=place,
        pod=pod.metadata.name,
        node=pod.spec.node_name or None,
    )


def _release(draft: Draft, hold_up: _HoldUp) -> None:
    attempt = draft.active
    if attempt is None or attempt.held_time is None or not draft.reached(attempt.held_time + HOLD):
        return
    if hold_up.ending is IMAGE_UNAVAILABLE and (late := start_timeout.image_timeout(draft)) is not None:
        if start_timeout.looked(draft, attempt.held_time + HOLD):
            end_as(draft, late)
        return
    if hold_up.ending is not IMAGE_UNAVAILABLE and wait_for_nodes.waited_enough(draft, attempt):
        limit = f"timeouts.scheduleSeconds ({draft.resolved.schedule_seconds} s)"
        wait_for_nodes.give_up(draft, f"the job could not start within {limit}: {hold_up.words}", hold_up.ending)
        return
    held = f"{_with_nodes(draft)} of {len(draft.seen.wanted)} pods held nodes for {HOLD.seconds} s in vain"
    end_at_once(draft, hold_up.ending, f"{held}: {hold_up.words}")
    begin_when_possible(draft)

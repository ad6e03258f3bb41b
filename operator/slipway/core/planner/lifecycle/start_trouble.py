"""What keeps the pods of an attempt from starting: by the kubelets' status, and by Events where that says nothing."""

from datetime import timedelta
from typing import Final

from slipway.core.explain.kubelet import Explanation, explain, of_event
from slipway.core.model.events import PodEvent
from slipway.core.model.pods import CREATING, Pod
from slipway.core.planner.state.draft import Draft
from slipway.core.planner.state.observation import waiting_for

QUIET: Final = timedelta(seconds=5)
"""How long after it was bound a pod may be ContainerCreating before its Events are read."""
READ_AGAIN: Final = timedelta(seconds=10)
"""How long it takes at least until its Events are read again; it takes the longer the longer the pod waits."""
SCALE_UP: Final = timedelta(minutes=10)
"""How long it may take until nodes that an autoscaler adds are there."""
_COMING: Final = "TriggeredScaleUp"
_NOT_COMING: Final = ("NotTriggerScaleUp", "FailedScaleUp")
REPEATED: Final = timedelta(seconds=150)
"""A kubelet repeats an Event within this time while its cause lasts; what it has said counts until it is read again."""


def trouble(draft: Draft) -> Explanation | None:
    """What keeps the first pod from starting that has trouble; None when none is known to have any."""
    image = draft.spec.image or ""
    explanation = explain((pod for _, pod in draft.seen.late), image)
    if explanation is not None:
        return explanation
    quiet = next((pod for _, pod in draft.seen.late if _is_quiet(draft, pod)), None)
    return _by_events(draft, quiet, image) if quiet is not None else None


def _is_quiet(draft: Draft, pod: Pod) -> bool:
    """Whether a kubelet has taken up a pod and its status does not say why nothing happens.

    Before that no Event tells more, and the API server looks for them among those of all pods of the namespace.
    """
    taken_up = pod.status.container_statuses or pod.status.init_container_statuses
    if not taken_up or pod.bound_at is None or pod.terminating or waiting_for(pod)[0] != CREATING:
        return False
    return draft.passed(pod.bound_at + QUIET)


def _by_events(draft: Draft, pod: Pod, image: str) -> Explanation | None:
    events, read = _events(draft, pod), draft.snapshot.pod_events.get(pod.metadata.uid)
    for event in events:
        explanation = of_event(event.reason, event.message, image)
        recent = read is not None and event.time is not None and event.time >= read.read_at - REPEATED
        if explanation is not None and recent:
            return explanation
    return None


def scale_up(draft: Draft, pod: Pod) -> tuple[bool, str] | None:
    """Whether an autoscaler adds nodes for a pod that has none, with its words; None when it has not said lately."""
    for event in _events(draft, pod):
        lately = event.time is not None and event.time >= draft.now - SCALE_UP
        if lately and event.reason in (_COMING, *_NOT_COMING):
            return event.reason == _COMING, event.message
    return None


def _events(draft: Draft, pod: Pod) -> tuple[PodEvent, ...]:
    """The Events of a pod, the newest first; they are read again the less often the longer that has gone on."""
    events = draft.snapshot.pod_events.get(pod.metadata.uid)
    # A pod that gets its node after hours has other Events from then on.
    since = pod.bound_at or (draft.attempt.start_time if draft.attempt is not None else None)
    waited = events.read_at - since if events is not None and since is not None else timedelta(0)
    if events is None or draft.passed(events.read_at + max(READ_AGAIN, waited / 2)):
        draft.refresh_events.add(pod.metadata.uid)
    return events.events[::-1] if events is not None else ()

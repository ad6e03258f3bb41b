"""Whether the pods of an attempt, or the image over several attempts, have had timeouts.startSeconds in vain."""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from slipway.api.base import rfc3339
from slipway.api.places import Place
from slipway.core.manifests.redact import foreign
from slipway.core.model.pods import CREATING, Pod
from slipway.core.planner.contract.freshness import MAX_NODE_READS, Step
from slipway.core.planner.diagnosis.evidence import Evidence
from slipway.core.planner.lifecycle.start_trouble import trouble
from slipway.core.planner.state.draft import Draft
from slipway.core.planner.state.observation import MAX_MESSAGE, waiting_for
from slipway.core.vocabulary.endings import SANDBOX_FAILED, START_TIMEOUT
from slipway.core.vocabulary.reasons import WAIT_FOR_USER


def timeout(draft: Draft) -> Evidence | None:
    """Evidence once timeouts.startSeconds have passed since the pods were scheduled and not all of them run."""
    late, since = draft.seen.late, _start_clock(draft)
    if since is None or not _in_vain(draft, late, since):
        return None
    return _late(
        draft, late, f"{len(late)} host(s) did not start within {draft.resolved.start_seconds} s of being scheduled"
    )


def image_timeout(draft: Draft) -> Evidence | None:
    """Evidence once no attempt could pull the image for timeouts.startSeconds.

    Each attempt may have other nodes, which were ready a moment ago, and pods without a node beside those that wait. A
    node that is not ready now may have stopped pulling long ago.
    """
    since, allowed = draft.status.image_wait_since, draft.resolved.start_seconds
    held = [(place, pod) for place, pod in draft.seen.late if pod.waits_to_start and draft.snapshot.machine_well(pod)]
    if since is None or not allowed or not held or draft.now < since + timedelta(seconds=allowed):
        return None
    how = f"no attempt could pull the image since {rfc3339(since)}, for more than timeouts.startSeconds ({allowed} s)"
    return _late(draft, held, how)


def _late(draft: Draft, late: Sequence[tuple[Place, Pod]], how: str) -> Evidence:
    place, pod = next((entry for entry in late if waiting_for(entry[1])[0] != CREATING), late[0])
    reason, words = waiting_for(pod)
    if reason == CREATING and (explanation := trouble(draft)) is not None:
        # The kubelet says it in Events only.
        reason, words = explanation.reason, explanation.message
    return Evidence(
        ending=SANDBOX_FAILED if reason == SANDBOX_FAILED.reason else START_TIMEOUT,
        time=draft.now,
        message=f"{how}; {place.words} (pod {pod.metadata.name} on node {pod.spec.node_name}) is waiting: {reason} "
        f"{foreign(words, draft.hiding)[:MAX_MESSAGE]}".strip(),
        place=place,
        pod=pod.metadata.name,
        node=pod.spec.node_name or None,
    )


def _start_clock(draft: Draft) -> datetime | None:
    """From when on timeouts.startSeconds count; None while they do not."""
    attempt, observation = draft.active, draft.seen
    waiting = observation.unscheduled or observation.absent
    if attempt is None or waiting or not observation.late or not draft.resolved.start_seconds:
        return None
    # A Ray head waits for the worker that was scheduled last, as programs wait for their peers.
    bound = max((pod.bound_at for pod in observation.live.values() if pod.bound_at), default=None)
    explanation = trouble(draft)
    if bound is None or (explanation is not None and explanation.reason in WAIT_FOR_USER):
        return None
    if draft.snapshot.served != attempt.number:
        # Without the Services the pods do not find each other.
        return None
    return max(bound, attempt.unheld_time or bound, draft.snapshot.served_at)


def _in_vain(draft: Draft, late: Iterable[tuple[Place, Pod]], since: datetime) -> bool:
    """Whether these pods had startSeconds on ready nodes and did not start."""
    allowed, snapshot = timedelta(seconds=draft.resolved.start_seconds), draft.snapshot
    if not draft.reached(since + allowed):
        return False
    if not all(map(snapshot.machine_well, draft.seen.live.values())):
        # The attempt ends when the control plane deletes the pods of the node that is not ready.
        return False
    back = max(filter(None, (snapshot.ready_since(pod) for _, pod in late)), default=since)
    due = max(since, back) + allowed
    return draft.reached(due) and looked(draft, due)


def looked(draft: Draft, due: datetime) -> bool:
    """Whether the pods, and the nodes of those that wait, were read since then; otherwise they are read now."""
    late = {pod.spec.node_name for _, pod in draft.seen.late if pod.spec.node_name}
    nodes = sorted(late)[:MAX_NODE_READS] if draft.snapshot.nodes_watched else ()
    return draft.may(Step.END_START, due, nodes)

"""No pod of an attempt is made while a pod of an earlier one may still run.

Two attempts at once would write the same checkpoint. So the old pods are asked to go, only a dead machine's pods are
forced, and a node that merely fell silent keeps the fence closed: its containers may still be writing.
"""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from itertools import chain
from typing import Final

from slipway.api import names
from slipway.api.status import Cause
from slipway.planner.actions import DeletePods, ForceDeletePod, LookAtNodes
from slipway.planner.budgets import NO_USE
from slipway.planner.draft import Draft
from slipway.planner.snapshot import Pod

OVERDUE: Final = timedelta(seconds=30)
"""How much longer than its grace a pod may take to go before people are told."""


def closed(draft: Draft) -> bool:
    """Whether no pod of an ended attempt may still run."""
    return not draft.seen.may_run


def unknown_nodes(draft: Draft) -> tuple[str, ...]:
    """Nodes of which it is not known whether they are there, of pods whose end they may explain, or that may run."""
    if draft.finished:
        return draft.snapshot.unknown_nodes(draft.seen.may_run)
    strays = (pod for pod in draft.seen.strays if pod.may_run)
    gone = draft.snapshot.vanished_of(draft.unjudged.number) if draft.unjudged is not None else ()
    return draft.snapshot.unknown_nodes(chain(draft.seen.live.values(), strays, gone))


def clear(draft: Draft) -> None:
    """Ask for the deletion of every pod that has no place in the current attempt."""
    wanted = set() if draft.active is None else {pod.metadata.uid for pod in draft.seen.live.values()}
    unwanted = [pod for pod in draft.seen.may_run if pod.metadata.uid not in wanted]
    draft.act(*(_force(pod) for pod in unwanted if _machine_gone(draft, pod)))
    if draft.spec.timeouts.unsafe_silent_node_seconds is not None:
        draft.act(*(_force(pod, silent=True) for pod in unwanted if _given_up(draft, pod)))
    asked = draft.snapshot.asked_to_go
    waiting = [
        pod for pod in unwanted if not pod.going and pod.metadata.uid not in asked and not _ends_by_itself(draft, pod)
    ]
    stopped = {pod.metadata.uid for pod in waiting}
    ending = [pod for pod in unwanted if pod.ending and pod.metadata.uid not in stopped]
    draft.act(*_deletions(waiting, _grace(draft), ended_too=False, ending=ending))
    draft.act(*_deletions(_outdated(draft), None, ended_too=True))
    if unknown := unknown_nodes(draft):
        draft.act(LookAtNodes(unknown))


def _ends_by_itself(draft: Draft, pod: Pod) -> bool:
    """Whether its kubelet is about to end it, for its program or driver has ended; so its log stays readable.

    Of a head pod the kubelet stops Ray first.
    """
    end = pod.worker.terminated if pod.worker is not None and (pod.is_head or pod.ending) else None
    if end is None or end.finished_at is None or pod.crashed or draft.snapshot.machine_gone(pod):
        return False
    due = end.finished_at + timedelta(seconds=0 if pod.ending else draft.resolved.grace_period_seconds) + OVERDUE
    if draft.now < due:
        draft.wake(due)
    return draft.now < due


def _outdated(draft: Draft) -> list[Pod]:
    """Ended pods nobody wants to read any more: those before the last attempt that has ended."""
    attempt = draft.attempt
    if attempt is None:
        return []
    keep_from = attempt.number - 1 if draft.active else attempt.number
    asked = draft.snapshot.asked_to_go
    return [
        pod
        for pod in draft.seen.strays
        if pod.ended and not pod.going and pod.attempt < keep_from and pod.metadata.uid not in asked
    ]


def _grace(draft: Draft) -> int | None:
    """Peers of a broken attempt cannot make progress and get little time; a stop on request gets each pod's own."""
    attempt = draft.attempt
    on_request = attempt is not None and attempt.cause is Cause.UNCHARGED and attempt.reason not in NO_USE
    if attempt is None or on_request or draft.finished:
        return None
    # A job stored when 0 was still allowed may hold it; 0 would take its pods out of the API while they run.
    return max(1, draft.spec.retries.grace_period_seconds)


def _deletions(
    pods: Iterable[Pod], grace: int | None, *, ended_too: bool, ending: Sequence[Pod] = ()
) -> list[DeletePods]:
    slices: dict[int, set[int]] = {}
    for pod in pods:
        slices.setdefault(pod.attempt, set()).add(pod.slot[0])
    deletions = []
    for attempt, indices in sorted(slices.items()):
        spared = sorted(pod.slot for pod in ending if pod.attempt == attempt and pod.slot[0] in indices)
        deletions.append(DeletePods(attempt, tuple(sorted(indices)), grace, ended_too, tuple(spared)))
    return deletions


def _machine_gone(draft: Draft, pod: Pod) -> bool:
    node = draft.snapshot.nodes.get(pod.spec.node_name)
    if node is None:
        return draft.snapshot.machine_gone(pod)
    # A younger node of that name has a kubelet that obeys a plain deletion, and that may have started the pod anew.
    return node.taint(names.TAINT_OUT_OF_SERVICE) is not None


def _given_up(draft: Draft, pod: Pod) -> bool:
    """Whether the job takes the risk of two attempts at once rather than wait for a silent node any longer."""
    limit, node = draft.spec.timeouts.unsafe_silent_node_seconds, draft.snapshot.nodes.get(pod.spec.node_name)
    ready = node.ready if node is not None else None
    if limit is None or not pod.going or ready is None or ready.status == "True" or ready.last_transition_time is None:
        return False
    due = ready.last_transition_time + timedelta(seconds=limit)
    if draft.now < due:
        draft.wake(due)
    return draft.now >= due


def _force(pod: Pod, *, silent: bool = False) -> ForceDeletePod:
    return ForceDeletePod(pod.metadata.name, pod.metadata.uid, pod.spec.node_name, silent)


def overdue(draft: Draft) -> str:
    """Which pods should have gone by now, in words; empty when none. Asks to look again when one will be."""
    late: list[Pod] = []
    for pod in draft.seen.may_run:
        if pod.metadata.deletion_timestamp is None:
            continue
        due = pod.metadata.deletion_timestamp + OVERDUE
        if due <= draft.now:
            late.append(pod)
        else:
            draft.wake(due)
    if not late:
        return ""
    listed = ", ".join(f"{pod.metadata.name} on node {pod.spec.node_name or 'none'}" for pod in late[:5])
    more = f" and {len(late) - 5} more" if len(late) > 5 else ""
    return (
        f"{len(late)} pod(s) do not go: {listed}{more}. Their containers may still run, so nothing new is started; "
        "if their machine is really off, delete the Node or taint it node.kubernetes.io/out-of-service"
    )

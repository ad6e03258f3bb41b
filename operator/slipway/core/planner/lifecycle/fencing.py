"""Clear to start: no pod of an attempt is created while a pod of an ended attempt may still run.

Two attempts at once would write the same checkpoint. So the old pods are deleted, and force-deleted only if their node
is proven dead. On a node that is merely NotReady containers may still write, and the job is not clear to start.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from itertools import chain
from typing import Final

from slipway.api import names
from slipway.api.places import HEAD, Place
from slipway.core.model.pods import Pod
from slipway.core.model.roster import Run, run_of
from slipway.core.planner.contract.actions import DeletePods, ForceDeletePod
from slipway.core.planner.contract.freshness import EVER, Step
from slipway.core.planner.diagnosis.facts import POD_GC
from slipway.core.planner.state.draft import Draft
from slipway.core.vocabulary.endings import ending_of

RENEWALS: Final = 4
"""How often a kubelet renews its Lease in the time for which it holds."""
ROLE_AGAIN: Final = timedelta(seconds=60)
"""When a Lease is read again that the operator's role did not let it read."""
LATE: Final = timedelta(seconds=2)
"""How late a renewal may be."""
FORCED: Final = timedelta(seconds=2)
"""What a kubelet gives the containers of a pod that the API server removed without a grace period."""
OVERDUE: Final = timedelta(seconds=30)
"""How much longer than its grace period a pod may take to terminate before CleanupPending is True."""


def clear_to_start(draft: Draft) -> bool:
    """Whether the job is clear to start: no pod of an ended attempt may still run."""
    return not draft.seen.may_run


def is_seen_whole(draft: Draft) -> bool:
    """Whether all pods of the ended attempt are known.

    Those that another process created may not have been seen, nor those whose creation got no answer.
    """
    late = draft.snapshot.known.creates_end
    return (draft.seen.begun_by_this_process and late == EVER) or draft.may(Step.FOLLOW_ON, late)


def knows_old_pods(draft: Draft) -> bool:
    """Whether all pods are known of an earlier job of this name.

    The job was applied again before this process led, whose watch may not have shown them by then.
    """
    return draft.is_new or draft.may(Step.FOLLOW_ON)


def orphaned(draft: Draft) -> int:
    """How many hosts of the ended attempt, or of an earlier job, may have containers that no pod stands for any more.

    The pod garbage collector removes the pods of a Node object that somebody deleted, and `kubectl delete --force` any
    pod. The kubelet is told, and terminates the containers, but cannot report that it has.
    """
    ends = [due for due in _orphans(draft) if due > draft.now] if not draft.snapshot.gone_has_ended else []
    if ends:
        draft.wake(max(ends))
    return len(ends)


def _orphans(draft: Draft) -> Iterator[datetime]:
    """By when the containers of each pod that was removed before its kubelet reported an end have terminated."""
    grace = timedelta(seconds=draft.resolved.grace_period_seconds) + LATE
    snapshot, observation, attempt = draft.snapshot, draft.seen, draft.attempt
    for lost in (*snapshot.vanished, *snapshot.vanished_foreign):
        pod = lost.pod
        own = timedelta(seconds=pod.spec.termination_grace_period_seconds) + LATE
        asked = pod.terminating and bool(pod.metadata.deletion_grace_period_seconds)
        # What the watch did not show may have been missed by the kubelet's as well: it gives the pod's own period then,
        # unless it had been asked to terminate before. How it ended comes with the watch, if at all.
        heard = lost.removed_at is not None or asked or snapshot.deleted_here.has(pod.metadata.uid)
        due = lost.at + (FORCED + LATE if heard else own)
        if draft.now < due and _is_orphan(draft, pod):
            yield due
    yield from _being_collected(draft, max(grace, FORCED + LATE))
    if attempt is None or attempt.end_time is None:
        return
    if not snapshot.deleted_here.complete or observation.begun_by_this_process:
        return
    # Pods that were removed before this process saw them: by its clock they were gone when the attempt ended.
    places = observation.succeeded | {pod.place for pod in snapshot.vanished_of(attempt)}
    yield from (attempt.end_time + grace for _ in observation.absent - places)


def _being_collected(draft: Draft, grace: timedelta) -> Iterator[datetime]:
    """By when the containers of each pod have terminated that the pod garbage collector is about to remove.

    It sets the phase to Failed a moment before it does, whatever the containers do, and the kubelet learns it then.
    """
    for pod in draft.snapshot.own_pods():
        since = _collected_since(pod)
        if since is not None and draft.now < since + grace and _is_orphan(draft, pod):
            yield since + grace


def _collected_since(pod: Pod) -> datetime | None:
    """When the pod garbage collector set the phase; None where it has not."""
    condition = pod.condition("DisruptionTarget")
    return condition.last_transition_time if condition is not None and condition.reason == POD_GC else None


def end_unreported(pod: Pod) -> bool:
    """Whether its containers may run on when the pod is gone.

    A kubelet removes no pod whose phase is not final, so somebody forced such a pod, or collected it.
    """
    if not pod.spec.node_name or pod.end is not None:
        return False
    return not pod.ended or _collected_since(pod) is not None


def _is_orphan(draft: Draft, pod: Pod) -> bool:
    """Whether its containers may run on.

    A list may have shown that it is gone, and the version that was removed comes with the watch.
    """
    return end_unreported(pod) and not _machine_gone(draft, pod) and not _given_up(draft, pod)


def unknown_nodes(draft: Draft) -> tuple[str, ...]:
    """Unknown Nodes of pods that may still run, or whose end the state of the Node may explain."""
    if draft.status.final:
        return draft.snapshot.unknown_nodes(draft.seen.may_run)
    stale_attempt_pods = (pod for pod in draft.seen.stale_attempt_pods if pod.may_run)
    gone = draft.snapshot.vanished_of(draft.unjudged) if draft.unjudged is not None else ()
    return draft.snapshot.unknown_nodes(chain(draft.seen.live.values(), stale_attempt_pods, gone))


def delete_stale_pods(draft: Draft) -> None:
    """Delete every pod that does not belong to the current attempt."""
    wanted = set() if draft.active is None else {pod.metadata.uid for pod in draft.seen.live.values()}
    unwanted = [pod for pod in draft.seen.may_run if pod.metadata.uid not in wanted]
    draft.act(*(_force(pod) for pod in unwanted if _machine_gone(draft, pod)))
    if draft.spec.timeouts.unsafe_silent_node_seconds is not None:
        draft.act(*(_force(pod, silent=True) for pod in unwanted if _given_up(draft, pod)))
    waiting = [pod for pod in draft.snapshot.staying(unwanted) if not _ends_by_itself(draft, pod)]
    stopped = {pod.metadata.uid for pod in waiting}
    ending = [pod for pod in unwanted if _programs_ended(pod) and pod.metadata.uid not in stopped]
    draft.act(*deletions(waiting, _grace(draft), ended_too=False, ending=ending))
    draft.act(*deletions(_outdated(draft), None, ended_too=True))
    draft.look_for(unknown_nodes(draft))


def _ends_by_itself(draft: Draft, pod: Pod) -> bool:
    """Whether the kubelet is about to set the final phase, because the program or the driver has terminated.

    Such a pod is not deleted, so that its log stays readable. The kubelet first terminates Ray in a head pod, and the
    init containers that are sidecars.
    """
    end = pod.end if pod.is_head or _programs_ended(pod) else None
    if end is None or end.finished_at is None or pod.ray_crashed or draft.snapshot.machine_gone(pod):
        return False
    return not draft.passed(end.finished_at + _patience(draft, pod))


def _programs_ended(pod: Pod) -> bool:
    """Whether all containers have terminated; the kubelet is yet to set the phase, or to stop sidecars before that."""
    containers = pod.status.container_statuses
    sidecars = any(status.state.running for status in pod.status.init_container_statuses)
    return pod.ending or (sidecars and bool(containers) and all(container.state.terminated for container in containers))


def _patience(draft: Draft, pod: Pod) -> timedelta:
    """How long a kubelet may take until the pod has terminated, once its program has."""
    if pod.ending:
        return OVERDUE
    own = timedelta(seconds=draft.resolved.grace_period_seconds)
    if pod.is_head:
        return own + OVERDUE
    grace = _grace(draft)
    return own if grace is None else timedelta(seconds=grace)


def _outdated(draft: Draft) -> list[Pod]:
    """Terminated pods of attempts before the last ended one. Only the logs of the last one are kept."""
    stale = draft.snapshot.staying(draft.seen.stale_attempt_pods)
    return [pod for pod in stale if pod.ended and draft.seen.roster.is_outlived(pod)]


def _grace(draft: Draft) -> int | None:
    """Seconds for pods of a broken attempt, which cannot make progress; None lets each pod keep its own period."""
    if draft.spec.cancel:
        return draft.spec.cancel_grace_period_seconds
    if draft.attempt is None or draft.status.final or ending_of(draft.attempt).pods_own_grace:
        return None
    # An old job may still have 0. It would remove the pods from the API server while their containers run.
    return max(1, draft.spec.retries.grace_period_seconds)


def deletions(
    pods: Iterable[Pod], grace: int | None, *, ended_too: bool, ending: Sequence[Pod] = ()
) -> list[DeletePods]:
    """The deletions of these pods, one for each attempt; those that are `ending` are spared."""
    unwanted: dict[Run, set[Place]] = {}
    for pod in pods:
        unwanted.setdefault(run_of(pod), set()).add(pod.place)
    found = []
    for run, places in sorted(unwanted.items()):
        slices = {place.slice for place in places - {HEAD}}
        kept = (pod.place for pod in ending if run_of(pod) == run)
        spared = tuple(sorted(place for place in kept if place.slice in slices and not place.is_head))
        found.append(DeletePods(run.number, tuple(sorted(slices)), grace, ended_too, spared, HEAD in places))
    return found


def _machine_gone(draft: Draft, pod: Pod) -> bool:
    """Whether it is proven that no container of the pod runs: its node is out of service, or gone with its kubelet.

    A deleted Node object alone proves nothing. If the Node was created again, its kubelet carries out an ordinary
    deletion, and may have restarted the pod's containers.
    """
    name = pod.spec.node_name
    node = draft.snapshot.nodes.get(name)
    if node is not None:
        return node.taint(names.TAINT_OUT_OF_SERVICE) is not None
    lost = draft.snapshot.lost_nodes.get(name)
    if lost is None or not draft.snapshot.machine_gone(pod):
        return False
    return lost.silent or (_grace_over(draft, pod) and _kubelet_dead(draft, name, lost.at))


def _kubelet_dead(draft: Draft, node: str, gone_at: datetime) -> bool:
    """Whether the Lease of a kubelet shows that it stopped renewing it; until that is known the Lease is read."""
    lease = draft.snapshot.kubelets.get(node)
    if lease is None or lease.read_at < gone_at:
        draft.refresh_kubelets.add(node)
        return False
    if not lease.forbidden and lease.renewed_at is not None and lease.renewed_at + lease.duration <= lease.read_at:
        return True
    due = max(gone_at, lease.same_since) + lease.duration / RENEWALS + LATE
    if lease.forbidden:
        due = lease.read_at + ROLE_AGAIN
    if not draft.passed(due):
        return False
    if lease.read_at < due:
        draft.refresh_kubelets.add(node)
        return False
    return not lease.forbidden


def _grace_over(draft: Draft, pod: Pod) -> bool:
    """Whether a kubelet that lives would have terminated the pod by now: without its Node it renews no Lease."""
    due = pod.metadata.deletion_timestamp
    return due is not None and draft.passed(due + LATE)


def _given_up(draft: Draft, pod: Pod) -> bool:
    """Whether the pod is terminating on a node that has been NotReady for timeouts.unsafeSilentNodeSeconds."""
    limit, node = draft.spec.timeouts.unsafe_silent_node_seconds, draft.snapshot.nodes.get(pod.spec.node_name)
    ready = node.ready if node is not None else None
    if (
        limit is None
        or not pod.terminating
        or ready is None
        or ready.status == "True"
        or ready.last_transition_time is None
    ):
        return False
    return draft.passed(ready.last_transition_time + timedelta(seconds=limit))


def _force(pod: Pod, *, silent: bool = False) -> ForceDeletePod:
    return ForceDeletePod(pod.metadata.name, pod.metadata.uid, pod.spec.node_name, silent)


def overdue(draft: Draft) -> str:
    """A message that names the pods whose termination is overdue; empty when none is."""
    asked = ((pod, pod.metadata.deletion_timestamp) for pod in draft.seen.may_run)
    late = [pod for pod, due in asked if due is not None and draft.passed(due + OVERDUE)]
    if not late:
        return ""
    listed = ", ".join(f"{pod.metadata.name} on node {pod.spec.node_name or 'none'}" for pod in late[:5])
    more = f" and {len(late) - 5} more" if len(late) > 5 else ""
    return (
        f"{len(late)} pod(s) have not terminated: {listed}{more}. Their containers may still run, so nothing new is "
        "started; once their machine is known to be off: "
        f"kubectl taint nodes NODE {names.TAINT_OUT_OF_SERVICE}=nodeshutdown:NoExecute"
    )

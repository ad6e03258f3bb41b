"""Who gives way to whom: of the jobs that wait for the same nodes or quota, the younger to the older."""

from collections.abc import Sequence
from itertools import islice
from typing import Final

from slipway.api.places import HEAD
from slipway.api.status import MAX_HOSTS, ConditionType, Phase
from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.manifests.placement import Needs, suits
from slipway.core.manifests.pods import PodFactory
from slipway.core.model.job import Job
from slipway.core.model.nodes import Node
from slipway.core.planner.state.draft import Draft
from slipway.core.validation.acceptance import pod_factory
from slipway.core.vocabulary.endings import CAPACITY_RELEASED, ending_of
from slipway.core.vocabulary.reasons import QUOTA_EXCEEDED

NODES: Final = "nodes"
QUOTA: Final = "quota"


def waits_for(job: Job) -> str:
    """What a job waits for that another could release: `nodes`, `quota`, or nothing."""
    if job.status.phase is not Phase.WAITING_FOR_CAPACITY:
        return ""
    condition = job.status.condition(ConditionType.CAPACITY_AVAILABLE)
    reason = condition.reason if condition is not None else None
    return QUOTA if reason == QUOTA_EXCEEDED else NODES


def gives_way(job: Job) -> bool:
    """Whether a job may have to give way to older ones: it waits, or its pods are going because it has given way."""
    released = job.status.attempt_ended and ending_of(job.status.newest) is CAPACITY_RELEASED
    return bool(waits_for(job)) or (released and not job.status.final)


def rival(draft: Draft) -> Job | None:
    """The oldest older job that waits for something that this job holds."""
    held = _held_nodes(draft)
    return next((job for job in draft.snapshot.rivals if _gains(draft, job, held)), None)


def goes_first(draft: Draft) -> Job | None:
    """The oldest job that waits for the same and can run at all, as far as is known."""
    return next(
        (
            job
            for job in draft.snapshot.rivals
            if (job.namespace == draft.job.namespace if waits_for(job) == QUOTA else _needs_the_same(draft, job))
        ),
        None,
    )


def _held_nodes(draft: Draft) -> list[Node]:
    """The known Nodes on which the job has workers."""
    workers = (pod for place, pod in draft.seen.live.items() if not place.is_head)
    found = (draft.snapshot.nodes.get(pod.spec.node_name) for pod in workers)
    return [node for node in found if node is not None]


def _gains(draft: Draft, job: Job, held: Sequence[Node]) -> bool:
    """Whether what this job holds would bring that job nearer to all its slices, as far as is known."""
    if waits_for(job) == QUOTA:
        return job.namespace == draft.job.namespace and bool(draft.seen.live)
    if _lacks_head_alone(job):
        return _holds_node_for_head(draft, job)
    if not draft.snapshot.nodes_watched:
        # Whether they are of use to it nobody can see; the two jobs would wait for each other for ever otherwise.
        return any(pod.spec.node_name for pod in draft.seen.live.values())
    factory = _factory(draft, job)
    return factory is not None and any(map(factory.suits, held)) and _enough_nodes(draft, factory)


def _lacks_head_alone(job: Job) -> bool:
    """Whether all workers of a Ray job have nodes and its head has none, as far as its status shows all of them."""
    hosts = job.status.hosts
    lacking = [host for host in hosts if host.node is None]
    return bool(lacking) and len(hosts) < MAX_HOSTS and all(host.slice is None for host in lacking)


def _holds_node_for_head(draft: Draft, job: Job) -> bool:
    """Whether this job holds a node on which the Ray head of that one could run, which is never one with TPUs."""
    on_tpus = draft.hardware.is_tpu
    pods = [pod for place, pod in draft.seen.live.items() if pod.spec.node_name and (place.is_head or not on_tpus)]
    if not pods or not draft.snapshot.nodes_watched:
        return bool(pods)
    factory = _factory(draft, job)
    needs = Needs.of(factory.pod(0, HEAD)["spec"]) if factory is not None else None
    nodes = (draft.snapshot.nodes.get(pod.spec.node_name) for pod in pods)
    return needs is not None and any(node is not None and suits(node, needs) for node in nodes)


def _needs_the_same(draft: Draft, job: Job) -> bool:
    if _lacks_head_alone(job) and draft.hardware.is_tpu and HEAD not in draft.seen.wanted:
        return False
    return _can_run(draft, job)


def _can_run(draft: Draft, job: Job) -> bool:
    """Whether there are as many nodes as a job needs at least; unknown where nodes may not be watched."""
    if not draft.snapshot.nodes_watched:
        return True
    factory = _factory(draft, job)
    return factory is not None and _enough_nodes(draft, factory)


def _factory(draft: Draft, job: Job) -> PodFactory | None:
    try:
        return pod_factory(job, draft.snapshot.settings)
    except InvalidSpec:
        return None


def _enough_nodes(draft: Draft, factory: PodFactory) -> bool:
    # A node may run several pods of a CPU job, so the number of nodes does not matter.
    enough = max(factory.least_nodes, 1)
    return sum(1 for _ in islice(filter(factory.suits, draft.snapshot.nodes.values()), enough)) == enough

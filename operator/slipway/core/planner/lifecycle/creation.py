"""What an active attempt lacks, and in which order it is created: objects, pods, Services."""

from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Final

from slipway.api import names
from slipway.api.places import Place
from slipway.api.status import Attempt, same_defaults
from slipway.core.manifests.peers import Peers
from slipway.core.model.nodes import Node
from slipway.core.model.parts import Body
from slipway.core.planner.contract.actions import (
    Action,
    Check,
    CreateObjects,
    CreatePods,
    CreateServices,
    CreateToken,
    DeleteHostLists,
)
from slipway.core.planner.contract.freshness import Step
from slipway.core.planner.contract.pool_pinning import choose
from slipway.core.planner.contract.snapshot import Rejection
from slipway.core.planner.lifecycle import recreation
from slipway.core.planner.lifecycle.attempts import end_at_once
from slipway.core.planner.state.draft import Draft, retry_pause
from slipway.core.planner.state.gate import Blocker
from slipway.core.vocabulary.endings import DEFAULTS_CHANGED, ending_of
from slipway.core.vocabulary.reasons import MISSING_OBJECTS, WAITING_FOR_OLD, WEBHOOK_UNAVAILABLE

MIN_SCHEDULE_SECONDS_FOR_PINNING: Final = 60
"""Seconds. With a shorter timeouts.scheduleSeconds the job would time out before it tries another node pool."""
PREDECESSOR_RETRY: Final = timedelta(seconds=1)
FIRST_CREATES: Final = 64
"""The first pods of a large job: they wait for few host lists, and not for a look at the names of all Services."""
MAX_CREATES: Final = 512
"""Pods created before looking at the job again: reacting never waits behind a huge create."""
MOST_UNSERVED: Final = 8
"""Earlier attempts whose host lists are deleted at most, where none of them ran."""


def create(draft: Draft) -> None:
    """Create what the active attempt lacks: its pods, and the Services that give them their names."""
    attempt, refused = draft.active, draft.snapshot.rejection
    if attempt is None:
        return
    if refused is not None and not draft.passed(refused.at + _pause(draft, refused)):
        return
    pods = _missing_pods(draft, attempt)
    if not pods and not draft.seen.live:
        return
    if draft.snapshot.served != attempt.number and (refused is not None or not pods):
        # After a rejection the Services come first: if the name of one is taken, no pod must be created.
        draft.act(
            CreateServices(attempt.number, draft.runtime.services(draft.peers(attempt.number))),
            *_old_host_lists(draft, attempt),
        )
    draft.act(*pods)


def _old_host_lists(draft: Draft, attempt: Attempt) -> tuple[DeleteHostLists, ...]:
    """Pods of this attempt exist, so those of earlier ones cannot run any more, and read their lists no more.

    Attempts since the last one that ran may have ended before this was done in them.
    """
    ran = max((one.number for one in draft.status.attempts[1:] if one.running_time is not None), default=0)
    numbers = range(max(ran, attempt.number - MOST_UNSERVED), attempt.number)
    slices = range(draft.spec.most_slices)
    before = (Peers(draft.job, number, len(slices), draft.resolved) for number in numbers)
    found = tuple(peers.host_list(index) for peers in before if peers.have_host_lists for index in slices)
    return (DeleteHostLists(found),) if found else ()


def _pause(draft: Draft, refused: Rejection) -> timedelta:
    """How long to wait before creating again what was rejected. Orphans of an earlier job are garbage-collected."""
    if refused.reason == WAITING_FOR_OLD:
        return PREDECESSOR_RETRY
    if refused.reason in (MISSING_OBJECTS, WEBHOOK_UNAVAILABLE) and draft.attempt is not None:
        return retry_pause(draft.attempt.start_time, refused.at)
    return timedelta(seconds=draft.spec.retries.capacity_retry_seconds)


def _missing_pods(draft: Draft, attempt: Attempt) -> tuple[Action, ...]:
    """The actions that create missing pods, at most so many at once, and before them the objects that they need."""
    observation = draft.seen
    if attempt.running_time is not None or not observation.absent or observation.unwitnessed:
        return ()
    if draft.problem is not None:
        draft.blocked = Blocker(draft.problem.reason, draft.problem.message)
        return ()
    if draft.gate.closed is not None:
        draft.blocked = draft.gate.closed
        return ()
    if not same_defaults(attempt.defaults, draft.job.site.applied):
        end_at_once(draft, DEFAULTS_CHANGED, "pods are missing, and the defaults that the others have are not known")
        draft.wake(draft.now)
        return ()
    if observation.foreign or not all(map(draft.seen.roster.is_current, observation.may_run)):
        return ()
    if not (observation.begun_by_this_process or draft.admitted_still()):
        return ()
    if draft.hardware.own_pool and not observation.begun_by_this_process and not draft.may(Step.CREATE_BESIDE):
        # Another process may have pinned pods of a slice that no watch has shown. Theirs is the pool of the slice.
        return ()
    peers = draft.peers(attempt.number)
    most = MAX_CREATES if observation.live or not peers.has_several_services else FIRST_CREATES
    places = recreation.places(draft)[:most]
    if not places:
        return ()
    return (*_objects(draft, peers, places), CreatePods(attempt.number, places, _pools(draft), *draft.gate.additions))


def _objects(draft: Draft, peers: Peers, places: Collection[Place]) -> Iterator[Action]:
    """What must exist before the pods of these places."""
    live = draft.seen.live
    if not live:
        yield from _before_the_first_pod(draft)
    elif others := _unchecked_services(draft, peers):
        yield Check(others)
    begun = {place.slice for place in live if not place.is_head}
    if lists := peers.host_lists(place for place in places if place.slice not in begun):
        yield CreateObjects(lists)


def _before_the_first_pod(draft: Draft) -> Iterator[Action]:
    if objects := draft.runtime.objects(draft.job):
        yield CreateObjects(objects)
    if (token := draft.runtime.token(draft.job)) is not None:
        yield CreateToken(token)


def _unchecked_services(draft: Draft, peers: Peers) -> tuple[Body, ...]:
    """The Services whose names somebody else may have, when the second part of the first attempt is to be created.

    Before the first part one Service of each role was checked.
    """
    if peers.attempt > 0 or draft.snapshot.served is not None or len(draft.seen.live) > FIRST_CREATES:
        return ()
    services = draft.runtime.services(peers)
    checked = first_of_each_role(services)
    return tuple(service for service in services if service not in checked)


def first_of_each_role(services: Collection[Body]) -> tuple[Body, ...]:
    """Of these Services: what the API server says of the first holds for the others, but for their names."""
    found: dict[str | None, Body] = {}
    for service in services:
        # Where workers have several, these select by a label of their own.
        found.setdefault(service["spec"]["selector"].get(names.LABEL_ROLE), service)
    return tuple(found.values())


def _pools(draft: Draft) -> dict[int, str]:
    """By slice: the node pool that its pods are pinned to, or "" where the scheduler chooses."""
    if not draft.hardware.own_pool or draft.gate.additions[0].gates:
        return {}
    doubtful = any(ending_of(before).scheduler_chooses for before in draft.status.attempts[1:2])
    workers = ((place, pod) for place, pod in draft.seen.live.items() if not place.is_head)
    settled = {place.slice: pod.metadata.labels.node_pool for place, pod in workers}
    open_slices = sorted({place.slice for place in draft.seen.absent if not place.is_head} - settled.keys())
    # An unpinned slice avoids the pools that another process chose, and may be waiting for the pool chosen here.
    waited_for = not draft.seen.begun_by_this_process and "" in settled.values()
    if doubtful or waited_for or draft.resolved.schedule_seconds < MIN_SCHEDULE_SECONDS_FOR_PINNING:
        return settled | dict.fromkeys(open_slices, "")
    factory, snapshot = draft.pod_factory(), draft.snapshot
    if not factory.pool_hosts or draft.attempt is None:
        return settled
    number, added = draft.attempt.number, draft.gate.additions[0].node_selector

    def suits(node: Node) -> bool:
        return added.items() <= node.metadata.labels.items() and factory.suits(node)

    return settled | choose(snapshot.pools, snapshot.nodes, number, open_slices, factory.pool_hosts, suits)

"""Sorts what is seen of a job's pods into the few sets the rules speak of."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Final

from slipway.api import names
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, HostState, Resolved
from slipway.planner.causes import BY_REASON, Evidence, Facts, judge, ours_from
from slipway.planner.snapshot import HEAD, Pod, Slot, Snapshot, Vanished

MAX_MESSAGE: Final = 512
PENDING: Final = "Pending"
CREATING: Final = "ContainerCreating"
NOTHING_WRONG: Final = frozenset({PENDING, CREATING})
"""What pods wait for that nothing holds up."""
_INTERVAL: Final = re.compile(r"(\d{1,4}):(\d{1,4})(?:-(\d{1,4}))?")


@dataclass(frozen=True, slots=True)
class Observation:
    """The pods of the current attempt by state, and all others."""

    wanted: frozenset[Slot]
    """Every slot of the job, the Ray head's among them."""
    live: dict[Slot, Pod] = field(default_factory=dict)
    """Pods of the current attempt that the API has."""
    succeeded: frozenset[Slot] = frozenset()
    """Slots that are done, whatever happens to their pods."""
    evidence: tuple[Evidence, ...] = ()
    """What went wrong in the current attempt."""
    strays: tuple[Pod, ...] = ()
    """Own pods of other attempts."""
    foreign: tuple[Pod, ...] = ()
    """Pods of an earlier job of the same name."""

    may_run: tuple[Pod, ...] = ()
    """Own pods, of any attempt, of which a container may still run."""
    started: frozenset[Slot] = frozenset()
    """Slots whose worker runs, or has run."""
    begun_here: bool = True
    """Whether this process began the attempt, or this very decision begins it."""

    @property
    def absent(self) -> frozenset[Slot]:
        """Slots without a pod that still have work to do."""
        return self.wanted - self.live.keys() - self.succeeded

    @property
    def unwitnessed(self) -> frozenset[Slot]:
        """Slots without a pod beside some that are done, in an attempt that another process began.

        Whether the pods were never made or are gone by now nobody knows; made now, they would not find their peers.
        """
        return self.absent if self.succeeded and not self.begun_here else frozenset()

    @property
    def done(self) -> bool:
        """Whether every host has succeeded, or the entrypoint that the Ray head ran."""
        return self.succeeded >= self.wanted or HEAD in self.succeeded

    @property
    def all_started(self) -> bool:
        """Whether every worker runs, or has run."""
        return self.started >= self.wanted

    @property
    def unscheduled(self) -> list[Pod]:
        """Pods of the current attempt that no node has been found for."""
        return [pod for pod in self.live.values() if not pod.spec.node_name and not pod.ended]


def observe(
    snapshot: Snapshot, attempt: Attempt | None, resolved: Resolved, slices: int, done: Iterable[Slot], now: datetime
) -> Observation:
    """Sort the pods of a snapshot; `done` are the hosts status already knows to have succeeded."""
    spec = snapshot.job.spec
    if spec is None:
        raise ValueError("a job without a readable spec has nothing to observe")
    wanted = _slots(slices, resolved.hosts, spec.ray is not None)
    ended = attempt.end_time if attempt else None
    judging = _Judging(snapshot, spec, ended, ours_from(ended) if ended else None, now, set(done))
    number = attempt.number if attempt else -1
    live: dict[Slot, Pod] = {}
    strays: list[Pod] = []
    foreign: list[Pod] = []
    for pod in snapshot.pods:
        slot = pod.slot
        if pod.metadata.labels.job_uid != snapshot.job.uid:
            foreign.append(pod)
            continue
        if pod.attempt != number or slot not in wanted:
            # A number that somebody made unreadable cannot be selected by; that pod is theirs now.
            strays += [pod] if pod.attempt >= 0 and (slot[0] >= 0 or pod.is_head) else []
            continue
        live[slot] = pod
        if not judging.nothing_to_judge(pod):
            judging.examine(pod, slot, None)
    missing = wanted - live.keys()
    for lost in snapshot.vanished:
        if _counts(lost, number, live, wanted, attempt):
            judging.examine(lost.pod, lost.pod.slot, lost.at)
            missing -= {lost.pod.slot}
    if attempt is not None and attempt.end_time is None:
        untraced = judging.untraced(missing, attempt)
        judging.evidence += [_untraced(snapshot, number, slot, now) for slot in sorted(untraced)]
    succeeded = wanted & judging.succeeded
    return Observation(
        wanted=wanted,
        live=live,
        succeeded=succeeded,
        may_run=tuple(pod for pod in (*live.values(), *strays) if pod.may_run),
        started=succeeded | {slot for slot, pod in live.items() if pod.started},
        begun_here=number == snapshot.begun_here or number != snapshot.job.status.attempt,
        evidence=tuple(judging.evidence),
        strays=tuple(strays),
        foreign=tuple(foreign),
    )


@dataclass(slots=True)
class _Judging:
    """Goes through the pods of an attempt, one at a time."""

    snapshot: Snapshot
    spec: SliceJobSpec
    ended: datetime | None
    ours_from: datetime | None
    """From when on deletions are Slipway's own."""
    now: datetime
    succeeded: set[Slot]
    evidence: list[Evidence] = field(default_factory=list)
    never_bound: set[Slot] = field(default_factory=set)
    """Slots whose pod is gone and was not seen on a node."""

    def nothing_to_judge(self, pod: Pod) -> bool:
        """A quick look that settles nearly every pod: nothing ended, only we want it gone, its machine is there."""
        node = self.snapshot.nodes.get(pod.spec.node_name)
        if node is None or not pod.undisturbed or (pod.going and not (self._asked_to_go(pod) and node.well)):
            return False
        created, bound = node.metadata.creation_timestamp, pod.bound_at
        return created is None or bound is None or created <= bound

    def _asked_to_go(self, pod: Pod) -> bool:
        since = pod.going_since
        return self.ours_from is not None and since is not None and since >= self.ours_from

    def examine(self, pod: Pod, slot: Slot, gone_at: datetime | None) -> None:
        node = self.snapshot.nodes.get(pod.spec.node_name)
        if slot in self.succeeded:
            return
        if not pod.spec.node_name and not pod.ended:
            # It ran nothing, as far as is known, and is simply created again.
            self.never_bound |= set() if gone_at is None else {slot}
            return
        facts = Facts(
            pod=pod,
            spec=self.spec,
            node=node,
            node_replaced=self.snapshot.machine_gone(pod),
            gone_at=gone_at,
            we_deleted_since=self.ended,
            now=self.now,
        )
        if facts.succeeded:
            self.succeeded.add(slot)
        elif found := judge(facts):
            self.evidence.append(found)

    def untraced(self, missing: frozenset[Slot], attempt: Attempt) -> frozenset[Slot]:
        """Slots whose pod was there, is gone, and left nothing that says why; `missing` are those without any pod."""
        if attempt.running_time is not None:
            return (missing | self.never_bound) - self.succeeded
        # A watch that was cut may not have told of its node, and its end is what its peers died of.
        return frozenset(self.never_bound - self.succeeded) if self.evidence else frozenset()


@lru_cache(maxsize=64)
def _slots(slices: int, hosts: int, with_head: bool) -> frozenset[Slot]:
    workers = frozenset((slice_index, host) for slice_index in range(slices) for host in range(hosts))
    return workers | {HEAD} if with_head else workers


def _untraced(snapshot: Snapshot, number: int, slot: Slot, now: datetime) -> Evidence:
    """The pod of this host is not there, and was not seen going from a machine."""
    name = names.name_of(snapshot.job.name, number, slot)
    return Evidence(
        rule=BY_REASON["PodDeleted"],
        time=now,
        message=f"{names.place_of(slot)} (pod {name}) vanished without a trace",
        slice=slot[0],
        host=slot[1],
        pod=name,
        confirmed=False,
    )


def _counts(
    lost: Vanished, number: int, live: dict[Slot, Pod], wanted: frozenset[Slot], attempt: Attempt | None
) -> bool:
    slot = lost.pod.slot
    if lost.pod.attempt != number or slot not in wanted:
        return False
    # A pod created again after its predecessor vanished unbound says nothing about the newer one.
    return slot not in live or (attempt is not None and attempt.end_time is not None)


def blocked_hosts(observation: Observation, limit: int) -> tuple[HostState, ...]:
    """The hosts that are not running yet, with the scheduler's or the kubelet's own words; the first `limit`."""
    held = sorted(slot for slot, pod in observation.live.items() if not pod.started)[:limit]
    return tuple(_host_state(slot, observation.live[slot]) for slot in held)


def _host_state(slot: Slot, pod: Pod) -> HostState:
    reason, message = waiting_for(pod)
    return HostState(
        slice=None if slot == HEAD else slot[0],
        host=None if slot == HEAD else slot[1],
        pod=pod.metadata.name,
        node=pod.spec.node_name or None,
        reason=reason,
        message=message[:MAX_MESSAGE] or None,
    )


def waiting_for(pod: Pod) -> tuple[str, str]:
    """Why a pod has not started: a reason in one word and the words of whoever knows."""
    unscheduled = pod.condition("PodScheduled", "False")
    if unscheduled is not None:
        return unscheduled.reason or "Unschedulable", unscheduled.message
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses):
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in ("", CREATING, "PodInitializing"):
            return waiting.reason, waiting.message
    if pod.is_head and pod.worker is not None and pod.worker.running is not None:
        return "WaitingForWorkers", "not all workers have joined the Ray head"
    return (CREATING if pod.spec.node_name else PENDING), pod.status.message


def intervals(slots: Iterable[Slot]) -> tuple[str, ...]:
    """Slots as `slice:first-last` strings, in order; `parse_intervals` reads them back."""
    runs: list[list[int]] = []
    for slice_index, host in sorted(slot for slot in slots if slot != HEAD):
        if runs and runs[-1][0] == slice_index and runs[-1][2] == host - 1:
            runs[-1][2] = host
        else:
            runs.append([slice_index, host, host])
    return tuple(f"{s}:{first}" if first == last else f"{s}:{first}-{last}" for s, first, last in runs)


def parse_intervals(texts: Iterable[str]) -> frozenset[Slot]:
    """The slots that `intervals` wrote; what somebody else wrote counts for nothing."""
    slots: set[Slot] = set()
    for found in filter(None, map(_INTERVAL.fullmatch, texts)):
        slice_index, first, last = int(found[1]), int(found[2]), int(found[3] or found[2])
        slots.update((slice_index, host) for host in range(first, last + 1))
    return frozenset(slots)

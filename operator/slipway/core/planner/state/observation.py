"""Sorts the pods of a job into the sets that the rules use."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from propcache.api import cached_property

from slipway.api.places import HEAD, Place, pod_name
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Attempt, ConditionType, HostState
from slipway.core.manifests.accepted import Effective
from slipway.core.manifests.redact import foreign
from slipway.core.model.pods import BEING_CREATED, CREATING, Pod
from slipway.core.model.roster import NOT_BEGUN, Roster
from slipway.core.planner.contract.snapshot import Snapshot, Vanished
from slipway.core.planner.diagnosis.causes import judge
from slipway.core.planner.diagnosis.evidence import Evidence
from slipway.core.planner.diagnosis.facts import Facts, ours_from, runs_until
from slipway.core.vocabulary.endings import POD_DELETED
from slipway.core.vocabulary.reasons import PENDING, UNSCHEDULABLE

MAX_MESSAGE: Final = 512
NOTHING_WRONG: Final = frozenset({PENDING, CREATING})
"""Reasons of pods that start normally."""


@dataclass(frozen=True)
class Observation:
    """The pods of the current attempt by state, and all others."""

    wanted: frozenset[Place]
    """The places at which the attempt has pods: every one of the job, with that of the Ray head."""
    live: dict[Place, Pod] = field(default_factory=dict)
    """Pods of the current attempt that the API has."""
    succeeded: frozenset[Place] = frozenset()
    """Places whose worker has succeeded, even if the pod is gone since."""
    evidence: tuple[Evidence, ...] = ()
    """Why pods of the current attempt ended."""
    stale_attempt_pods: tuple[Pod, ...] = ()
    """Own pods of other attempts."""
    foreign: tuple[Pod, ...] = ()
    """Pods of an earlier job of the same name."""
    may_run: tuple[Pod, ...] = ()
    """Pods of any attempt in which a container may still run, with copies of pods of ended attempts."""
    started: frozenset[Place] = frozenset()
    """Places whose worker runs, or has run."""
    late: tuple[tuple[Place, Pod], ...] = ()
    """Pods of the current attempt whose worker has not run, in the order of their places."""
    unscheduled: tuple[Pod, ...] = ()
    """Those of them that are not bound to a node."""
    roster: Roster = NOT_BEGUN
    """Which run each place is in."""
    begun_by_this_process: bool = True
    """Whether this process began the attempt, or this very decision begins it."""

    @cached_property
    def absent(self) -> frozenset[Place]:
        """Places without a pod that have not succeeded."""
        return self.wanted - self.live.keys() - self.succeeded

    @cached_property
    def unscheduled_because(self) -> dict[str, str]:
        """Why pods are not bound to a node: the first message of each reason."""
        words: dict[str, str] = {}
        for pod in self.unscheduled:
            reason, message = waiting_for(pod)
            words.setdefault(reason, message)
        return words

    @property
    def unwitnessed(self) -> frozenset[Place]:
        """Places without a pod, in an attempt that another process began and in which other hosts have succeeded.

        It is unknown whether these pods were never created or are gone. Created now, they would not find their peers.
        """
        return self.absent if self.succeeded and not self.begun_by_this_process else frozenset()

    @property
    def done(self) -> bool:
        """Whether every host has succeeded, or the entrypoint that the Ray head ran."""
        return self.succeeded >= self.wanted or HEAD in self.succeeded

    @property
    def all_started(self) -> bool:
        """Whether every worker runs, or has run."""
        return self.started >= self.wanted


def observe(
    snapshot: Snapshot, attempt: Attempt | None, asked: Effective, slices: int, done: Iterable[Place], now: datetime
) -> Observation:
    """Sort the pods of a snapshot; `done` are the hosts that have succeeded according to the status."""
    number = attempt.number if attempt else -1
    wanted = asked.runtime.places(slices, asked.resolved.hosts)
    roster = Roster.of(attempt)
    judging = _Judging(snapshot, asked, attempt, now, set(done))
    live: dict[Place, Pod] = {}
    stale_attempt_pods: list[Pod] = []
    foreign: list[Pod] = []
    copies: list[Pod] = []
    uid = snapshot.job.uid
    for pod in snapshot.pods:
        place = pod.place
        if pod.metadata.labels.job_uid != uid:
            foreign.append(pod)
            continue
        if pod.is_copy:
            copies.append(pod)
            continue
        if not roster.is_current(pod) or place not in wanted:
            stale_attempt_pods.append(pod)
            continue
        live[place] = pod
        if not judging.nothing_to_judge(pod):
            judging.examine(pod, place, None)
    missing = wanted - live.keys()
    for lost in snapshot.vanished:
        if roster.is_current(lost.pod) and lost.pod.place in wanted and _counts(lost, live, attempt):
            judging.examine(lost.pod, lost.pod.place, lost.at, lost.removed_at)
            missing -= {lost.pod.place}
    if attempt is not None and attempt.end_time is None:
        untraced = judging.untraced(missing, attempt)
        judging.evidence += [_untraced(snapshot, attempt, place, now, place in missing) for place in sorted(untraced)]
    succeeded = wanted & judging.succeeded
    late = tuple(sorted((place, pod) for place, pod in live.items() if not pod.started))
    return Observation(
        wanted=wanted,
        live=live,
        succeeded=succeeded,
        may_run=tuple(
            pod for pod in (*live.values(), *stale_attempt_pods, *filter(roster.is_over, copies)) if pod.may_run
        ),
        started=succeeded | {place for place, pod in live.items() if pod.started},
        late=late,
        roster=roster,
        unscheduled=tuple(pod for _, pod in late if not pod.spec.node_name and not pod.ended),
        begun_by_this_process=number == snapshot.begun_by_this_process or number != snapshot.job.status.attempt,
        evidence=tuple(judging.evidence),
        stale_attempt_pods=tuple(stale_attempt_pods),
        foreign=tuple(foreign),
    )


@dataclass(slots=True)
class _Judging:
    """Goes through the pods of an attempt, one at a time."""

    snapshot: Snapshot
    asked: Effective
    attempt: Attempt | None
    now: datetime
    succeeded: set[Place]
    evidence: list[Evidence] = field(default_factory=list)
    never_bound: set[Place] = field(default_factory=set)
    """Places whose pod is gone and was never seen bound to a node."""
    ended: datetime | None = field(init=False)
    all_ran_at: datetime | None = field(init=False)
    runs_until: datetime | None = field(init=False)
    """When every worker had begun the run that it has to have."""
    root: str | None = field(init=False)
    """The pod whose end ended the attempt."""
    ours_from: datetime | None = field(init=False)
    """From when on deletions are Slipway's own."""

    def __post_init__(self) -> None:
        self.ended = self.attempt.end_time if self.attempt else None
        self.all_ran_at = self.attempt.running_time if self.attempt else None
        self.root = self.attempt.root.pod if self.attempt and self.attempt.root else None
        self.ours_from = ours_from(self.ended) if self.ended else None
        self.runs_until = runs_until(self.all_ran_at)

    def nothing_to_judge(self, pod: Pod) -> bool:
        """A quick check for nearly every pod: no container terminated, no deletion but Slipway's, its node exists."""
        node = self.snapshot.nodes.get(pod.spec.node_name)
        if node is None or not pod.undisturbed or (pod.terminating and not (self._asked_to_go(pod) and node.well)):
            return False
        began, until = pod.run_since, self.runs_until
        if pod.restarted or (until is not None and began is not None and began > until):
            return False
        created, bound = node.metadata.creation_timestamp, pod.bound_at
        return created is None or bound is None or created <= bound

    def _asked_to_go(self, pod: Pod) -> bool:
        known = self.snapshot.deleted_here.has(pod.metadata.uid)
        if known is not None:
            return known
        since = pod.deletion_requested_at
        return self.ours_from is not None and since is not None and since >= self.ours_from

    def examine(self, pod: Pod, place: Place, gone_at: datetime | None, removed_at: datetime | None = None) -> None:
        node, done = self.snapshot.nodes.get(pod.spec.node_name), place in self.succeeded
        if done and not (pod.restarted or self.snapshot.machine_gone(pod)):
            return
        if not pod.spec.node_name and not pod.ended:
            # It was not bound to a node as far as is known, so it is created again.
            self.never_bound |= set() if gone_at is None else {place}
            return
        facts = Facts(
            pod=pod,
            asked=self.asked,
            node=node,
            node_replaced=self._machine_gone(pod, removed_at),
            gone_at=gone_at,
            we_deleted_since=self.ended,
            now=self.now,
            deleted_here=self.snapshot.deleted_here.has(pod.metadata.uid),
            removed_at=removed_at if pod.ended else None,
            all_ran_at=self.all_ran_at,
            is_root=self.root == pod.metadata.name,
            troubled_since=self.snapshot.machine_troubled_since(pod),
        )
        if facts.succeeded:
            self.succeeded.add(place)
        if evidence := judge(facts, done=done):
            self.evidence.append(evidence)

    def _machine_gone(self, pod: Pod, removed_at: datetime | None) -> bool:
        """Whether its node was gone before the kubelet reported the end of the pod and deleted it."""
        gone = self.snapshot.machine_gone_since(pod)
        return gone is not None and not (removed_at is not None and pod.ended and removed_at < gone)

    def untraced(self, missing: frozenset[Place], attempt: Attempt) -> frozenset[Place]:
        """Places whose pod existed and is gone without evidence; `missing` are the places without any pod."""
        if attempt.running_time is not None:
            return (missing | self.never_bound) - self.succeeded
        # A broken watch may have missed that it was bound. Its end may be why its peers crashed, and a peer that has
        # succeeded will not run again with another pod in its place.
        return frozenset(self.never_bound - self.succeeded) if self.evidence or self.succeeded else frozenset()


def _untraced(snapshot: Snapshot, attempt: Attempt, place: Place, now: datetime, unseen: bool) -> Evidence:
    """Evidence that the pod of a host is missing; `unseen` when the watch has not shown its deletion."""
    name = pod_name(snapshot.job.name, attempt.number, place)
    return Evidence(
        ending=POD_DELETED,
        time=now,
        message=f"{place.words} (pod {name}) vanished without a trace",
        place=place,
        pod=name,
        confirmed=False,
        absent_since=seen_running(snapshot, attempt, now) if unseen else None,
    )


def seen_running(snapshot: Snapshot, attempt: Attempt, now: datetime) -> datetime | None:
    """When every host was seen running. The attempt may have the date of a kubelet whose clock is ahead."""
    running = snapshot.job.status.condition(ConditionType.RUNNING)
    ahead = attempt.running_time is not None and attempt.running_time > now
    return running.last_transition_time if ahead and running is not None else attempt.running_time


def _counts(lost: Vanished, live: dict[Place, Pod], attempt: Attempt | None) -> bool:
    # A pod that vanished unbound and was created again is no evidence in an active attempt. One that was bound is, even
    # if a create that was sent for it came late and made another in its place.
    again = lost.pod.place in live and not lost.pod.spec.node_name
    return not again or (attempt is not None and attempt.end_time is not None)


def blocked_hosts(observation: Observation, spec: SliceJobSpec | None, limit: int) -> tuple[HostState, ...]:
    """The first `limit` hosts that do not run yet, with the message of the scheduler or the kubelet."""
    return tuple(_host_state(place, pod, spec) for place, pod in observation.late[:limit])


def _host_state(place: Place, pod: Pod, spec: SliceJobSpec | None) -> HostState:
    reason, message = waiting_for(pod)
    return HostState(
        slice=None if place.is_head else place.slice,
        host=None if place.is_head else place.host,
        pod=pod.metadata.name,
        node=pod.spec.node_name or None,
        reason=reason,
        message=foreign(message, spec)[:MAX_MESSAGE] or None,
    )


def waiting_for(pod: Pod) -> tuple[str, str]:
    """Why a pod has not started: a reason in one word, and the message of the scheduler or the kubelet."""
    unscheduled = pod.condition("PodScheduled", "False")
    if unscheduled is not None:
        return unscheduled.reason or UNSCHEDULABLE, unscheduled.message
    for status in (*pod.status.container_statuses, *pod.status.init_container_statuses) if pod.waits_to_start else ():
        waiting = status.state.waiting
        if waiting is not None and waiting.reason not in BEING_CREATED:
            return waiting.reason, waiting.message
    if pod.is_head and pod.worker is not None and pod.worker.running is not None:
        return "WaitingForWorkers", "not all workers have joined the Ray head"
    return (CREATING if pod.spec.node_name else PENDING), pod.status.message

"""The cache: puts the snapshot of one job together from all that is watched."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha256
from math import inf
from typing import Final, TypeVar

from slipway.api.profile import ProfileSpec
from slipway.api.status import SliceJobStatus
from slipway.controller.seen.jobs import JobStore
from slipway.controller.seen.kueue import KueueStore
from slipway.controller.seen.node_pools import Claims
from slipway.controller.seen.nodes import NodeStore
from slipway.controller.seen.pods import PodStore
from slipway.controller.seen.profiles import ProfileStore
from slipway.controller.seen.progress_log import Reading
from slipway.controller.seen.visitors import WatchedTenants
from slipway.core.accounting.measures import Measure, measures
from slipway.core.model.events import PodEvents
from slipway.core.model.job import Job, Key, Settings
from slipway.core.model.pods import Pod
from slipway.core.model.tenants import Visitors
from slipway.core.planner.contract.actions import EventRecord
from slipway.core.planner.contract.freshness import EVER, Horizon
from slipway.core.planner.contract.pool_pinning import NodePools, claim_over, doubts
from slipway.core.planner.contract.snapshot import KubeletLease, OwnDeletions, Rejection, Snapshot
from slipway.core.planner.status.events import EventCursor, cursor_of, news

T = TypeVar("T")

NO_PROFILE: Final = ProfileSpec()
_NOTHING_READ: Final = Horizon()

MAX_READ: Final = 10_000
"""Nodes of which is remembered when they were read; an older one is read again."""

ANSWER_SECONDS: Final = 60.0
"""How long the API server is taken to accept what it has accepted."""

MAX_ACCEPTED: Final = 1_024
"""Specs that are remembered as accepted."""

MAX_VISITED: Final = 1_024
"""Nodes of which the pods are remembered; they count for a minute."""


@dataclass(slots=True)
class Deletions:
    """What this process knows of the pods of one attempt that it has deleted since it ended it."""

    attempt: int | None
    uids: set[str] = field(default_factory=set)
    complete: bool = True
    """Whether every deletion was answered, so that no other pod was deleted by it."""


RETOLD: Final = timedelta(minutes=10)
"""A leader that dies has recorded the Events of changes that were longer ago. One that is told twice is one Event."""


@dataclass(slots=True)
class _Memory:
    """What only this process knows of a job; losing it costs a repeated question, at worst an uncharged attempt."""

    uid: str
    generation: int
    told: EventCursor | None = None
    checked: bool = False
    rejection: Rejection | None = None
    served: int | None = None
    served_at: datetime = EVER
    begun: int | None = None
    status_written: datetime | None = None
    known: Horizon = _NOTHING_READ
    """Without what is the same for all jobs."""
    deletions: Deletions | None = None
    reading: Reading | None = None
    measured: SliceJobStatus | None = None
    """The status up to which the job's attempts are counted."""


class Cache:
    """Jobs, pods, nodes, and what the API server said to our own requests."""

    def __init__(
        self,
        settings: Settings,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        chart: ProfileSpec = NO_PROFILE,
    ) -> None:
        """`now` is the wall clock in UTC; `clock` is monotonic, in seconds.

        `chart` has the defaults and limits of the chart's values.
        """
        self.settings = settings
        self.profiles = ProfileStore(clock, chart)
        self.jobs = JobStore(clock, self.profiles, lambda key: self.pods.forget_unneeded(key))
        self.nodes = NodeStore(now, clock, settings.topology_key)
        self.pods = PodStore(now, clock, self.jobs.needs, self.nodes.open_pools)
        self.claims = Claims(self.nodes.open_pools)
        self.kueue = KueueStore(clock)
        self.leading_since: datetime = EVER
        """Since when this process leads."""
        self.kubelets: dict[str, KubeletLease] = {}
        """Leases of kubelets that were read, by node; bounded as the nodes are that were read."""
        self.nodes_as_of: dict[str, datetime] = {}
        """When each node was last read by its name."""
        self.visitors: dict[str, Visitors] = {}
        """The pods of others on nodes of which they were read."""
        self.pod_events: dict[str, PodEvents] = {}
        """Events of pods of which they were read, by UID."""
        self._now = now
        self._clock = clock
        self._accepted: dict[str, float] = {}
        """When the API server last accepted the pods of a spec, by digest of namespace and spec."""
        self._memories: dict[Key, _Memory] = {}
        self._tenants = WatchedTenants(self.pods, self.jobs, self.visitors)

    def snapshot(self, key: Key) -> Snapshot | None:
        """Everything a decision on this job is made from; None when there is no such job."""
        job = self.jobs.get(key)
        if job is None:
            return None
        memory = self._memory(job)
        return Snapshot(
            job=job,
            pods=tuple(self.pods.of(key)),
            vanished=self.pods.vanished_of(key, job.uid),
            vanished_foreign=self.pods.vanished_foreign(key, job.uid),
            nodes=self.nodes.view,
            lost_nodes=self.nodes.lost,
            troubled_nodes=self.nodes.troubled,
            nodes_watched=self.nodes.watched,
            checked=memory.checked,
            equal_accepted=job.status.attempt is None and not memory.checked and self._accepts(job),
            rejection=memory.rejection,
            kubelets=self.kubelets,
            pod_events=self.pod_events,
            known=replace(memory.known, leading_since=self.leading_since, nodes_as_of=self.nodes_as_of),
            rivals=self.jobs.rivals(job),
            pools=self.node_pools(job),
            kueue=self.kueue.of(key, job.queue),
            pending_deletions=self.pods.pending_deletions(key),
            served=memory.served,
            served_at=memory.served_at,
            deleted_here=_deleted(memory.deletions, job),
            begun_by_this_process=memory.begun,
            status_written=memory.status_written,
            printed=memory.reading.seen() if memory.reading is not None else None,
            settings=self.settings,
        )

    def serves(self, job: Job) -> bool:
        """Whether the job is this operator's, and not another's."""
        return job.operator_id == self.settings.operator_id

    def profile_changed(self, namespace: str, profile: str | None = None) -> list[Key]:
        """A profile has changed, or whether profiles can be read; returns the jobs for which that is news."""
        keys = self.jobs.profile_changed(namespace, profile)
        self._accepted.clear()
        for key in keys:
            if (memory := self._memories.get(key)) is not None:
                memory.checked, memory.rejection = False, None
        return keys

    def node_pools(self, job: Job) -> NodePools:
        """The node pools as a job may choose among them."""
        if not self.settings.whole_cluster:
            return NodePools(tpu_pools=self.nodes.tpu_pools)
        pods, nodes, claim = self.pods, self.nodes, self.claims.of(job.key, job.uid)
        doubted = self.claims.doubted
        return NodePools(
            nodes.pools, nodes.open_pools, pods.pinned, pods.busy, doubted, self._tenants, nodes.tpu_pools, claim
        )

    def accepted(self, job: Job) -> None:
        """The API server takes, or would take, the job's objects."""
        memory = self._memory(job)
        memory.checked, memory.rejection = True, None
        _remember(self._accepted, _digest(job), self._clock(), MAX_ACCEPTED)

    def rejected(self, job: Job, rejection: Rejection) -> bool:
        """The API server refuses an object of the job; whether that is news, apart from the object's name."""
        self._accepted.pop(_digest(job), None)
        memory = self._memory(job)
        before, memory.rejection = memory.rejection, rejection
        return before is None or before.reason != rejection.reason

    def workload_made(self, job: Job) -> None:
        """The job has a Workload; what was refused before is over."""
        self._memory(job).rejection = None

    def writes(self, job: Job, status: SliceJobStatus) -> None:
        """That status is about to be written in place of the one the job has; the answer may be lost."""
        memory = self._memory(job)
        if status.attempt != job.status.attempt:
            memory.begun = status.attempt
        if status.attempt_ended and not job.status.attempt_ended:
            memory.deletions = Deletions(status.attempt)

    def status_written(self, job: Job, at: datetime) -> None:
        """The job's status was written."""
        self._memory(job).status_written = at

    def reads(self, job: Job, reading: Reading) -> None:
        """The log of the job's attempt is read from now on, and `reading` has what it says."""
        self._memory(job).reading = reading

    def served(self, job: Job, attempt: int, at: datetime) -> None:
        """The Services are there for an attempt of the job."""
        memory = self._memory(job)
        # What was refused has been created since, or is tried again at once.
        memory.served, memory.served_at, memory.rejection = attempt, at, None

    def node_read(self, name: str, at: datetime) -> None:
        """A node was read by its name, or found absent."""
        _remember(self.nodes_as_of, name, at)

    def events_read(self, pod_uid: str, events: PodEvents) -> None:
        """The Events of a pod were read."""
        _remember(self.pod_events, pod_uid, events)

    def visitors_read(self, node: str, visitors: Visitors) -> None:
        """The pods on a node were read."""
        _remember(self.visitors, node, visitors, MAX_VISITED)

    def kubelet_read(
        self, node: str, at: datetime, renewed_at: datetime | None, seconds: int | None = None, forbidden: bool = False
    ) -> None:
        """The Lease of a kubelet was read, if that is allowed; `renewed_at` is None when there is none.

        A renewal holds for so many `seconds`; for those of the last one that was read when there is none.
        """
        lease = self.kubelets.get(node) or KubeletLease(at, renewed_at, at)
        since = lease.same_since if lease.renewed_at == renewed_at else at
        duration = lease.duration if seconds is None else timedelta(seconds=seconds)
        _remember(self.kubelets, node, KubeletLease(at, renewed_at, since, duration, forbidden))

    def pods_listed(self, job: Job, pods: Iterable[Pod], version: str, at: datetime) -> None:
        """All pods of the job were listed at that time, and these are they."""
        self.pods.relisted(job.key, job.uid, pods, version)
        memory = self._memory(job)
        memory.known = replace(memory.known, pods_as_of=at, pods_read_at=self._now())

    def workload_read(self, job: Job, at: datetime) -> None:
        """The job's Workload was read, or found absent."""
        memory = self._memory(job)
        memory.known = replace(memory.known, workload_as_of=at)

    def create_unanswered(self, job: Job, until: datetime) -> None:
        """The API server may still create a pod of the job until then, or may have done it."""
        memory = self._memory(job)
        memory.known = replace(memory.known, creates_end=max(memory.known.creates_end, until))

    def deleted(self, job: Job, attempt: int, uids: Iterable[str]) -> None:
        """This process has deleted these pods."""
        memory = self._memory(job)
        if memory.deletions is not None and memory.deletions.attempt == attempt:
            memory.deletions.uids.update(uids)

    def deletion_unanswered(self, job: Job, attempt: int) -> None:
        """Which pods a deletion has reached is not known."""
        memory = self._memory(job)
        if memory.deletions is not None and memory.deletions.attempt == attempt:
            memory.deletions.complete = False

    def news(self, job: Job) -> tuple[EventRecord, ...]:
        """What the job's status says that nobody was told of; from then on it counts as told."""
        memory = self._memory(job)
        if job.status_problem:
            return ()
        cursor, memory.told = memory.told or _told_before(job, self._now()), cursor_of(job.status)
        return news(cursor, job.status, job.spec, job.site)

    def measures(self, key: Key) -> tuple[Measure, ...]:
        """What has happened to a job's attempts since the last look; what was before the first is not ours to count."""
        job = self.jobs.get(key)
        if job is None or job.status_problem:
            return ()
        memory = self._memory(job)
        before, memory.measured = memory.measured, job.status
        if before is None or before is job.status:
            return ()
        return tuple(measures(before, job.status, self.pods.of(key), self._now()))

    def tidy(self, job: Job) -> None:
        """Release what the job holds no longer."""
        if claim_over(job.status):
            self.claims.end(job.key, job.status.attempt, doubted=doubts(job.status))

    def forget(self, key: Key, uid: str) -> Job | None:
        """Forget the job of that UID, which is gone, and return it; its pods stay until the watch shows their end.

        Another job that has its name by now stays.
        """
        job = self.jobs.remove(key, uid)
        self.forget_name(key)
        return job

    def forget_name(self, key: Key) -> None:
        """Forget what is kept by a name that no job has any more."""
        if self.jobs.get(key) is None:
            self.claims.release(key)
            self._memories.pop(key, None)

    def _accepts(self, job: Job) -> bool:
        """Whether the API server has just accepted the pods of such a spec in the job's namespace."""
        return self._clock() - self._accepted.get(_digest(job), -inf) < ANSWER_SECONDS

    def _memory(self, job: Job) -> _Memory:
        memory = self._memories.get(job.key)
        if memory is None or memory.uid != job.uid:
            memory = self._memories[job.key] = _Memory(job.uid, job.generation)
        elif memory.generation != job.generation:
            memory.generation, memory.checked, memory.rejection = job.generation, False, None
        return memory


def _deleted(deletions: Deletions | None, job: Job) -> OwnDeletions:
    if deletions is None or deletions.attempt != job.status.attempt:
        return OwnDeletions()
    return OwnDeletions(frozenset(deletions.uids), deletions.complete)


def _remember(memory: dict[str, T], name: str, what: T, most: int = MAX_READ) -> None:
    memory.pop(name, None)
    memory[name] = what
    while len(memory) > most:
        del memory[next(iter(memory))]


def _digest(job: Job) -> str:
    """Of the namespace and the spec, from which the pods of a job are made but for their names."""
    spec = job.spec.model_dump_json() if job.spec is not None else ""
    return sha256(f"{job.namespace} {spec}".encode()).hexdigest()


def _told_before(job: Job, now: datetime) -> EventCursor:
    """What earlier processes have told; the last may have died before its Event, so what is recent is told again.

    That the first attempt has begun is recent only in that attempt.
    """
    cursor = cursor_of(job.status)
    recent = any(now - condition.last_transition_time < RETOLD for condition in job.status.conditions)
    return replace(cursor, phase=None, begun=bool(job.status.attempt)) if recent else cursor

"""All that is known, put together for one decision."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from slipway.api.status import Attempt, Cause, SliceJobStatus
from slipway.cluster.jobs import JobStore
from slipway.cluster.pools import Pools
from slipway.cluster.store import Key, NodeStore, PodStore
from slipway.planner.actions import Announcement
from slipway.planner.budgets import POOL_TAKEN
from slipway.planner.causes import BY_REASON
from slipway.planner.news import Told, news, story
from slipway.planner.snapshot import Job, Pod, Rejection, Settings, Snapshot


@dataclass(slots=True)
class _Memory:
    """What only this process knows of a job; losing it costs a repeated question, at worst an uncharged attempt."""

    uid: str
    generation: int
    told: Told
    checked: bool = False
    rejection: Rejection | None = None
    served: int | None = None
    nodes_asked: int | None = None
    begun: int | None = None
    status_written: datetime | None = None
    listed_at: datetime | None = None


class Cache:
    """Jobs, pods, nodes, and what the API server said to our own requests."""

    def __init__(self, settings: Settings, now: Callable[[], datetime], clock: Callable[[], float]) -> None:
        """`now` is the wall clock in UTC; `clock` is monotonic, in seconds."""
        self.settings = settings
        self.jobs = JobStore(clock)
        self.pods = PodStore(now, clock)
        self.nodes = NodeStore(now, clock, settings.topology_key)
        self.pools = Pools(self.nodes, self.pods)
        self._memories: dict[Key, _Memory] = {}

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
            nodes=self.nodes.view,
            lost_nodes=self.nodes.lost,
            nodes_watched=self.nodes.watched,
            checked=memory.checked,
            rejection=memory.rejection,
            listed_at=memory.listed_at,
            older_waits=self.jobs.older_waits(job),
            asked_to_go=self.pods.asked_of(key),
            served=memory.served,
            nodes_asked=memory.nodes_asked,
            begun_here=memory.begun,
            status_written=memory.status_written,
            settings=self.settings,
        )

    def accepted(self, job: Job) -> None:
        """The API server takes, or would take, the job's objects."""
        memory = self._memory(job)
        memory.checked, memory.rejection = True, None

    def rejected(self, job: Job, rejection: Rejection) -> None:
        """The API server refuses one of the job's pods."""
        self._memory(job).rejection = rejection

    def writes(self, job: Job, status: SliceJobStatus) -> None:
        """That status is about to be written in place of the one the job has; the answer may be lost."""
        if status.attempt != job.status.attempt:
            self._memory(job).begun = status.attempt

    def status_written(self, job: Job, at: datetime) -> None:
        """The job's status was written."""
        self._memory(job).status_written = at

    def served(self, job: Job, attempt: int) -> None:
        """The Services are there for an attempt of the job."""
        memory = self._memory(job)
        memory.served = attempt
        if memory.rejection is not None and memory.rejection.of_names:
            memory.rejection = None

    def nodes_asked(self, job: Job, attempt: int) -> None:
        """The nodes were asked for that may explain ends of that attempt which no kubelet saw."""
        self._memory(job).nodes_asked = attempt

    def pods_listed(self, job: Job, pods: Iterable[Pod], version: str, at: datetime) -> None:
        """All pods of the job were asked for at that time, and these are they."""
        self.pods.relisted((job.namespace, job.name), job.uid, pods, version)
        self._memory(job).listed_at = at

    def news(self, job: Job) -> tuple[Announcement, ...]:
        """What the job's status says that nobody was told of; from then on it counts as told."""
        memory = self._memory(job)
        told, memory.told = memory.told, story(job.status)
        return news(told, job.status, job.spec)

    def tidy(self, job: Job) -> None:
        """Forget what no decision on the job will ask for again."""
        key = (job.namespace, job.name)
        final = job.status.phase is not None and job.status.phase.final
        if final or job.attempt_ended:
            self.pools.release(key, doubted=any(map(_found_bad_nodes, job.status.attempts[:1])))
        if final or job.status.attempt is not None:
            self.pods.forget(key, None if final else job.status.attempt)

    def forget(self, key: Key) -> None:
        """Forget a job that is gone; its pods stay until the watch shows their end."""
        self.jobs.remove(key)
        self.pods.forget(key)
        self.pools.release(key)
        self._memories.pop(key, None)

    def _memory(self, job: Job) -> _Memory:
        key = (job.namespace, job.name)
        memory = self._memories.get(key)
        if memory is None or memory.uid != job.uid:
            memory = self._memories[key] = _Memory(job.uid, job.generation, _told_before(job))
        elif memory.generation != job.generation:
            memory.generation, memory.checked, memory.rejection = job.generation, False, None
        return memory


def _found_bad_nodes(attempt: Attempt) -> bool:
    """Whether an attempt that may not be judged yet found its nodes taken, or broken."""
    rule = BY_REASON.get(attempt.reason or "")
    return attempt.reason == POOL_TAKEN or (rule is not None and rule.cause is Cause.INFRASTRUCTURE)


def _told_before(job: Job) -> Told:
    """What earlier processes have told; the last may have died before its Event, so the present is told again."""
    told = story(job.status)
    return told if told.phase is not None and told.phase.final else replace(told, phase=None)

"""All that is known, put together for one decision."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from slipway.api.status import BAD_PHASES, ConditionType, Phase
from slipway.cluster.jobs import JobStore
from slipway.cluster.store import Key, NodeStore, PodStore
from slipway.planner.actions import Announcement
from slipway.planner.snapshot import Job, Rejection, Settings, Snapshot


@dataclass(slots=True)
class _Memory:
    """What only this process knows of a job; losing it costs a repeated question, never a wrong decision."""

    uid: str
    generation: int
    checked: bool = False
    rejection: Rejection | None = None
    status_written: datetime | None = None
    told: Phase | None = None


class Cache:
    """Jobs, pods, nodes, and what the API server said to our own requests."""

    def __init__(self, settings: Settings, now: Callable[[], datetime], clock: Callable[[], float]) -> None:
        """`now` is the wall clock in UTC; `clock` is monotonic, in seconds."""
        self.settings = settings
        self.jobs = JobStore(clock)
        self.pods = PodStore(now, clock)
        self.nodes = NodeStore(now)
        self.pods_current: Callable[[], bool] = lambda: True
        """Whether the watch of the pods has shown all there is."""
        self.pods_heard_at: Callable[[], datetime | None] = lambda: None
        """When the watch of the pods last gave a sign of life."""
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
            current=self.pods_current(),
            heard_at=self.pods_heard_at(),
            older_waits=self.jobs.older_waits(job),
            asked_to_go=self.pods.asked_of(key),
            status_written=memory.status_written,
            settings=self.settings,
        )

    def accepted(self, job: Job) -> None:
        """The API server takes, or would take, the job's pods."""
        memory = self._memory(job)
        memory.checked, memory.rejection = True, None

    def rejected(self, job: Job, rejection: Rejection) -> None:
        """The API server refuses one of the job's pods."""
        self._memory(job).rejection = rejection

    def status_written(self, job: Job, at: datetime) -> None:
        """The job's status was written."""
        self._memory(job).status_written = at

    def untold(self, job: Job) -> Announcement | None:
        """The job's phase, when it is another than was told last; from then on it counts as told."""
        memory, phase = self._memory(job), job.status.phase
        before, memory.told = memory.told, phase
        if phase is None or phase is before or (before is None and phase.final):
            return None
        messages = [one.message for one in job.status.conditions if one.type == ConditionType.RUNNING]
        return Announcement(phase.value, messages[0] if messages else "", phase in BAD_PHASES)

    def tidy(self, job: Job) -> None:
        """Forget what no decision on the job will ask for again."""
        key = (job.namespace, job.name)
        final = job.status.phase is not None and job.status.phase.final
        if final or job.status.attempt is not None:
            self.pods.forget(key, None if final else job.status.attempt)

    def forget(self, key: Key) -> None:
        """Forget a job that is gone; its pods stay until the watch shows their end."""
        self.jobs.remove(key)
        self.pods.forget(key)
        self._memories.pop(key, None)

    def _memory(self, job: Job) -> _Memory:
        key = (job.namespace, job.name)
        memory = self._memories.get(key)
        if memory is None or memory.uid != job.uid:
            memory = self._memories[key] = _Memory(job.uid, job.generation)
        elif memory.generation != job.generation:
            memory.generation, memory.checked, memory.rejection = job.generation, False, None
        return memory

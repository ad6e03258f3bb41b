"""What Slipway owes a job at each moment, and has to have done a while after its leader could know of it.

And what it keeps meanwhile: the pods whose logs say why the last attempt failed, and the time that pods have to end.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from slipway.api import names
from slipway.api.status import Phase
from slipway.core.model.pods import Pod
from tests.simulation.store import PodRecord, Store
from tests.simulation.timeline import Timeline, moment
from tests.simulation.truth import Violation, require

Json = dict[str, Any]

EVERY: Final = 10.0
"""Seconds between two looks."""
IN_TIME: Final = 45.0
"""Seconds within which a leader that lives, and whose requests are answered, has done what it owes.

A pod that somebody removed may have 30 s of its grace period left, and the next attempt waits for its containers."""
BEHIND_CUTS: Final = 120.0
"""The same where watches are cut, for up to 75 s each time."""
IN_BAD_WEATHER: Final = 240.0
"""The same where answers are lost, for half a minute each."""
BLUR: Final = 8.0
"""Seconds by which dates of the API and of the operator may be wrong against each other."""
OVERDUE: Final = 30.0
"""Seconds that pods may take longer to terminate than they should before the status says so."""
_FINAL: Final = frozenset(phase.value for phase in Phase if phase.final)
ON_REQUEST: Final = ("Suspended", "Cancelled", "DeadlineExceeded")


@dataclass(slots=True)
class Debt:
    """Something that is still to be done."""

    version: int
    """Of the job, when it was found out."""
    owed_by: str = ""
    """The leader that knows."""
    since: float = 0.0
    """Since when it does."""


class Promises:
    """Watches over the jobs of a history."""

    def __init__(self, timeline: Timeline, store: Store) -> None:
        self._timeline = timeline
        self._store = store
        self._owed: dict[tuple[str, str], Debt] = {}
        """By UID of a job and what it is owed."""
        self.who_knows: Callable[[str, int], str] = lambda uid, version: ""
        """The leader that has been shown this version of a job; empty if it has not."""
        self.in_time: Callable[[], float] = lambda: IN_TIME
        """Seconds within which the leader has done what it owes."""
        self.on_broken: Callable[[Violation], None] = lambda violation: None
        self.holds_quota: Callable[[str], bool] = lambda uid: False
        """Whether a job has quota in its queue."""
        self.is_awaited: Callable[[str], bool] = lambda uid: False
        """Whether the queue of a job has not been told that its pods run."""
        self.may_be_deleted: Callable[[str], bool] = lambda uid: True
        """Whether the queue of a job can be told of its end, which comes before the deletion of the job."""

    def watch(self) -> None:
        """Look now, and again and again.

        Raises:
            Violation: when something has been owed for too long.
        """
        now, present = self._timeline.now, dict[tuple[str, str], Debt]()
        for job in self._store.jobs.values():
            metadata = job["metadata"]
            if metadata.get("deletionTimestamp") or "status" not in job:
                continue
            uid, version = metadata["uid"], int(metadata["resourceVersion"])
            for what in self._debts(job):
                debt = self._owed.get((uid, what)) or Debt(version)
                if debt.owed_by != (leader := self.who_knows(uid, debt.version)):
                    debt.owed_by, debt.since = leader, now
                require(not leader or now - debt.since < self.in_time(), f"{leader} owes {uid} for long that {what}")
                present[uid, what] = debt
        self._owed = present
        self._timeline.after(EVERY, self.watch)

    def _debts(self, job: Json) -> Iterator[str]:
        """What is still to be done for a job, in words."""
        mine = [one for one in self._store.pods.values() if one.owner == job["metadata"]["uid"]]
        running = [one for one in mine if one.pod.may_run]
        yield from self._of_pods(job, mine)
        if _is_final(job):
            over = self._past(job["status"].get("completionTime"), job["spec"].get("ttlSecondsAfterFinished"))
            if over and self.may_be_deleted(job["metadata"]["uid"]):
                yield "it is deleted when its time to live is over"
        elif job["spec"].get("cancel"):
            yield "it is cancelled"
        elif job["spec"].get("suspend"):
            if not running and job["status"].get("phase") != Phase.SUSPENDED:
                yield "it is suspended"
        elif self._past(job["status"].get("startTime"), job["spec"].get("activeDeadlineSeconds")):
            yield "it ends at its deadline"
        elif not running and _may_go_on(job):
            yield "its next attempt begins"
        if not running and _has_stopped(job) and self.holds_quota(job["metadata"]["uid"]):
            yield "its quota is given back"
        if job["status"].get("phase") == Phase.RUNNING and self.is_awaited(job["metadata"]["uid"]):
            yield "its queue is told that its pods run"

    def _of_pods(self, job: Json, pods: Iterable[PodRecord]) -> Iterator[str]:
        """Pods that run in vain are deleted, those that ended long ago as well, and those that do not go are named."""
        number, newest = job["status"].get("attempt", -1), _newest(job)
        oldest = number - ("endTime" not in newest and not _is_final(job))
        for pod in (one.pod for one in pods):
            in_vain = pod.may_run and (_has_stopped(job) or pod.attempt != number)
            if not pod.terminating and (in_vain or (not pod.may_run and pod.attempt < oldest)):
                yield f"pod {pod.metadata.name} is deleted"
            if pod.may_run and self._overdue(pod) and "CleanupPending" not in _true(job):
                yield "it says that pods do not go"

    def _overdue(self, pod: Pod) -> bool:
        due = pod.metadata.deletion_timestamp
        return due is not None and (moment(self._timeline.now) - due).total_seconds() > OVERDUE + BLUR

    def _past(self, since: str | None, seconds: int | None) -> bool:
        if since is None or seconds is None:
            return False
        due = datetime.fromisoformat(since) + timedelta(seconds=seconds + BLUR)
        return moment(self._timeline.now) >= due

    def deleted(self, who: str, record: PodRecord, grace: int | None) -> None:
        """Slipway deletes a pod, with that grace period."""
        try:
            self._may_delete(who, record, grace)
        except Violation as violation:
            self.on_broken(violation)

    def job_deleted(self, job: Json) -> None:
        """Slipway deletes a job."""
        try:
            _may_delete_job(job, moment(self._timeline.now))
        except Violation as violation:
            self.on_broken(violation)

    def _may_delete(self, who: str, record: PodRecord, grace: int | None) -> None:
        """A pod that has ended is kept for its log; one that has not gets the time that it has a right to."""
        job = self._store.jobs.get(self._store.job_names.get(record.owner, ""))
        if job is None or job["metadata"]["uid"] != record.owner or job["metadata"].get("deletionTimestamp"):
            return
        pod, newest, spec = record.pod, _newest(job), job["spec"]
        if not newest or grace == 0 or not pod.spec.node_name or pod.terminating:
            # Its machine is gone, or it has never run, or has been asked before.
            return
        if not pod.may_run:
            oldest = newest["number"] - ("endTime" not in newest)
            require(pod.attempt < oldest, f"{who} deletes {pod.metadata.name}, whose log says why the attempt ended")
        elif pod.attempt != newest["number"] or "endTime" not in newest:
            return
        elif newest.get("reason") in ON_REQUEST:
            require(grace is None, f"{who} gives {pod.metadata.name}, {newest['reason']}, {grace} s to end")
        elif not (_has_stopped(job) or spec.get("cancel")):
            least = spec["retries"]["gracePeriodSeconds"]
            require(grace == least, f"{who} gives {pod.metadata.name} {grace} s to end; gracePeriodSeconds is {least}")


def _is_final(job: Json) -> bool:
    return job["status"].get("phase") in _FINAL


def _has_stopped(job: Json) -> bool:
    """Whether the job is to have no pods."""
    return _is_final(job) or bool(job["spec"].get("suspend"))


def _newest(job: Json) -> Json:
    """The record of the newest attempt."""
    return next(iter(job.get("status", {}).get("attempts", ())), {})


def _true(job: Json) -> set[str]:
    """Types of the conditions that are True."""
    return {one["type"] for one in job["status"].get("conditions", ()) if one["status"] == "True"}


def _may_go_on(job: Json) -> bool:
    """Whether nothing delays the next attempt: the last one had run, and was preempted."""
    queued = names.QUEUE_LABEL in job["metadata"].get("labels", ())
    return _newest(job).get("cause") == "preemption" and "runningTime" in _newest(job) and not queued


def _may_delete_job(job: Json, now: datetime) -> None:
    """A job goes when it has ended and its time to live is over."""
    ttl, ended = job["spec"].get("ttlSecondsAfterFinished"), job.get("status", {}).get("completionTime")
    require(ttl is not None and ended is not None, "a job is deleted that has no time to live, or has not ended")
    early = ttl - (now - datetime.fromisoformat(ended)).total_seconds()
    require(early <= BLUR, f"a job is deleted {early:.0f} s before its time to live is over")

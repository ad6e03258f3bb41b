"""Carries a plan out with containers: the status first, then the actions in their order.

What the cluster's kubelets do is done here, too: `start` starts what was created.
"""

import logging
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from slipway.api.base import rfc3339
from slipway.api.status import SliceJobStatus
from slipway.core.model.job import Job
from slipway.core.model.merge_patch import apply_merge_patch
from slipway.core.model.roster import Roster
from slipway.core.model.status_patch import status_patch
from slipway.core.planner.contract.actions import (
    Action,
    Check,
    CreateObjects,
    CreatePods,
    CreateServices,
    CreateToken,
    CreateWorkload,
    DeleteHostLists,
    DeleteJob,
    DeletePods,
    DeleteWorkload,
    EventRecord,
    ForceDeletePod,
    KeepHistory,
    PatchWorkload,
    Plan,
    Refresh,
)
from slipway.core.planner.status.events import cursor_of, news
from slipway.local.jobs.job_files import MAX_EVENTS, JobFolder, Outdated
from slipway.local.jobs.options import Options
from slipway.local.supervisor.cache import JobCache, read
from slipway.local.supervisor.creation import Creator, Interrupted
from slipway.local.supervisor.removal import Remover
from slipway.local.supervisor.this_machine import at_once

log = logging.getLogger(__name__)


class Applier:
    """Writes and does what the planner decided for one job."""

    def __init__(self, folder: JobFolder, cache: JobCache, options: Options) -> None:
        self._folder = folder
        self._cache = cache
        self._pool = cache.machine.pool()
        self._creator = Creator(cache, options, self._pool, folder.path.parent)
        self.remover = Remover(folder, cache, self._pool)

    def close(self) -> None:
        """Wait for what is under way."""
        self._pool.shutdown(wait=True)

    def apply(self, plan: Plan, job: Job) -> bool:
        """Keep what the status drops, write the status with its Events, act.

        Returns:
            Whether the job should be looked at again at once.

        Raises:
            EngineLost: when the engine does not answer.
            NoSuchJob: when the job is gone.
        """
        try:
            current = self._write(plan, job)
            again = current is not job
            for action in plan.actions:
                again = self._act(action, current) or again
        except (Interrupted, Outdated):
            return True
        return again

    def start(self, job: Job) -> bool:
        """Start the containers that were created for the attempt that is active.

        Returns:
            Whether one could not be started.
        """
        newest = job.status.newest
        if newest is None or job.status.attempt_ended or job.deleting:
            return False
        roster = Roster.of(newest)
        fresh = [
            found["Id"]
            for one, pod in self._cache.pods.items()
            if roster.is_current(pod) and not pod.ended and not pod.terminating
            for found in self._cache.host(one).due()
        ]
        # A container without the token would have an empty volume in its place, which every user may write to.
        token = self._folder.ray_token() if fresh and job.spec is not None and job.spec.ray is not None else None
        words = at_once(self._pool, lambda one: self._cache.containers.start(one, token), fresh)
        failed = {one: why for one, why in zip(fresh, words, strict=True) if why}
        for one, why in failed.items():
            self._cache.cannot_start(one, why)
        return bool(failed)

    def take_back(self) -> None:
        """Remove the hosts that could not be started because a port of this machine is in use, and wait for it.

        The program is not to blame, and another try would fail as soon: they are created again after a while.
        """
        lacking = {pod: why for pod in self._cache.pods if (why := self._cache.host(pod).without_port)}
        if not lacking:
            return
        job = read(self._folder.read())
        active = None if job.deleting or job.status.attempt_ended else job.status.attempt
        for one, why in lacking.items():
            if self._cache.pods[one].attempt == active:
                for found in self._cache.host(one).containers:
                    self._cache.containers.remove(found["Id"])
                self._cache.take_back(one)
                self._creator.wait_for_port(job, why)

    def _write(self, plan: Plan, job: Job) -> Job:
        """Write what the plan says of the job, and return it as it is then."""
        patch = status_patch(job, plan.status) if plan.status != job.status else {}
        kept = [attempt for action in plan.before if isinstance(action, KeepHistory) for attempt in action.attempts]
        if patch:
            self._cache.writes(job, plan.status)
        # The Events are written with the status, so what the one before says has been told.
        records = () if job.status_problem else news(cursor_of(job.status), plan.status, job.spec, job.site)
        if not (patch or kept or records):
            return job
        at = self._cache.clock()
        with self._folder.changing(job.resource_version) as body:
            body["status"] = apply_merge_patch(body.get("status") or {}, patch)
            body["local"]["history"] += [
                one.model_dump(mode="json", by_alias=True, exclude_none=True)
                for one in kept
                if all(known["number"] != one.number for known in body["local"]["history"])
            ]
            body["local"]["engineSeen"] = at.isoformat()
            _tell(body["local"]["events"], records, plan.status, at)
        if patch:
            self._cache.status_written = at
        for record in records:
            log.info("%s: %s", record.reason, record.message)
        return read(body, job)

    def _act(self, action: Action, job: Job) -> bool:
        match action:
            case Check():
                self._creator.check(action, job)
                return True
            case CreateObjects():
                self._creator.ensure_network(job)
            case CreateServices():
                self._creator.ensure_network(job)
                self._cache.serves(action.attempt)
            case CreatePods():
                self._creator.create(action, job)
                return True
            case DeletePods():
                self.remover.delete(action)
            case ForceDeletePod():
                self.remover.remove(action.uid)
                return True
            case DeleteJob():
                with self._folder.changing() as body:
                    body["metadata"].setdefault("deletionTimestamp", rfc3339(self._cache.clock()))
                return True
            case Refresh():
                # Every look asks the engine itself, so the next one is as fresh as can be.
                return True
            case (
                CreateToken()
                | KeepHistory()
                | DeleteHostLists()
                | CreateWorkload()
                | PatchWorkload()
                | DeleteWorkload()
            ):
                # `start` makes the token, host lists are files of the containers, and a job with a queue is refused.
                pass
        return False


def _tell(events: list[dict[str, Any]], told: Iterable[EventRecord], status: SliceJobStatus, at: datetime) -> None:
    """Add Events to those of the job; what was said of an attempt already is not said again."""
    for record in told:
        entry = {
            "reason": record.reason,
            "message": record.message,
            "type": "Warning" if record.warning else "Normal",
            "attempt": status.attempt,
        }
        if not any(entry.items() <= known.items() for known in events):
            events.append(entry | {"lastTimestamp": rfc3339(at)})
    del events[:-MAX_EVENTS]

"""Carries a plan out with containers: the status first, then the actions in their order.

What the cluster's kubelets do is done here, too: `start` starts what was created, and what has ended leaves its log in
a file.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import datetime
from typing import Any, Final, TypeVar

from slipway.api import names
from slipway.api.status import SliceJobStatus, rfc3339
from slipway.docker_engine import job_files
from slipway.docker_engine.containers import (
    CONFLICT,
    EngineLost,
    EngineRefuses,
    ensure_network,
    image_id,
    network_exists,
    remove_networks,
)
from slipway.docker_engine.conversion.convert import ContainerRequest, Surroundings, Unconvertible, container
from slipway.docker_engine.conversion.devices import LABEL_DEVICES, Assigned, Shortage, assign_all, ids_of
from slipway.docker_engine.job_files import LABEL_HOME, MAX_EVENTS, JobFolder, Outdated
from slipway.docker_engine.logs import keep_log
from slipway.docker_engine.options import Options, extended_resources
from slipway.docker_engine.seen import Deletion, ended
from slipway.docker_engine.workspaces import WorkspaceRefused, make_directories
from slipway.docker_engine.world import SETTINGS, World, read
from slipway.planner import environment
from slipway.planner.actions import (
    Action,
    Body,
    Check,
    CreateObjects,
    CreatePods,
    CreateServices,
    CreateToken,
    DeleteJob,
    DeletePods,
    EventRecord,
    ForceDeletePod,
    KeepHistory,
    Plan,
    Refresh,
)
from slipway.planner.merge_patch import apply_merge_patch
from slipway.planner.news import cursor_of, news
from slipway.planner.objects import Pod
from slipway.planner.pods import PodFactory, config_maps
from slipway.planner.snapshot import NAME_TAKEN, POD_REJECTED, QUOTA_EXCEEDED, Job, Rejection
from slipway.planner.status_patch import status_patch

log = logging.getLogger(__name__)
T = TypeVar("T")
R = TypeVar("R")

NO_GRACE: Final = 0


class Applier:
    """Writes and does what the planner decided for one job."""

    def __init__(self, folder: JobFolder, world: World, options: Options) -> None:
        self._folder = folder
        self._world = world
        self._containers = world.containers
        self._options = options
        self._pool = world.machine.pool()
        self._removals: dict[str, Future[None]] = {}
        self._logs: dict[str, Future[None]] = {}

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
        except (_Interrupted, Outdated):
            return True
        return again

    def start(self, job: Job) -> bool:
        """Start the containers that were created for the attempt that is active.

        Returns:
            Whether one could not be started.
        """
        number = job.status.attempt
        if number is None or job.attempt_ended or job.deleting:
            return False
        fresh = [
            one
            for one, pod in self._world.pods.items()
            if pod.attempt == number and pod.status.phase == "Pending" and not pod.terminating
        ]
        failed = [
            one for one, started in zip(fresh, self._each(self._containers.start, fresh), strict=True) if not started
        ]
        for one in failed:
            self._world.doubt(one)
        return bool(failed)

    def keep_logs(self) -> None:
        """Have the log of every container that has ended written to a file."""
        for one, pod in self._world.pods.items():
            # A container that is being removed has its log kept before that.
            if pod.ended and one not in self._logs and one not in self._removals:
                self._logs[one] = self._pool.submit(self._keep_log, one, pod.metadata.name)

    def raise_failures(self) -> None:
        """Forget the removals that have failed, so that they are decided again.

        Raises:
            EngineLost: when that is why.
            EngineRefuses: when that is why.
        """
        failed = {one: error for one, done in self._removals.items() if done.done() and (error := done.exception())}
        for one in failed:
            del self._removals[one]
            self._world.not_deleting(one)
        for error in failed.values():
            raise error

    def remove_everything(self) -> None:
        """Remove what has ended, with the network of the job; the logs stay."""
        self.keep_logs()
        self._each(self._remove, list(self._world.pods))
        remove_networks(self._containers.api, self._containers.uid)

    def _write(self, plan: Plan, job: Job) -> Job:
        """Write what the plan says of the job, and return it as it is then."""
        patch = status_patch(job, plan.status) if plan.status != job.status else {}
        kept = [one for action in plan.before if isinstance(action, KeepHistory) for one in action.attempts]
        if patch:
            self._world.writes(job, plan.status)
        # The Events are written with the status, so what the one before says has been told.
        told = () if job.status_problem else news(cursor_of(job.status), plan.status, job.spec, job.site)
        if not (patch or kept or told):
            return job
        at = self._world.clock()
        with self._folder.changing(job.resource_version) as body:
            body["status"] = apply_merge_patch(body.get("status") or {}, patch)
            body["local"]["history"] += [
                one.model_dump(mode="json", by_alias=True, exclude_none=True)
                for one in kept
                if all(known["number"] != one.number for known in body["local"]["history"])
            ]
            _tell(body["local"]["events"], told, plan.status, at)
        if patch:
            self._world.status_written = at
        for one in told:
            log.info("%s: %s", one.reason, one.message)
        return read(body, job)

    def _act(self, action: Action, job: Job) -> bool:
        match action:
            case Check():
                self._check(action, job)
                return True
            case CreateObjects():
                self._ensure_network(job)
            case CreateServices():
                self._ensure_network(job)
                self._world.serves(action.attempt)
            case CreatePods():
                self._create(action, job)
                return True
            case DeletePods():
                self._delete(action)
            case ForceDeletePod():
                self._each(self._remove, [action.uid])
                return True
            case DeleteJob():
                with self._folder.changing() as body:
                    body["metadata"].setdefault("deletionTimestamp", rfc3339(self._world.clock()))
                return True
            case Refresh():
                # Every look asks the engine itself, so the next one is as fresh as can be.
                return True
            case CreateToken() | KeepHistory():
                pass
        return False

    def _check(self, action: Check, job: Job) -> None:
        """Whether the containers can be made here, before anything exists."""
        bodies = [one for one in action.bodies if one["kind"] == "Pod"]
        with self._refusals(job):
            self._network_of(job)
            for body in bodies:
                container(body, self._surroundings(job, body, self._options.images))
            self._assigned(bodies, {})
        self._world.checked, self._world.rejection = job.generation, None

    def _create(self, action: CreatePods, job: Job) -> None:
        factory = PodFactory(job, SETTINGS, action.pools)
        bodies = [factory.pod(action.attempt, place) for place in action.places]
        with self._refusals(job):
            self._ensure_network(job)
            images = self._images(bodies)
            for body in bodies:
                make_directories(self._containers.api, body)
            with self._world.machine.choosing_devices():
                assigned = self._assigned(bodies, self._used())
                requests = [
                    container(body, self._surroundings(job, body, images, devices))
                    for body, devices in zip(bodies, assigned, strict=True)
                ]
                self._each(lambda request: self._create_one(request, job), requests)
        self._world.checked, self._world.rejection = job.generation, None

    def _create_one(self, request: ContainerRequest, job: Job) -> None:
        name, body = request.name, request.body
        own = {LABEL_HOME: job_files.home_id()}
        if request.api_version > (spoken := self._containers.api_version):
            # It would take the request, and pass over what it does not know.
            least, has = (".".join(map(str, one)) for one in (request.api_version, spoken))
            raise _Refused(f"a mount of {name} needs an engine with API {least}, and this one has {has}", POD_REJECTED)
        try:
            self._containers.create(name, body | {"Labels": body["Labels"] | own})
        except EngineRefuses as error:
            if error.status != CONFLICT:
                raise
            found = self._containers.inspect(name)
            owner = (found or {}).get("Config", {}).get("Labels", {}).get(names.LABEL_JOB_UID)
            if found is not None and owner != job.uid:
                words = f"container {name} exists and is not of this job: remove it, or choose another name for the job"
                raise _Refused(words, NAME_TAKEN) from error

    def _delete(self, action: DeletePods) -> None:
        """Stop and remove containers; the next looks show them terminating, and then gone."""
        for one, pod in self._chosen(action):
            own = pod.metadata.deletion_grace_period_seconds
            grace = action.grace_seconds if action.grace_seconds is not None else self._own_grace(one, own)
            at = self._world.clock()
            if one not in self._removals:
                self._removals[one] = self._pool.submit(self._stop_and_remove, one, pod.metadata.name, grace)
                self._world.deleting(one, Deletion(at, grace))

    def _own_grace(self, container: str, known: int | None) -> int:
        found = self._containers.inspect(container) or {}
        seconds = found.get("Config", {}).get("StopTimeout")
        return seconds if isinstance(seconds, int) else known or NO_GRACE

    def _chosen(self, action: DeletePods) -> Iterator[tuple[str, Pod]]:
        for one, pod in tuple(self._world.pods.items()):
            if pod.attempt != action.attempt or pod.place in action.except_places:
                continue
            if pod.place.is_head if not action.head else False:
                continue
            if not pod.place.is_head and pod.place.slice not in action.slices:
                continue
            if action.ended_too or not pod.ended:
                yield one, pod

    def _stop_and_remove(self, container: str, pod: str, grace: int) -> None:
        self._containers.stop(container, grace)
        self._remove_with_log(container, pod)

    def _remove(self, container: str) -> None:
        if (removal := self._removals.get(container)) is not None:
            removal.result()
        elif (pod := self._world.pods.get(container)) is not None:
            self._remove_with_log(container, pod.metadata.name)

    def _remove_with_log(self, container: str, pod: str) -> None:
        if (writing := self._logs.get(container)) is not None:
            writing.result()
        else:
            self._keep_log(container, pod)
        self._containers.remove(container)

    def _keep_log(self, container: str, pod: str) -> None:
        try:
            keep_log(self._containers, container, self._folder.log(pod))
        except (EngineRefuses, EngineLost, OSError) as error:
            # The log is worth much, and never the job.
            log.warning("the log of %s could not be kept: %s", pod, error)

    def _images(self, bodies: Iterable[Body]) -> dict[str, str]:
        """The ids of images, as they were when the job was submitted; so all hosts of all attempts run the same."""
        asked = {one["image"] for body in bodies for one in body["spec"]["containers"]}
        for reference in asked:
            known = self._options.images.get(reference)
            if known is None or image_id(self._containers.api, known) is None:
                words = f"image {reference} is not on this machine any more: pull it, and submit the job again"
                raise _Refused(words, POD_REJECTED)
        return dict(self._options.images)

    def _network_of(self, job: Job) -> str:
        """The network of the job's containers."""
        if job.spec is not None and job.spec.host_network:
            return "host"
        given = self._options.network
        if given and not network_exists(self._containers.api, given):
            raise _Refused(f"there is no Docker network {given}: docker network create {given}", POD_REJECTED)
        return given or network_name(job)

    def _ensure_network(self, job: Job) -> None:
        if self._network_of(job) == network_name(job):
            labels = {
                names.LABEL_JOB_UID: job.uid,
                names.LABEL_JOB_NAME: job.name,
                LABEL_HOME: job_files.home_id(),
            }
            ensure_network(self._containers.api, network_name(job), labels)

    def _surroundings(
        self, job: Job, body: Body, images: Mapping[str, str], devices: Assigned | None = None
    ) -> Surroundings:
        resolved = job.status.resolved
        attempt = job.status.attempt or 0
        lists = config_maps(job, attempt, job.granted, resolved) if resolved is not None else ()
        hosts = resolved.hosts if resolved is not None else 1
        peers = [name for one in range(job.granted) for name in environment.host_names(job, attempt, one, hosts)]
        meeting = environment.coordinator(job, attempt, resolved).address if resolved is not None else None
        return Surroundings(
            network=self._network_of(job),
            peers=(*peers, *([meeting] if meeting else [])),
            images=images,
            config_maps={one["metadata"]["name"]: one["data"] for one in lists},
            devices=devices or Assigned(),
            ulimits=self._options.ulimits,
            extra_devices=self._options.devices,
        )

    def _assigned(self, bodies: list[Body], used: dict[str, str]) -> list[Assigned]:
        if self._options.without_devices:
            return [Assigned() for _ in bodies]
        return list(assign_all(self._world.machine.inventory(), [extended_resources(body) for body in bodies], used))

    def _used(self) -> dict[str, str]:
        """The devices that containers of any job have, and which job that is."""
        found: dict[str, str] = {}
        for one in self._containers.of_all_jobs():
            labels = one["Labels"]
            devices = ids_of(labels.get(LABEL_DEVICES, ""))
            if devices and self._holds_devices(one["Id"], one["State"]):
                found |= dict.fromkeys(devices, labels.get(names.LABEL_JOB_NAME, ""))
        return found

    def _holds_devices(self, container: str, state: str) -> bool:
        if state != "created":
            return state in ("running", "paused", "restarting")
        # One that could not be started stays as it was created, and is over.
        known = self._containers.inspect(container)
        return known is not None and not ended(known["State"])

    @contextmanager
    def _refusals(self, job: Job) -> Iterator[None]:
        """What is refused inside is remembered, and ends the plan."""
        try:
            yield
        except _Refused as error:
            self._reject(job, error.reason, str(error))
        except Shortage as error:
            self._reject(job, QUOTA_EXCEEDED if error.may_pass else POD_REJECTED, str(error))
        except (Unconvertible, WorkspaceRefused, EngineRefuses) as error:
            self._reject(job, POD_REJECTED, str(error))

    def _reject(self, job: Job, reason: str, message: str) -> None:
        log.warning("%s: %s", reason, message)
        self._world.rejection = (job.generation, Rejection(message, self._world.clock(), reason))
        raise _Interrupted from None

    def _each(self, work: Callable[[T], R], things: Iterable[T]) -> list[R]:
        """Do it for all at once; the first error is raised when all are done."""
        done = [self._pool.submit(work, one) for one in things]
        errors = [error for one in done if (error := one.exception()) is not None]
        if errors:
            raise errors[0]
        return [one.result() for one in done]


class _Interrupted(Exception):
    """Going on with this plan makes no sense: a container was refused."""


class _Refused(Exception):
    """A container cannot be made; the reason is one of the planner's."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def network_name(job: Job) -> str:
    """Name of the network that a job has to itself."""
    return f"slipway-{job.name}-{job.uid[:8]}"


def _tell(events: list[dict[str, Any]], told: Iterable[EventRecord], status: SliceJobStatus, at: datetime) -> None:
    """Add Events to those of the job; what was said of an attempt already is not said again."""
    for one in told:
        entry = {
            "reason": one.reason,
            "message": one.message,
            "type": "Warning" if one.warning else "Normal",
            "attempt": status.attempt,
        }
        if not any(entry.items() <= known.items() for known in events):
            events.append(entry | {"lastTimestamp": rfc3339(at)})
    del events[:-MAX_EVENTS]

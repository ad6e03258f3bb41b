"""Creates the containers of an attempt: with their network, their directories, and devices that no other job has."""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from slipway.api import names
from slipway.core.model.job import Job
from slipway.core.model.parts import Body
from slipway.core.planner.contract.actions import Check, CreatePods
from slipway.core.planner.contract.snapshot import Rejection
from slipway.core.validation.acceptance import accept, pod_factory
from slipway.core.vocabulary.reasons import NAME_TAKEN, POD_REJECTED, QUOTA_EXCEEDED
from slipway.local.containers.container_state import ended
from slipway.local.containers.containers import (
    CONFLICT,
    EngineRefuses,
    ensure_network,
    image_id,
    network_exists,
)
from slipway.local.conversion.containers_of_pod import all_containers
from slipway.local.conversion.convert import HOST_NETWORK, ContainerRequest, Surroundings, Unconvertible, containers
from slipway.local.conversion.devices import LABEL_DEVICES, Assigned, Shortage, ids_of
from slipway.local.conversion.pod_sandbox import with_volumes
from slipway.local.images.sandbox_image import ensure_sandbox_image
from slipway.local.jobs.job_files import LABEL_HOME, home_id
from slipway.local.jobs.options import Options
from slipway.local.supervisor.cache import SETTINGS, JobCache
from slipway.local.supervisor.container_context import surroundings
from slipway.local.supervisor.this_machine import at_once
from slipway.local.supervisor.workspaces import WorkspaceRefused, make_directories

log = logging.getLogger(__name__)

_NO_ADDRESSES: Final = re.compile("address pool|predefined pools|free subnet")
"""In the words of Docker and of Podman."""


class Interrupted(Exception):
    """Going on with this plan makes no sense: a container was refused."""


class _Refused(Exception):
    """A container cannot be made; the reason is one of the planner's."""

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class Creator:
    """Creates containers; what is refused is remembered for the next plan, and raised as Interrupted."""

    def __init__(self, cache: JobCache, options: Options, pool: Executor, home: Path) -> None:
        """`home` is the folder of all jobs."""
        self._cache = cache
        self._home = home
        self._containers = cache.containers
        self._options = options
        self._pool = pool

    def check(self, action: Check, job: Job) -> None:
        """Whether the containers can be made here, before anything exists."""
        bodies = [one for one in action.bodies if one["kind"] == "Pod"]
        with self._refusals(job):
            around = self._surroundings(job)
            for body in bodies:
                containers(body, around)
            self._assigned(bodies, {})
        self._cache.checked, self._cache.rejection = job.generation, None

    def create(self, action: CreatePods, job: Job) -> None:
        """Create the containers of these places; they are not started."""
        factory = pod_factory(job, SETTINGS, action.pools)
        bodies = [factory.pod(action.attempt, place) for place in action.places]
        with self._refusals(job):
            self.ensure_network(job)
            self._check_images(bodies)
            around = self._surroundings(job)
            for body in bodies:
                make_directories(self._containers.api, body)
            with self._cache.machine.choosing_devices():
                assigned = self._assigned(bodies, self._used())
                requests = [
                    containers(body, replace(around, devices=devices))
                    for body, devices in zip(bodies, assigned, strict=True)
                ]
                if any(beside for *beside, _ in requests):
                    ensure_sandbox_image(self._containers.api)
                at_once(self._pool, lambda host: self._create_host(host, job), requests)
        self._cache.checked, self._cache.rejection = job.generation, None

    def _create_host(self, requests: Sequence[ContainerRequest], job: Job) -> None:
        """Create the containers of a host; the worker is the last, so where there is one there are all."""
        sandbox, *rest = requests
        self._create_one(sandbox, job)
        made = self._containers.inspect(sandbox.name) if rest else None
        for request in rest:
            self._create_one(with_volumes(request, made) if made is not None else request, job)

    def _create_one(self, request: ContainerRequest, job: Job) -> None:
        name, body = request.name, request.body
        own = {LABEL_HOME: home_id(self._home)}
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

    def ensure_network(self, job: Job) -> None:
        """Create the network of a job that has one of its own, unless it is there."""
        with self._refusals(job):
            if self._network_of(job) == network_name(job):
                self._ensure_own_network(job)

    def _ensure_own_network(self, job: Job) -> None:
        labels = {
            names.LABEL_JOB_UID: job.uid,
            names.LABEL_JOB_NAME: job.name,
            LABEL_HOME: home_id(self._home),
        }
        try:
            ensure_network(self._containers.api, network_name(job), labels)
        except EngineRefuses as error:
            if _NO_ADDRESSES.search(str(error)) is None:
                raise
            words = (
                f"the engine has no addresses left for the job's network ({error}): remove networks that nobody uses "
                "with docker network prune, or have jobs share one with --network"
            )
            raise _Refused(words, QUOTA_EXCEEDED) from error

    def _network_of(self, job: Job) -> str:
        """The network of the job's containers."""
        if job.spec is not None and job.spec.host_network:
            return HOST_NETWORK
        given = self._options.network
        # Podman lists no network of that name, and knows it all the same.
        if given and given != HOST_NETWORK and not network_exists(self._containers.api, given):
            raise _Refused(f"there is no Docker network {given}: docker network create {given}", POD_REJECTED)
        return given or network_name(job)

    def _check_images(self, bodies: Iterable[Body]) -> None:
        """Images are named by the ids that they had when the job was submitted: all attempts run the same."""
        asked = {container["image"] for body in bodies for container in all_containers(body["spec"])}
        for reference in asked:
            known = self._options.images.get(reference)
            if known is None or image_id(self._containers.api, known) is None:
                words = f"image {reference} is not on this machine any more: pull it, and submit the job again"
                raise _Refused(words, POD_REJECTED)

    def _surroundings(self, job: Job) -> Surroundings:
        return surroundings(job, accept(job, SETTINGS).resolved, self._options, self._network_of(job))

    def _assigned(self, bodies: list[Body], used: dict[str, str]) -> list[Assigned]:
        return list(self._options.assigned(self._cache.machine.inventory(), bodies, used))

    def _used(self) -> dict[str, str]:
        """The devices that containers of any job have, and which job that is."""
        found: dict[str, str] = {}
        for job in self._containers.of_all_jobs():
            labels = job["Labels"]
            devices = ids_of(labels.get(LABEL_DEVICES, ""))
            if devices and self._holds_devices(job["Id"], job["State"]):
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

    def wait_for_port(self, job: Job, why: str) -> None:
        """Remember that a host cannot be started for want of a port of this machine, which may come free."""
        words = f"a port of this machine is in use ({why}): end what uses it, or have the job open another hostPort"
        self._remember(job, QUOTA_EXCEEDED, words)

    def _reject(self, job: Job, reason: str, message: str) -> None:
        self._remember(job, reason, message)
        raise Interrupted from None

    def _remember(self, job: Job, reason: str, message: str) -> None:
        log.warning("%s: %s", reason, message)
        self._cache.rejection = (job.generation, Rejection(message, self._cache.clock(), reason))


def network_name(job: Job) -> str:
    """Name of the network that a job has to itself."""
    return f"slipway-{job.name}-{job.uid[:8]}"

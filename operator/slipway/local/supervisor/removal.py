"""Stops and removes containers, and keeps their logs before that."""

import logging
from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from time import monotonic
from typing import Final

from slipway.core.model.pods import Pod
from slipway.core.model.roster import Roster
from slipway.core.planner.contract.actions import DeletePods
from slipway.local.containers.container_state import Deletion
from slipway.local.containers.containers import EngineLost, EngineRefuses, remove_the_rest
from slipway.local.containers.host import Host
from slipway.local.containers.kept_logs import keep_log, stand_in
from slipway.local.conversion.containers_of_pod import Kind
from slipway.local.jobs.job_files import JobFolder
from slipway.local.supervisor.cache import JobCache
from slipway.local.supervisor.this_machine import at_once

log = logging.getLogger(__name__)

NO_GRACE: Final = 0


class Remover:
    """Removes the containers of one job; each has its log in a file before it is gone."""

    def __init__(self, folder: JobFolder, cache: JobCache, pool: Executor) -> None:
        self._folder = folder
        self._cache = cache
        self._containers = cache.containers
        self._pool = pool
        self._removals: dict[str, Future[None]] = {}
        self._logs: dict[str, Future[None]] = {}
        self._ends: dict[str, Future[None]] = {}

    def keep_logs(self) -> None:
        """Have the log of every container that has ended written to a file."""
        for one, pod in self._cache.pods.items():
            # A container that is being removed has its log kept before that.
            if pod.ended and one not in self._logs and one not in self._removals:
                self._logs[one] = self._pool.submit(self._keep_log_of, self._cache.host(one))

    def finished(self) -> list[str]:
        """Containers whose removal is over; those that have failed are forgotten, so that they are decided again.

        Raises:
            EngineLost: when that is why one has failed.
            EngineRefuses: when that is why one has failed.
        """
        over = {one: removal.exception() for one, removal in self._removals.items() if removal.done()}
        failed = {one: error for one, error in over.items() if error is not None}
        self._forget(failed)
        for error in failed.values():
            raise error
        return list(over)

    def forget_vain(self, finished: Iterable[str]) -> None:
        """Forget the removals after which the engine still has the container, so that they are decided again.

        Somebody else was removing it already, and has failed.
        """
        self._forget(one for one in finished if one in self._cache.pods)

    def _forget(self, removals: Iterable[str]) -> None:
        for removal in removals:
            del self._removals[removal]
            self._cache.not_deleting(removal)

    def remove_broken(self) -> bool:
        """Remove hosts of which somebody has removed a part; returns whether there were any.

        What is left of one whose worker is gone may run, and what the worker of another needs does not run.
        """
        left = self._cache.leftovers
        broken = [pod for pod in self._cache.pods if pod not in self._removals and self._cache.host(pod).broken]
        for found in left:
            log.info("%s is removed: it has no worker", found["Name"])
            self._containers.remove(found["Id"])
        for one in broken:
            log.warning("%s is removed, because a part of it is gone", self._cache.pods[one].metadata.name)
            self.remove(one)
        return bool(left or broken)

    def end_sidecars(self) -> None:
        """Have sidecars stopped that nobody needs any more, as kubelets do."""
        for pod in self._cache.pods:
            if pod in self._removals or (pod in self._ends and not self._ends[pod].done()):
                continue
            host = self._cache.host(pod)
            if host.over and host.running(Kind.SIDECAR, Kind.SANDBOX):
                self._ends[pod] = self._pool.submit(self._end_sidecars, host, self._own_grace(pod, None))

    def _end_sidecars(self, host: Host, grace: float) -> None:
        """Stop them one after another, within so many seconds, and in the end the sandbox."""
        until = monotonic() + grace
        for one in (*host.running(Kind.SIDECAR), *host.running(Kind.SANDBOX)):
            self._containers.stop(one, max(0, round(until - monotonic())))

    def remove_everything(self) -> None:
        """Remove what has ended, with the network of the job; the logs stay."""
        self.keep_logs()
        at_once(self._pool, self.remove, list(self._cache.pods))
        remove_the_rest(self._containers.api, self._containers.uid)

    def delete(self, action: DeletePods) -> None:
        """Stop and remove containers; the next looks show them terminating, and then gone."""
        for one, pod in self._chosen(action):
            if one in self._removals:
                continue
            own = pod.metadata.deletion_grace_period_seconds
            grace = action.grace_seconds if action.grace_seconds is not None else self._own_grace(one, own)
            at = self._cache.clock()
            self._removals[one] = self._pool.submit(self._stop_and_remove, self._cache.host(one), grace)
            self._cache.deleting(one, Deletion(at, grace))

    def _own_grace(self, container: str, known: int | None) -> int:
        found = self._containers.inspect(container) or {}
        seconds = found.get("Config", {}).get("StopTimeout")
        return seconds if isinstance(seconds, int) else known or NO_GRACE

    def _chosen(self, action: DeletePods) -> Iterator[tuple[str, Pod]]:
        roster = Roster(action.attempt)
        for one, pod in tuple(self._cache.pods.items()):
            if not roster.is_current(pod) or pod.place in action.except_places:
                continue
            wanted = action.head if pod.place.is_head else pod.place.slice in action.slices
            if wanted and (action.ended_too or not pod.ended):
                yield one, pod

    def _stop_and_remove(self, host: Host, grace: int) -> None:
        if host.parts:
            self._stop(host, grace)
        else:
            self._containers.stop(host.id, grace)
        self._remove_with_log(host)

    def _stop(self, host: Host, grace: int) -> None:
        """Stop a host of several containers: sidecars when the others have ended, within the same grace period."""
        until = monotonic() + grace
        first = [host.id, *host.running(Kind.INIT, Kind.BESIDE)]
        # They wait for each other, which threads of the pool may not do that wait for threads of it.
        with self._cache.machine.pool() as pool:
            at_once(pool, lambda one: self._containers.stop(one, grace), first)
        self._end_sidecars(host, until - monotonic())

    def remove(self, container: str) -> None:
        """Remove a container at once; one that runs is killed."""
        if (removal := self._removals.get(container)) is not None:
            removal.result()
        elif container in self._cache.pods:
            self._remove_with_log(self._cache.host(container))

    def _remove_with_log(self, host: Host) -> None:
        if (writing := self._logs.get(host.id)) is not None:
            writing.result()
        else:
            self._keep_log_of(host)
        for name, one in host.beside:
            self._keep_log(one["Id"], name)
            self._containers.remove(one["Id"])
        self._containers.remove(host.id)
        # It has the volumes, which the engine removes when nobody else has them.
        if (sandbox := host.sandbox) is not None:
            self._containers.remove(sandbox["Id"])

    def _keep_log_of(self, host: Host) -> None:
        """That of its worker; of a worker that never started, that of the init container which failed."""
        if (failed := host.failed_init) is None:
            self._keep_log(host.id, host.name)
            return
        part, container = failed
        name = part.container(host.name)
        self._keep_log(container["Id"], name)
        with _never_the_job(host.name):
            stand_in(self._folder.log(host.name), self._folder.log(name))

    def _keep_log(self, container: str, name: str) -> None:
        with _never_the_job(name):
            keep_log(self._containers, container, self._folder.log(name))


@contextmanager
def _never_the_job(name: str) -> Iterator[None]:
    """A log is worth much, and never the job."""
    try:
        yield
    except (EngineRefuses, EngineLost, OSError) as error:
        log.warning("the log of %s could not be kept: %s", name, error)

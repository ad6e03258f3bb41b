"""Stops and removes containers, and keeps their logs before that."""

import logging
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from typing import Final

from slipway.docker_engine.containers import EngineLost, EngineRefuses, remove_the_rest
from slipway.docker_engine.job_files import JobFolder
from slipway.docker_engine.logs import keep_log
from slipway.docker_engine.machine import at_once
from slipway.docker_engine.seen import Deletion
from slipway.docker_engine.world import World
from slipway.planner.actions import DeletePods
from slipway.planner.objects import Pod

log = logging.getLogger(__name__)

NO_GRACE: Final = 0


class Remover:
    """Removes the containers of one job; each has its log in a file before it is gone."""

    def __init__(self, folder: JobFolder, world: World, pool: Executor) -> None:
        self._folder = folder
        self._world = world
        self._containers = world.containers
        self._pool = pool
        self._removals: dict[str, Future[None]] = {}
        self._logs: dict[str, Future[None]] = {}

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
        at_once(self._pool, self.remove, list(self._world.pods))
        remove_the_rest(self._containers.api, self._containers.uid)

    def delete(self, action: DeletePods) -> None:
        """Stop and remove containers; the next looks show them terminating, and then gone."""
        for one, pod in self._chosen(action):
            if one in self._removals:
                continue
            own = pod.metadata.deletion_grace_period_seconds
            grace = action.grace_seconds if action.grace_seconds is not None else self._own_grace(one, own)
            at = self._world.clock()
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
            wanted = action.head if pod.place.is_head else pod.place.slice in action.slices
            if wanted and (action.ended_too or not pod.ended):
                yield one, pod

    def _stop_and_remove(self, container: str, pod: str, grace: int) -> None:
        self._containers.stop(container, grace)
        self._remove_with_log(container, pod)

    def remove(self, container: str) -> None:
        """Remove a container at once; one that runs is killed."""
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

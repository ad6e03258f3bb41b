"""Follows Kueue's objects, which may not be there: their CRDs may come, change their version, or go."""

import asyncio
import logging
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final

from slipway.api import names
from slipway.cluster import paths
from slipway.cluster.cache import Cache
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import Forbidden, NotFound, SlipwayClusterError
from slipway.cluster.kueue import reads_boosts, served_version
from slipway.cluster.reflector import Reflector
from slipway.cluster.store import Key
from slipway.cluster.watch import Applied, Event, InitDone, Watcher
from slipway.planner.kueue_objects import Workload
from slipway.planner.kueue_queues import ClusterQueue, LocalQueue, PriorityClass, ResourceFlavor
from slipway.planner.snapshot import Job

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 15.0
"""How often the API server is asked whether it has Kueue's CRDs."""
LONGEST_SECONDS: Final = 300.0
"""The longest pause before what may not be read is asked for again."""
BOOSTS_SECONDS: Final = 60.0
"""How often Kueue is asked whether it reads boosts of priorities, while a job in a queue prints checkpoints."""
SYNC_SECONDS: Final = 10.0
"""How long jobs in queues wait for the first lists: without Kueue's webhooks the API server may not give them."""


class Queues:
    """Everything that the operator sees of Kueue."""

    def __init__(
        self, api: ApiConnection, cache: Cache, namespaces: Sequence[str], wake: Callable[[Collection[Key]], None]
    ) -> None:
        """`wake` has jobs looked at."""
        self._api = api
        self._cache = cache
        self._namespaces = namespaces
        self._wake = wake
        self._listed: set[str] = set()
        self._awaited: set[str] = set()
        self._watchers: dict[str, Watcher[Any]] = {}

    def heard(self) -> Iterator[tuple[str, float]]:
        """The resource of each watch that may be read, and when it last gave a sign of life, in monotonic seconds."""
        for what, watcher in self._watchers.items():
            if watcher.heard and what not in self._cache.kueue.problems:
                yield what.partition(" ")[0], watcher.heard

    async def run(self) -> None:
        """Follow Kueue's objects for ever."""
        store = self._cache.kueue
        while True:
            try:
                version = await served_version(self._api)
            except Forbidden:
                version = ""
            except SlipwayClusterError as error:
                log.warning("whether there is Kueue is not known: %s", error)
                await asyncio.sleep(1.0)
                continue
            if version:
                log.info("queues of Kueue are followed by %s", version)
                await self._follow(version)
                log.info("the API server has no queues of Kueue any more")
            self._watchers.clear()
            store.version = ""
            store.problems.clear()
            store.listed = True
            self._news()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _follow(self, version: str) -> None:
        """Follow all kinds until the API server has one of them no longer."""
        self._listed.clear()
        kinds = list(self._kinds(version))
        self._awaited = {what for what, _ in kinds}
        tasks = [asyncio.create_task(part) for _, part in kinds]
        tasks.append(asyncio.create_task(self._wait_no_longer(version)))
        tasks.append(asyncio.create_task(self._ask_for_boosts(version)))
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception):
                raise end

    def _kinds(self, version: str) -> Iterator[tuple[str, Coroutine[Any, Any, None]]]:
        store = self._cache.kueue

        def part(
            what: str, path: str, kind: type[Any], known: Reflector[Any, Key], scope: str = "", labels: str = ""
        ) -> tuple[str, Coroutine[Any, Any, None]]:
            watcher: Watcher[Any] = Watcher(self._api, path, kind, label_selector=labels, late_refusals=True)
            self._watchers[what] = watcher
            return what, self._follow_kind(what, watcher, known, scope, version)

        for one in self._namespaces:
            path, label = paths.workloads(version, one), names.LABEL_JOB_UID
            yield part(f"workloads {one}".strip(), path, Workload, store.workloads, one, label)
            path = paths.of_kueue(version, "localqueues", one)
            yield part(f"localqueues {one}".strip(), path, LocalQueue, store.local_queues, one)
        of_cluster: list[tuple[str, type[Any], Reflector[Any, Key]]] = [
            ("clusterqueues", ClusterQueue, store.cluster_queues),
            ("resourceflavors", ResourceFlavor, store.flavors),
            ("workloadpriorityclasses", PriorityClass, store.priorities),
        ]
        for plural, kind, known in of_cluster:
            yield part(plural, paths.of_kueue(version, plural), kind, known)

    async def _follow_kind(
        self,
        what: str,
        watcher: Watcher[Any],
        known: Reflector[Any, Key],
        scope: str,
        version: str,
    ) -> None:
        """Follow one kind; returns when the API server has it no longer."""
        store, pause = self._cache.kueue, AGAIN_SECONDS
        while True:
            try:
                async with aclosing(watcher.events()) as events:
                    async for event in events:
                        matters = _says_something_else(event, known)
                        news = known.observe(event, scope)
                        if known is store.workloads:
                            self._wake(news)
                        elif news and matters:
                            self._news()
                        if isinstance(event, InitDone):
                            store.problems.pop(what, None)
                            pause = AGAIN_SECONDS
                            self._seen(what, version)
            except NotFound:
                return
            except Forbidden as error:
                if what not in store.problems:
                    log.warning("%s of Kueue cannot be read: %s", what, error)
                store.problems[what] = str(error)
                self._seen(what, version)
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_SECONDS)

    async def _wait_no_longer(self, version: str) -> None:
        await asyncio.sleep(SYNC_SECONDS)
        for what in self._awaited - self._listed:
            log.warning("%s of Kueue are not listed yet: jobs in queues wait", what)
            self._cache.kueue.problems[what] = f"the API server has not listed {what} yet"
            self._seen(what, version)
        await asyncio.Event().wait()

    async def _ask_for_boosts(self, version: str) -> None:
        while True:
            if any(job.queue is not None and _prints_checkpoints(job) for job in self._cache.jobs.all()):
                found = await reads_boosts(self._api, version, self._namespaces[0] or "default")
                if found is not None and found != self._cache.kueue.boosts:
                    self._cache.kueue.boosts = found
                    self._news()
            await asyncio.sleep(BOOSTS_SECONDS)

    def _seen(self, what: str, version: str) -> None:
        """A kind was listed, or cannot be; when all were, the jobs with queues are looked at."""
        self._listed.add(what)
        if self._listed >= self._awaited:
            self._cache.kueue.version = version
            self._cache.kueue.listed = True
            self._news()

    def _news(self) -> None:
        """Have every job looked at that has a queue, or a Workload."""
        queued = {(job.namespace, job.name) for job in self._cache.jobs.all() if job.queue is not None}
        self._wake(queued | self._cache.kueue.jobs())


def _says_something_else(event: Event[Any], known: Reflector[Any, Key]) -> bool:
    """Whether more than metadata and status changes: a ClusterQueue is written at each admission."""
    if not isinstance(event, Applied):
        return True
    seen = event.object
    before = known.get((getattr(seen.metadata, "namespace", ""), seen.metadata.name))
    fields = set(seen.__struct_fields__) - {"metadata", "status"}
    return before is None or any(getattr(before, one) != getattr(seen, one) for one in fields)


def _prints_checkpoints(job: Job) -> bool:
    return job.status.progress is not None and job.status.progress.checkpoint is not None

"""Follows Kueue's objects, which may not be there: their CRDs may come, change their version, or go."""

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import NO_RESOURCE, ApiError, Forbidden, SlipwayClusterError
from slipway.apiserver.watch import Applied, Event, Watcher
from slipway.controller.seen.cache import Cache
from slipway.controller.seen.kueue import VERSIONS, can_be_listed, reads_boosts, served_version
from slipway.controller.seen.reflector import Reflector
from slipway.controller.seen.watches import Source
from slipway.core.model.cluster_queue import ClusterQueue, LocalQueue, PriorityClass, ResourceFlavor
from slipway.core.model.job import Job, Key
from slipway.core.model.workload import Workload

log = logging.getLogger(__name__)

AGAIN_SECONDS: Final = 15.0
"""How often the API server is asked whether it has Kueue's CRDs."""
UNKNOWN_SECONDS: Final = 1.0
"""How often it is asked while it does not say."""
BOOSTS_SECONDS: Final = 60.0
"""How often Kueue is asked whether it reads boosts of priorities, while a job in a queue prints checkpoints."""
SYNC_SECONDS: Final = 10.0
"""How long jobs in queues wait for the first lists: without Kueue's webhooks the API server may not give them."""


class Queues:
    """Everything that the operator sees of Kueue."""

    def __init__(
        self,
        api: ApiConnection,
        cache: Cache,
        namespaces: Sequence[str],
        wake: Callable[[Collection[Key]], None],
        leads: asyncio.Event,
    ) -> None:
        """`wake` has jobs looked at; `leads` is set when this process decides on them."""
        self._api = api
        self._cache = cache
        self._namespaces = namespaces
        self._wake = wake
        self._leads = leads
        self._listed: set[str] = set()
        self._sources: list[Source[Any]] = []

    @property
    def sources(self) -> Iterable[Source[Any]]:
        """What is followed and has been read."""
        return [source for source in self._sources if source.watcher.heard]

    @property
    def _awaited(self) -> set[str]:
        """What is listed, or cannot be, before jobs in queues are looked at."""
        return {source.name for source in self._sources}

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
                await asyncio.sleep(UNKNOWN_SECONDS)
                continue
            if version:
                log.info("queues of Kueue are followed by %s", version)
                if not await self._follow(version):
                    # By whose word is not known: a load balancer without an API server behind it says so, too.
                    log.info("a kind of Kueue's was not found, so the API server is asked what it has")
                    await asyncio.sleep(UNKNOWN_SECONDS)
                # What is known stays until all kinds are listed again, or are known not to be there.
                continue
            if store.version:
                log.info("the API server has no queues of Kueue any more")
            changed = bool(store.version or store.problems) or not store.listed
            self._sources = []
            store.version = ""
            store.problems.clear()
            if changed:
                self._complete()
            await asyncio.sleep(AGAIN_SECONDS)

    async def _follow(self, version: str) -> bool:
        """Follow all kinds until an answer says that one of them is not there, or all can be by the preferred version.

        Returns:
            Whether all can be read by the preferred version, and are not yet.
        """
        self._listed.clear()
        self._sources = list(self._kinds(version))
        tasks = [asyncio.create_task(source.run()) for source in self._sources]
        tasks.append(asyncio.create_task(self._wait_no_longer(version)))
        tasks.append(asyncio.create_task(self._ask_for_boosts(version)))
        preferred = asyncio.create_task(self._until_preferred(version))
        tasks.append(preferred)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()
            ends = await asyncio.gather(*tasks, return_exceptions=True)
        for end in ends:
            if isinstance(end, Exception) and not isinstance(end, NO_RESOURCE):
                raise end
        return not preferred.cancelled()

    def _kinds(self, version: str) -> Iterator[Source[Any]]:
        store = self._cache.kueue
        settled = partial(self._settled, version)

        def source(
            plural: str, kind: type[Any], known: Reflector[Any, Key], scope: str = "", labels: str = ""
        ) -> Source[Any]:
            path = paths.of_kueue(version, plural, scope)
            watcher: Watcher[Any] = Watcher(self._api, path, kind, label_selector=labels, late_refusals=True)
            return Source(plural, watcher, scope, see=partial(self._see, known), settled=settled)

        for namespace in self._namespaces:
            yield source("workloads", Workload, store.workloads, namespace, names.LABEL_JOB_UID)
            yield source("localqueues", LocalQueue, store.local_queues, namespace)
        yield source("clusterqueues", ClusterQueue, store.cluster_queues)
        yield source("resourceflavors", ResourceFlavor, store.flavors)
        yield source("workloadpriorityclasses", PriorityClass, store.priorities)

    def _see(self, known: Reflector[Any, Key], event: Event[Any], scope: str) -> None:
        matters = _says_something_else(event, known)
        news = known.observe(event, scope)
        if known is self._cache.kueue.workloads:
            self._wake(news)
        elif known is self._cache.kueue.local_queues and matters:
            # Namespaces come and go with theirs, which are nothing to the jobs of others.
            jobs = (job for job in self._cache.jobs.all() if (job.namespace, job.queue) in news)
            self._wake({job.key for job in jobs if not job.status.final})
        elif news and matters:
            self._news()

    def _settled(self, version: str, source: Source[Any], refused: ApiError | None) -> None:
        problems = self._cache.kueue.problems
        if refused is None:
            problems.pop(source.name, None)
        else:
            if source.name not in problems:
                log.warning("%s of Kueue cannot be read: %s", source.name, refused)
            problems[source.name] = str(refused)
        self._seen(source.name, version)

    async def _wait_no_longer(self, version: str) -> None:
        await asyncio.sleep(SYNC_SECONDS)
        for what in self._awaited - self._listed:
            log.warning("%s of Kueue are not listed yet: jobs in queues wait", what)
            self._cache.kueue.problems[what] = f"the API server has not listed {what} yet"
            self._seen(what, version)
        await asyncio.Event().wait()

    async def _until_preferred(self, version: str) -> None:
        """Return when all kinds can be read by the preferred version.

        An upgrade of Kueue adds it to kind after kind, and starts later what converts their objects to it.
        """
        while True:
            await asyncio.sleep(AGAIN_SECONDS)
            wanted = (paths.of_kueue(VERSIONS[0], source.kind, source.scope) for source in self._sources)
            if version != VERSIONS[0] and await can_be_listed(self._api, wanted):
                return

    async def _ask_for_boosts(self, version: str) -> None:
        # The question is a POST, if a dry run, and a process that stands by sends none.
        await self._leads.wait()
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
            self._complete()

    def _complete(self) -> None:
        """All is listed, or cannot be. Until the first time no job with a queue was looked at, be it over or not."""
        first, self._cache.kueue.listed = not self._cache.kueue.listed, True
        self._news(over_too=first)

    def _news(self, *, over_too: bool = False) -> None:
        """Have every job looked at that has a queue and, unless `over_too`, is not over, or that has a Workload."""
        queued = (job for job in self._cache.jobs.all() if job.queue is not None)
        self._wake({job.key for job in queued if over_too or not job.status.final} | self._cache.kueue.jobs())


def _says_something_else(event: Event[Any], known: Reflector[Any, Key]) -> bool:
    """Whether more than metadata and status changes: a ClusterQueue is written at each admission."""
    if not isinstance(event, Applied):
        return True
    seen = event.object
    before = known.get((seen.metadata.namespace, seen.metadata.name))
    fields = set(seen.__struct_fields__) - {"metadata", "status"}
    return before is None or any(getattr(before, field) != getattr(seen, field) for field in fields)


def _prints_checkpoints(job: Job) -> bool:
    return job.status.progress is not None and job.status.progress.checkpoint is not None

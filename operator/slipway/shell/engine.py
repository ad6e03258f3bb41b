"""The control loop: what is seen wakes a job, a worker decides on it and has it carried out.

Pods and nodes come through watches of our own, SliceJobs through kopf, due times through the queue. All of them do
the same thing, which is to wake a key. Whatever fails is tried again after a while that `policy` chooses.
"""

import asyncio
import gc
import logging
from collections.abc import Collection, Coroutine, Mapping
from contextlib import aclosing
from typing import Any, Final

from slipway.api import names
from slipway.cluster import paths
from slipway.cluster.apply import Applier
from slipway.cluster.cache import Cache
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import Forbidden, NotFound, SlipwayClusterError
from slipway.cluster.events import EventRecorder
from slipway.cluster.lease import Lease, LostLeadership
from slipway.cluster.profiles import ProfileObject
from slipway.cluster.progress import ProgressReader
from slipway.cluster.store import Key
from slipway.cluster.watch import Event, InitDone, Watcher
from slipway.cluster.workqueue import WorkQueue
from slipway.planner.nodes import Node
from slipway.planner.objects import Pod
from slipway.planner.plan import plan
from slipway.shell import calm, health
from slipway.shell.clock import Clock
from slipway.shell.job_lists import JobLists
from slipway.shell.metrics import Metrics
from slipway.shell.policy import Failures
from slipway.shell.queues import Queues
from slipway.shell.recorder import Recorder
from slipway.shell.settings import OperatorSettings

log = logging.getLogger(__name__)

WORKERS: Final = 24
"""Jobs looked at concurrently."""
FORBIDDEN_SECONDS: Final = (15.0, 300.0)
"""The first and the longest pause before nodes are listed again that may not be listed."""


class EngineFailed(Exception):
    """The engine cannot do its work; the message says what is missing."""


class Engine:
    """Everything between what is seen and what is done."""

    def __init__(
        self, api: ApiConnection, lease: Lease, settings: OperatorSettings, clock: Clock, metrics: Metrics
    ) -> None:
        self._api = api
        self._metrics = metrics
        self._lease = lease
        self._clock = clock
        self._namespaces = settings.namespaces or ("",)
        self.cache = Cache(settings.planner, clock.now, clock.monotonic, settings.site)
        self.queue: WorkQueue[Key] = WorkQueue(clock.monotonic)
        recorder = EventRecorder(api, settings.identity, now=clock.now, clock=clock.monotonic)
        self._recorder = recorder
        self._decisions = Recorder(settings.record)
        self._applier = Applier(api, self.cache, recorder, now=clock.now, read_secrets=settings.read_secrets)
        self._job_lists = JobLists(
            api, self.cache, self._namespaces, seen=lambda body: self.observe(None, body), gone=self._gone
        )
        self._progress = ProgressReader(api, self.cache, self.queue.add_at, clock.monotonic)
        has_uid = names.LABEL_JOB_UID
        self._pod_watchers = {
            one: Watcher(api, paths.pods(one), Pod, label_selector=has_uid) for one in self._namespaces
        }
        self._node_watcher = Watcher(api, paths.NODES, Node)
        self._profile_watchers = {
            one: Watcher(api, paths.profiles(one), ProfileObject, late_refusals=True) for one in self._namespaces
        }
        self.queues = Queues(api, self.cache, self._namespaces, self._wake)
        self._refused: set[str] = set()
        """Namespaces whose profiles the API server does not show, so that their silence means nothing."""
        scoped = (f"{kind} {one}" for kind in ("pods", "profiles") for one in self._namespaces)
        self._unsynced = {"jobs", "nodes", *scoped}
        self._acquired = asyncio.Event()
        self._ready = asyncio.Event()
        self._led = 0.0
        self._orphans: dict[Key, set[str]] = {}
        self._failures = Failures()
        self.lag = health.LoopLag()
        self._started = clock.monotonic()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> "asyncio.Future[None]":
        """Begin; the result fails as soon as any part of the engine does, for none may be missing."""
        parts: list[Coroutine[Any, Any, None]] = [
            self._lead(),
            *(self._follow_pods(scope, watcher) for scope, watcher in self._pod_watchers.items()),
            self._follow_nodes(),
            *(self._follow_profiles(scope, watcher) for scope, watcher in self._profile_watchers.items()),
            self.queues.run(),
            self._list_jobs(),
            self._resync(),
            self._recorder.run(),
            self.lag.run(),
            *(self._work() for _ in range(WORKERS)),
        ]
        over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def ended(task: asyncio.Task[None]) -> None:
            if not over.done() and not task.cancelled() and (error := task.exception()) is not None:
                over.set_exception(error)

        self._tasks = [asyncio.create_task(part) for part in parts]
        for task in self._tasks:
            task.add_done_callback(ended)
        return over

    async def stop(self) -> None:
        """Stop everything and release the Lease, so that another process takes over at once.

        The Lease is renewed until the API server has answered, or can no longer carry out, the writes under way: none
        may land when another process leads.
        """
        if not self._tasks:
            return
        (leading, *others), self._tasks = self._tasks, []
        await _cancelled(*others)
        await self._progress.stop()
        await self._api.settle()
        await _cancelled(leading)
        await self._lease.release()

    def observe(self, kind: str | None, body: Mapping[str, Any]) -> None:
        """Take a SliceJob as kopf saw it; `kind` is the watch event's type, None while listing."""
        metadata = body["metadata"]
        key = (str(metadata["namespace"]), str(metadata["name"]))
        if kind != "DELETED":
            if self.cache.jobs.upsert(body) is not None:
                self._wake((key,))
            return
        self._gone(key, str(metadata["uid"]))

    def health(self) -> dict[str, str]:
        """Figures for /healthz.

        Raises:
            Unhealthy: when the process should be replaced.
        """
        led = self._clock.monotonic() - self._led if self._ready.is_set() else 0.0
        return health.check(
            oldest_wait=min(self.queue.oldest_age(), led),
            longest_turn=self.queue.longest_turn(),
            silence=max(self.watch_ages().values(), default=0.0),
            loop_lag=self.lag.worst,
            leader=self._lease.held,
            nodes_watched=self.cache.nodes.watched,
        )

    @property
    def leads(self) -> bool:
        """Whether this process decides on jobs."""
        return self._ready.is_set() and self._lease.held

    def watch_ages(self) -> dict[str, float]:
        """Seconds since the most silent watch of each resource, of those that may be watched, gave a sign of life."""
        watchers: list[tuple[str, Watcher[Any]]] = [("pods", one) for one in self._pod_watchers.values()]
        profiles = (one for scope, one in self._profile_watchers.items() if scope not in self._refused)
        watchers += [("slicejobprofiles", one) for one in profiles]
        watchers += [("nodes", self._node_watcher)] * self.cache.nodes.watched
        return health.silences(((what, one.heard) for what, one in watchers), self._started, self._clock.monotonic)

    def _gone(self, key: Key, uid: str) -> None:
        job = self.cache.jobs.remove(key, uid)
        if job is not None:
            self.cache.forget(key)
        if self._ready.is_set() and not (job is not None and job.orphaning):
            self._orphaned(key, uid)

    def _orphaned(self, key: Key, uid: str) -> None:
        self._orphans.setdefault(key, set()).add(uid)
        self.queue.add(key)

    async def _follow_pods(self, scope: str, watcher: Watcher[Pod]) -> None:
        try:
            async with aclosing(watcher.events()) as events:
                async for event in events:
                    self._see_pod(event, scope)
        except (Forbidden, NotFound) as error:
            raise EngineFailed(f"pods cannot be watched: {error}") from error

    def _see_pod(self, event: Event[Pod], scope: str) -> None:
        for key, pause in calm.observe(self.cache, event, scope):
            self._wake((key,), pause)
        if isinstance(event, InitDone):
            self._synced(f"pods {scope}")

    async def _follow_nodes(self) -> None:
        """Follow nodes as soon as a role allows it, which may be some time after this process has started."""
        pause, longest = FORBIDDEN_SECONDS
        while True:
            try:
                async with aclosing(self._node_watcher.events()) as events:
                    async for event in events:
                        self._see_node(event)
            except Forbidden as error:
                if self.cache.nodes.watched:
                    log.warning("nodes cannot be watched, so a dead machine is only noticed by its pods: %s", error)
                self.cache.nodes.watched = False
                self._synced("nodes")
            await asyncio.sleep(pause)
            pause = min(2 * pause, longest)

    def _see_node(self, event: Event[Node]) -> None:
        for name in self.cache.nodes.observe(event):
            self._wake(self.cache.pods.jobs_on(name))
        if isinstance(event, InitDone):
            if not self.cache.nodes.watched:
                log.info("nodes are watched from now on")
            self.cache.nodes.watched = True
            self._synced("nodes")

    async def _follow_profiles(self, scope: str, watcher: Watcher[ProfileObject]) -> None:
        """Follow SliceJobProfiles; without their CRD there are none, and unless they can be read no attempt begins."""
        profiles = self.cache.profiles
        while True:
            try:
                async with aclosing(watcher.events()) as events:
                    async for event in events:
                        for namespace, name in profiles.observe(event, scope):
                            self._wake(self.cache.profile_changed(namespace, name))
                        if isinstance(event, InitDone):
                            self._refused.discard(scope)
                            self._profiles_readable(scope, "")
            except (Forbidden, NotFound) as error:
                self._refused.add(scope)
                self._profiles_readable(scope, str(error) if isinstance(error, Forbidden) else "")
            await asyncio.sleep(FORBIDDEN_SECONDS[0])

    def _profiles_readable(self, scope: str, problem: str) -> None:
        if self.cache.profiles.unreadable.get(scope, "") != problem:
            log.warning("SliceJobProfiles: %s", problem or "readable from now on")
            self.cache.profiles.unreadable[scope] = problem
            self._wake(self.cache.profile_changed(scope))
        self._synced(f"profiles {scope}")

    def _wake(self, keys: Collection[Key], pause: float = 0.0) -> None:
        """Have jobs looked at, by name. Before this process leads that is put off: then every job is looked at."""
        for key in sorted(keys) if self._ready.is_set() else ():
            self.queue.add_at(key, self._clock.monotonic() + pause)

    def _synced(self, what: str) -> None:
        if what in self._unsynced:
            self._unsynced.discard(what)
            self._maybe_ready()

    def _maybe_ready(self) -> None:
        if self._unsynced or not self._lease.held or self._ready.is_set():
            return
        log.info("ready: %d pods, %d nodes", len(self.cache.pods), len(self.cache.nodes.view))
        # What was listed lives long: full collections need not walk over it again.
        gc.collect()
        gc.freeze()
        self._led = self._clock.monotonic()
        # The lists have set the clock right by now.
        self.cache.leading_since = self._clock.now()
        self._ready.set()
        self._wake(self.cache.jobs.uids().keys() | self.cache.kueue.jobs())

    async def _lead(self) -> None:
        await self._lease.acquire()
        self._acquired.set()
        self._maybe_ready()
        await self._lease.keep()

    async def _list_jobs(self) -> None:
        await self._acquired.wait()
        await self._job_lists.read_all()
        self._synced("jobs")

    async def _resync(self) -> None:
        await self._ready.wait()
        await self._job_lists.compare()

    async def _work(self) -> None:
        await self._ready.wait()
        while True:
            key = await self.queue.get()
            # A turn need not wait for anything, and one job must never keep the loop from all others and the Lease.
            await asyncio.sleep(0)
            try:
                await self._turn(key)
            finally:
                self.queue.done(key)

    async def _turn(self, key: Key) -> None:
        began, result = self._clock.monotonic(), "done"
        try:
            wait = await self._reconcile(key)
            self._failures.forget(key)
        except LostLeadership:
            raise
        except Exception as error:
            result = "api_error" if isinstance(error, SlipwayClusterError) else "mistake"
            wait = self._failures.add(key, self.cache.jobs.get(key), error)
        self._metrics.reconciled(self._clock.monotonic() - began, result)
        if wait is not None:
            self.queue.add_at(key, self._clock.monotonic() + wait)

    async def _reconcile(self, key: Key) -> float | None:
        """Decide on a job and carry it out; returns seconds until it should be looked at again."""
        await self._delete_orphans(key)
        snapshot = self.cache.snapshot(key)
        if snapshot is None:
            asked = await self._applier.workloads.release(key)
            self.cache.forget(key)
            self._progress.end(key)
            return 0.0 if asked else None
        if not self.cache.serves(snapshot.job):
            self._progress.end(key)
            return None
        if snapshot.job.queue is not None and not self.cache.kueue.listed:
            return None
        now = self._clock.now()
        self._decisions.add(snapshot, now)
        self._metrics.count(self.cache.measures(key))
        decision = plan(snapshot, now)
        if decision.wake_at is not None:
            self.queue.add_at(key, self._clock.at(decision.wake_at))
        wait = await self._applier.apply(decision, snapshot.job)
        self._metrics.count(self.cache.measures(key))
        self._progress.follow(key)
        job = self.cache.jobs.get(key)
        if job is not None:
            self.cache.tidy(job)
        return wait

    async def _delete_orphans(self, key: Key) -> None:
        # More may come while some are being deleted.
        while uids := self._orphans.get(key):
            uid = next(iter(uids))
            await self._applier.remover.delete_orphans(key, uid)
            uids.discard(uid)
        self._orphans.pop(key, None)


async def _cancelled(*tasks: "asyncio.Task[None]") -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)

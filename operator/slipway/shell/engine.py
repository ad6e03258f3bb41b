"""The control loop: what is seen wakes a job, a worker decides on it and has it carried out.

Pods and nodes come through watches of our own, SliceJobs through kopf, due times through the queue. All of them do
the same thing, which is to wake a key. Whatever fails is tried again after a while that `policy` chooses.
"""

import asyncio
import gc
import logging
from collections.abc import Collection, Coroutine, Mapping
from contextlib import aclosing, suppress
from typing import Any, Final

import msgspec

from slipway.api import names
from slipway.cluster import paths
from slipway.cluster.apply import Applier
from slipway.cluster.cache import Cache
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import Forbidden, NotFound, SlipwayClusterError
from slipway.cluster.events import EventRecorder
from slipway.cluster.lease import Lease, LostLeadership
from slipway.cluster.store import Key, key_of
from slipway.cluster.watch import Applied, Event, InitDone, Watcher
from slipway.cluster.wire import JsonObject
from slipway.cluster.workqueue import WorkQueue
from slipway.planner.plan import plan
from slipway.planner.snapshot import Node, Pod
from slipway.shell import health
from slipway.shell.clock import Clock
from slipway.shell.policy import backoff
from slipway.shell.settings import OperatorSettings

log = logging.getLogger(__name__)

WORKERS: Final = 24
"""Jobs looked at concurrently; with the writes in flight and the watches they stay below the connection limit."""
CALM_SECONDS_PER_POD: Final = 100e-6
"""How long mere progress of a pod, or its going, may wait for that of its siblings, for each pod of the job.

A decision looks at every pod, so one for each of the thousands that start would cost with the square of their number;
this keeps it to about a tenth of the time. The last one to start, or to go, waits for nobody.
"""
RESYNC_SECONDS: Final = 600.0
_RESYNC_RETRY_SECONDS: Final = 60.0


class EngineFailed(Exception):
    """The engine cannot do its work; the message says what is missing."""


class _JobMeta(msgspec.Struct, rename="camel"):
    name: str
    namespace: str
    uid: str
    resource_version: str


class _JobName(msgspec.Struct):
    metadata: _JobMeta


class Engine:
    """Everything between what is seen and what is done."""

    def __init__(self, api: ApiConnection, lease: Lease, settings: OperatorSettings, clock: Clock) -> None:
        self._api = api
        self._lease = lease
        self._clock = clock
        self._namespaces = settings.namespaces or ("",)
        self.cache = Cache(settings.planner, clock.now, clock.monotonic)
        self.queue: WorkQueue[Key] = WorkQueue(clock.monotonic)
        recorder = EventRecorder(api, settings.identity, now=clock.now, clock=clock.monotonic)
        self._recorder = recorder
        self._applier = Applier(api, self.cache, recorder, now=clock.now)
        has_uid = names.LABEL_JOB_UID
        self._pod_watchers = {
            one: Watcher(api, paths.pods(one), Pod, label_selector=has_uid) for one in self._namespaces
        }
        self._node_watcher = Watcher(api, paths.NODES, Node)
        self._unsynced = {"nodes", *(f"pods {one}" for one in self._namespaces)}
        self._ready = asyncio.Event()
        self._orphans: dict[Key, set[str]] = {}
        self._failures: dict[Key, int] = {}
        self._lag = health.LoopLag()
        self._started = clock.monotonic()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> "asyncio.Future[None]":
        """Begin; the result fails as soon as any part of the engine does, for none may be missing."""
        parts: list[Coroutine[Any, Any, None]] = [
            *(self._follow_pods(scope, watcher) for scope, watcher in self._pod_watchers.items()),
            self._follow_nodes(),
            self._lead(),
            self._resync(),
            self._recorder.run(),
            self._lag.run(),
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
        """Stop everything and release the Lease, so that another process takes over at once."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if tasks:
            await self._lease.release()

    def observe(self, kind: str | None, body: Mapping[str, Any]) -> None:
        """Take a SliceJob as kopf saw it; `kind` is the watch event's type, None while listing."""
        metadata = body["metadata"]
        key = (str(metadata["namespace"]), str(metadata["name"]))
        if kind != "DELETED":
            if self.cache.jobs.upsert(body) is not None:
                self.queue.add(key)
            return
        self._gone(key, str(metadata["uid"]))

    def health(self) -> dict[str, str]:
        """Figures for /healthz.

        Raises:
            Unhealthy: when the process should be replaced.
        """
        watchers: list[Watcher[Any]] = [*self._pod_watchers.values()]
        if self.cache.nodes.watched:
            watchers.append(self._node_watcher)
        return health.Health(
            oldest_wait=self.queue.oldest_age() if self._ready.is_set() else 0.0,
            longest_turn=self.queue.longest_turn(),
            silence=health.silence((one.heard for one in watchers), self._started, self._clock.monotonic),
            loop_lag=self._lag.worst,
            leader=self._lease.held,
        ).check()

    def _gone(self, key: Key, uid: str) -> None:
        job = self.cache.jobs.remove(key, uid)
        if job is not None:
            self.cache.forget(key)
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
        pods, calm, starting = self.cache.pods, False, 0
        if isinstance(event, Applied):
            calm, starting = event.object.uneventful, pods.starting(key_of(event.object))
        for key in pods.observe(event, scope):
            was_last = starting > 0 and pods.starting(key) == 0
            self._wake((key,), calm=(calm and not was_last) or self.cache.jobs.attempt_ended(key))
        if isinstance(event, InitDone):
            self._synced(f"pods {scope}")

    async def _follow_nodes(self) -> None:
        try:
            async with aclosing(self._node_watcher.events()) as events:
                async for event in events:
                    for name in self.cache.nodes.observe(event):
                        self._wake(self.cache.pods.jobs_on(name))
                    if isinstance(event, InitDone):
                        self._synced("nodes")
        except Forbidden as error:
            log.warning("nodes cannot be watched, so a dead machine is only noticed by its pods: %s", error)
            self.cache.nodes.watched = False
            self._synced("nodes")

    def _wake(self, keys: Collection[Key], *, calm: bool = False) -> None:
        for key in keys:
            pause = len(self.cache.pods.of(key)) * CALM_SECONDS_PER_POD if calm else 0.0
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
        self._ready.set()

    async def _lead(self) -> None:
        await self._lease.acquire()
        self._maybe_ready()
        await self._lease.keep()

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
        try:
            wait = await self._reconcile(key)
            self._failures.pop(key, None)
        except LostLeadership:
            raise
        except Exception as error:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            wait = backoff(error, failures)
            expected = isinstance(error, SlipwayClusterError)
            log.log(
                logging.WARNING if expected else logging.ERROR,
                "%s; next try in %.1f s",
                error if expected else "a mistake in Slipway",
                wait,
                extra={"job": "/".join(key)},
                exc_info=None if expected else error,
            )
        if wait is not None:
            self.queue.add_at(key, self._clock.monotonic() + wait)

    async def _reconcile(self, key: Key) -> float | None:
        """Decide on a job and carry it out; returns seconds until it should be looked at again."""
        for uid in tuple(self._orphans.get(key, ())):
            await self._applier.remover.delete_orphans(key, uid)
            self._orphans[key].discard(uid)
        self._orphans.pop(key, None)
        snapshot = self.cache.snapshot(key)
        if snapshot is None:
            self.cache.forget(key)
            return None
        decision = plan(snapshot, self._clock.now())
        if decision.wake_at is not None:
            self.queue.add_at(key, self._clock.at(decision.wake_at))
        wait = await self._applier.apply(decision, snapshot.job)
        job = self.cache.jobs.get(key)
        if job is not None:
            self.cache.tidy(job)
        return wait

    async def _resync(self) -> None:
        """Now and then compare names: kopf does not tell of jobs that went while it was not listening."""
        wait = RESYNC_SECONDS
        while True:
            await asyncio.sleep(wait)
            try:
                for namespace in self._namespaces:
                    await self._resync_namespace(namespace)
                wait = RESYNC_SECONDS
            except SlipwayClusterError as error:
                log.warning("SliceJobs could not be listed: %s", error)
                wait = _RESYNC_RETRY_SECONDS

    async def _resync_namespace(self, namespace: str) -> None:
        before = self.cache.jobs.uids()
        listing = await self._api.list(paths.jobs(namespace), _JobName)
        listed = {(one.metadata.namespace, one.metadata.name): one.metadata.uid for one in listing.items}
        for key, uid in before.items():
            if (not namespace or key[0] == namespace) and listed.get(key) != uid:
                self._gone(key, uid)
        for key in listed.keys() - before.keys():
            with suppress(NotFound):
                self.observe(None, await self._api.get(paths.job(*key), JsonObject))

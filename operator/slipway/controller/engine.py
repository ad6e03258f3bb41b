"""The control loop: a watch event puts a job in the work queue, and a worker plans the job and applies the plan.

Pods and nodes come through watches of our own, SliceJobs through kopf, due times through the queue. All of them do
the same thing, which is to wake a key. Whatever fails is tried again after a while that `backoff` chooses.
"""

import asyncio
import gc
import logging
from collections.abc import Collection, Coroutine, Iterator, Mapping
from typing import Any, Final

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import WATCH_SECONDS, ApiConnection
from slipway.apiserver.errors import NO_RESOURCE, ApiError, Forbidden, SlipwayClusterError
from slipway.apiserver.watch import Event, Watcher
from slipway.controller import debounce
from slipway.controller.act.apply import Applier
from slipway.controller.act.events import EventRecorder
from slipway.controller.clock import Clock
from slipway.controller.error_pauses import Failures
from slipway.controller.lease import Lease, LostLeadership
from slipway.controller.observability import health
from slipway.controller.observability.metrics import Metrics
from slipway.controller.recorder import Recorder
from slipway.controller.seen.cache import Cache
from slipway.controller.seen.job_lists import JobLists
from slipway.controller.seen.kueue_watches import Queues
from slipway.controller.seen.profiles import ProfileObject
from slipway.controller.seen.progress import ProgressReader
from slipway.controller.seen.watches import Source, silences
from slipway.controller.settings import OperatorSettings
from slipway.controller.workqueue import WorkQueue
from slipway.core.model.job import Key
from slipway.core.model.nodes import Node
from slipway.core.model.pods import Pod
from slipway.core.planner.plan import plan

log = logging.getLogger(__name__)

SHORT_WATCH_SECONDS: Final = 10
"""How long watches live on whose connections a restart depends."""
WORKERS: Final = 32
"""Jobs looked at concurrently."""
WORKERS_OF_A_NAMESPACE: Final = 24
"""Those of one namespace, so that others have their turn while its webhooks do not answer."""

COLLECTED_EVERY: Final = 50_000
"""New objects after which the young ones are collected: what a burst of jobs brings stays, and cycles are rare."""


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
        self.namespaces = settings.namespaces or ("",)
        """Those that are served; an empty name stands for all."""
        self.cache = Cache(settings.planner, clock.now, clock.monotonic, settings.site)
        self.queue: WorkQueue[Key] = WorkQueue(clock.monotonic, group=lambda key: key[0], most=WORKERS_OF_A_NAMESPACE)
        self._recorder = EventRecorder(api, settings.identity, now=clock.now, clock=clock.monotonic)
        self._decisions = Recorder(settings.record)
        self._applier = Applier(api, self.cache, self._recorder, now=clock.now, read_secrets=settings.read_secrets)
        self._job_lists = JobLists(
            api, self.cache, self.namespaces, seen=lambda body: self.observe(None, body), gone=self._gone
        )
        self._progress = ProgressReader(api, self.cache, self.queue.add_at, clock.monotonic)
        self.sources: list[Source[Any]] = [*self._sources(api)]
        self._unsynced = {"jobs", *(source.name for source in self.sources)}
        self._acquired = asyncio.Event()
        self._ready = asyncio.Event()
        self.queues = Queues(api, self.cache, self.namespaces, self._wake, self._ready)
        self._led = 0.0
        self._orphans: dict[Key, set[str]] = {}
        self._failures = Failures()
        self.lag = health.LoopLag()
        self.started = clock.monotonic()
        """Monotonic seconds."""
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> "asyncio.Future[None]":
        """Begin; the result fails as soon as any part of the engine does, for none may be missing."""
        parts: list[Coroutine[Any, Any, None]] = [
            self._lead(),
            *(self._follow(source) for source in self.sources),
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
        # While every worker is at work, what waits has not been forgotten.
        may_wait = self.queue.running >= WORKERS or not self._ready.is_set()
        led = 0.0 if may_wait else self._clock.monotonic() - self._led
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
        """Seconds since the most silent watch of each resource, of those that may be watched, gave a sign of life.

        Kueue's are left out, and so `health` does not look at them. A watch that falls silent is taken up again in any
        case. One that stays silent is refused, as while Kueue's webhook converts nothing: another process would be
        refused, too, would know less of Kueue than this one, and until it leads no job is looked at at all.
        """
        return silences(self.sources, self.started, self._clock.monotonic)

    def _gone(self, key: Key, uid: str) -> None:
        job = self.cache.forget(key, uid)
        if self._ready.is_set() and not (job is not None and job.orphaning):
            self._orphans.setdefault(key, set()).add(uid)
            self.queue.add(key)

    def _sources(self, api: ApiConnection) -> Iterator[Source[Any]]:
        """Everything that is watched beside SliceJobs and Kueue's objects."""
        # A silent connection delays a restart: it is noticed early, at a few requests a second for all of them.
        seconds = min(max(SHORT_WATCH_SECONDS, len(self.namespaces)), WATCH_SECONDS)
        for one in self.namespaces:
            pods = Watcher(api, paths.pods(one), Pod, label_selector=names.LABEL_JOB_UID, seconds=seconds)
            yield Source("pods", pods, one, see=self._see_pod, settled=self._pods_settled, tolerated=())
        nodes = Watcher(api, paths.NODES, Node, seconds=seconds)
        yield Source("nodes", nodes, see=self._see_node, settled=self._nodes_settled)
        for one in self.namespaces:
            profiles = Watcher(api, paths.profiles(one), ProfileObject, late_refusals=True)
            see, settled, tolerated = self._see_profile, self._profiles_settled, (Forbidden, *NO_RESOURCE)
            yield Source("slicejobprofiles", profiles, one, see=see, settled=settled, tolerated=tolerated)

    async def _follow(self, source: Source[Any]) -> None:
        try:
            await source.run()
        except (Forbidden, *NO_RESOURCE) as error:
            raise EngineFailed(f"{source.kind} cannot be watched: {error}") from error

    def _see_pod(self, event: Event[Pod], scope: str) -> None:
        for key, pause in debounce.observe(self.cache, event, scope):
            self._wake((key,), pause)

    def _pods_settled(self, source: Source[Pod], _: ApiError | None) -> None:
        self._synced(source.name)

    def _see_node(self, event: Event[Node], _: str) -> None:
        for name in self.cache.nodes.observe(event):
            self._wake(self.cache.pods.jobs_on(name))

    def _nodes_settled(self, source: Source[Node], refused: ApiError | None) -> None:
        """Nodes may be followed as soon as a role allows it, which may be some time after this process has started."""
        nodes = self.cache.nodes
        if refused and nodes.watched:
            log.warning("nodes cannot be watched, so a dead machine is only noticed by its pods: %s", refused)
        elif not refused and not nodes.watched:
            log.info("nodes are watched from now on")
        nodes.watched = not refused
        self._synced(source.name)

    def _see_profile(self, event: Event[ProfileObject], scope: str) -> None:
        for namespace, name in self.cache.profiles.observe(event, scope):
            self._wake(self.cache.profile_changed(namespace, name))

    def _profiles_settled(self, source: Source[ProfileObject], refused: ApiError | None) -> None:
        """Without their CRD there are none, and unless they can be read no attempt begins."""
        problem = str(refused) if isinstance(refused, Forbidden) else ""
        if self.cache.profiles.unreadable.get(source.scope, "") != problem:
            log.warning("SliceJobProfiles: %s", problem or "readable from now on")
            self.cache.profiles.unreadable[source.scope] = problem
            self._wake(self.cache.profile_changed(source.scope))
        self._synced(source.name)

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
        gc.set_threshold(COLLECTED_EVERY)
        self._led = self._clock.monotonic()
        # The lists have set the clock right by now.
        self.cache.leading_since = self._clock.now()
        self._ready.set()
        self._wake({job.key for job in self.cache.jobs.all()} | self.cache.kueue.jobs())

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
            # Before anything is waited for: another job may take the name meanwhile.
            self.cache.forget_name(key)
            self._progress.end(key)
            return 0.0 if await self._applier.workloads.release(key) else None
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

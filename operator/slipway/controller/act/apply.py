"""Carries out a plan: records that must be kept first, then the status, then the actions in their order.

A crash between any two requests loses nothing: the status says what was decided, names are a function of the job and
the place in it, and a decision is made anew from what is found. What the server answers goes into the cache at once,
so that the next decision does not wait for the watch.
"""

import logging
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from typing import Final

import msgspec

from slipway.api.places import Place
from slipway.api.status import SliceJobStatus
from slipway.apiserver import paths
from slipway.apiserver.connection import WRITE_SECONDS, ApiConnection
from slipway.apiserver.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    ConnectionLost,
    Forbidden,
    Invalid,
    NotFound,
    ServerError,
    TooManyRequests,
)
from slipway.apiserver.wire import JsonObject
from slipway.controller.act.delete_pods import PodDeleter
from slipway.controller.act.dropped_fields import Dropped
from slipway.controller.act.events import EventRecorder
from slipway.controller.act.executor import BoundedExecutor
from slipway.controller.act.history import History
from slipway.controller.act.live_reads import Looks
from slipway.controller.act.owned_objects import NameTaken, ensure, name_taken
from slipway.controller.act.secret_check import missing_secrets
from slipway.controller.act.workloads import WorkloadWriter
from slipway.controller.observability.log_fields import log_fields
from slipway.controller.seen.cache import Cache
from slipway.core.explain.api_server import RAY_SECRET, explain_rejection
from slipway.core.manifests.ray.cluster import TOKEN_KEY
from slipway.core.manifests.redact import foreign
from slipway.core.model.job import Job
from slipway.core.model.parts import Body
from slipway.core.model.pods import Pod
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
    ForceDeletePod,
    KeepHistory,
    PatchWorkload,
    Plan,
    Refresh,
)
from slipway.core.planner.contract.snapshot import Rejection
from slipway.core.validation.acceptance import pod_factory
from slipway.core.vocabulary.reasons import MISSING_OBJECTS, POD_REJECTED, WORKLOAD_REJECTED

log = logging.getLogger(__name__)

MAX_IN_FLIGHT: Final = 64
"""Requests for creations at once; above it the API server is the limit anyway."""
MAX_LOOKS: Final = 32
"""Requests for looks at once, so that connections are left for status writes."""

CREATE_TIME: Final = timedelta(seconds=20)
"""After which the job is looked at again, however few pods have been created."""

NOW: Final = 0.0
_REFUSALS: Final = (BadRequest, Forbidden, Invalid)
_GATEWAY_TIMEOUT: Final = 504


class Applier:
    """Writes what the planner decided. One serves all jobs; writes are bounded, and fair between jobs."""

    def __init__(
        self,
        api: ApiConnection,
        cache: Cache,
        recorder: EventRecorder,
        *,
        now: Callable[[], datetime],
        read_secrets: bool = False,
    ) -> None:
        """`now` is the wall clock in UTC; `read_secrets` says whether to look for the Secrets that pods name."""
        self._api = api
        self._cache = cache
        self._recorder = recorder
        self._now = now
        self._read_secrets = read_secrets
        self._executor = BoundedExecutor(MAX_IN_FLIGHT)
        self._history = History(api, recorder)
        self.remover = PodDeleter(api, cache)
        self.workloads = WorkloadWriter(api, cache)
        self._looks = Looks(api, cache, self.workloads, BoundedExecutor(MAX_LOOKS), now)
        self._unanswered: set[str] = set()
        """Namespaces in which the creation of a pod got no answer, until one has been created since."""
        self._dropped = Dropped()

    async def apply(self, plan: Plan, job: Job) -> float | None:
        """Keep what the status drops, write the status, record the Events, act.

        Returns:
            Seconds after which the job should be looked at again; None when the watch will tell.

        Raises:
            SlipwayClusterError: something kept the plan from being carried out; trying again is safe.
        """
        for creation in plan.actions:
            if isinstance(creation, CreatePods):
                # Before anything is waited for, so that no other job chooses the same node pools.
                self._cache.claims.take(job.key, job.uid, creation.attempt, creation.pools)
        # A write whose answer was lost is first seen in the job that the plan was made from.
        self._emit_events(job)
        for action in plan.before:
            await self._act(action, job)
        current, again = job, list[float]()
        if (job.status_lost or plan.status != job.status) and (patch := status_patch(job, plan.status)):
            written = await self._write_status(job, plan.status, patch)
            if written is None:
                return NOW
            current, pause = written
            again.append(pause)
            self._emit_events(current)
        try:
            for action in plan.actions:
                wait = await self._act(action, current)
                if wait is not None:
                    again.append(wait)
        except NameTaken as taken:
            self._cache.claims.release(job.key)
            self._reject(current, taken.reason, str(taken))
            return NOW
        except _PlanInterrupted:
            return NOW
        return min(again, default=None)

    def _emit_events(self, job: Job) -> None:
        for announcement in self._cache.news(job):
            level = logging.WARNING if announcement.warning else logging.INFO
            about = log_fields(job, announcement.attempt)
            log.log(level, "%s: %s", announcement.reason, announcement.message, extra=about)
            self._recorder.record(job, announcement)

    async def _write_status(self, job: Job, wanted: SliceJobStatus, patch: JsonObject) -> tuple[Job, float] | None:
        """Make that the job's status by that patch.

        Returns:
            The job with that status, and seconds after which it should be looked at again; None when it has changed.
        """
        if job.status_problem:
            log.warning("%s", job.status_problem, extra=log_fields(job))
        path = paths.job(*job.key)
        body = {"metadata": {"resourceVersion": job.resource_version}, "status": patch}
        self._cache.writes(job, wanted)
        try:
            written = await self._api.patch_status(path, body, JsonObject)
        except (Conflict, NotFound) as refused:
            # That it is gone may be the word of a webhook.
            await self._fetch(job, refused)
            return None
        self._cache.status_written(job, self._now())
        # Not what the cache holds by now, which may be of a later generation than the plan.
        current = self._cache.jobs.read(written, job)
        self._cache.jobs.applied(current)
        return current, self._dropped.pause(patch, written.get("status", {}))

    async def _fetch(self, job: Job, refused: Conflict | NotFound) -> None:
        """Read a job that has changed, or is gone.

        Raises:
            Conflict, NotFound: when no newer one is known then either, so that the request would fail again at once.
        """
        try:
            self._cache.jobs.upsert(await self._api.get(paths.job(*job.key), JsonObject))
        except NotFound:
            # A job that was created since under the name is another.
            self._cache.forget(job.key, job.uid)
        known = self._cache.jobs.get(job.key)
        if known is not None and (known.uid, known.resource_version) == (job.uid, job.resource_version):
            raise refused

    async def _act(self, action: Action, job: Job) -> float | None:
        match action:
            case Check():
                return await self._check(action, job)
            case CreateObjects() | CreateServices():
                await self._create_objects(action, job)
            case CreateToken():
                await self._create_token(action, job)
            case CreatePods():
                return await self._create_pods(action, job)
            case Refresh():
                await self._looks.refresh(action, job)
                return NOW
            case KeepHistory():
                await self._history.keep(action, job)
            case DeletePods() | ForceDeletePod() | DeleteHostLists() | DeleteJob():
                return await self._delete(action, job)
            case CreateWorkload():
                with self._refusals(job, WORKLOAD_REJECTED):
                    await self.workloads.create(action, job)
                return NOW
            case PatchWorkload() | DeleteWorkload():
                await self.workloads.change(action, job.namespace)
                return NOW
        return None

    async def _delete(
        self, action: DeletePods | ForceDeletePod | DeleteHostLists | DeleteJob, job: Job
    ) -> float | None:
        try:
            return await self.remover.carry_out(action, job)
        except Conflict as conflict:
            await self._fetch(job, conflict)
            return NOW

    async def _check(self, action: Check, job: Job) -> float:
        with self._refusals(job):
            await self._executor.run(action.bodies, lambda body: ensure(self._api, body, job, check=True))
        if self._read_secrets and (missing := await missing_secrets(self._api, job, action.bodies)):
            what = f"Secret {missing[0]} is" if len(missing) == 1 else f"the Secrets {', '.join(missing)} are"
            self._reject(job, MISSING_OBJECTS, f"{what} missing; create it in the namespace of the job")
            return NOW
        self._cache.accepted(job)
        return NOW

    async def _create_objects(self, action: CreateObjects | CreateServices, job: Job) -> None:
        with self._refusals(job):
            await self._executor.run(action.bodies, lambda body: ensure(self._api, body, job))
        if isinstance(action, CreateServices):
            self._cache.served(job, action.attempt, self._now())

    async def _create_token(self, action: CreateToken, job: Job) -> None:
        """Only creating is needed, and allowed: the name is of this very job, and nobody here reads Secrets."""
        body = action.body | {"stringData": {TOKEN_KEY: secrets.token_hex(32)}}
        with self._refusals(job, what=RAY_SECRET), suppress(AlreadyExists):
            try:
                await self._api.create(paths.secrets(job.namespace), body, msgspec.Raw)
            except (Forbidden, Invalid):
                # Quotas and policies are asked first, and the pods of an attempt that ran had the token.
                if all(attempt.running_time is None for attempt in job.status.attempts):
                    raise

    async def _create_pods(self, action: CreatePods, job: Job) -> float | None:
        log.info("creating %d pod(s) of attempt %d", len(action.places), action.attempt, extra=log_fields(job))
        factory = pod_factory(job, self._cache.settings, action.pools)
        until, first = self._now() + CREATE_TIME, action.places[0]

        def body(place: Place) -> Body:
            added = action.head if place.is_head else action.workers
            return added.to(factory.pod(action.attempt, place))

        async def create(place: Place) -> None:
            if not self._is_current(job):
                raise _PlanInterrupted
            # A webhook that does not answer in one namespace must not take the requests of all others.
            if place is first or (self._now() < until and job.namespace not in self._unanswered):
                with self._refusals(job):
                    await self._create_pod(body(place), job)

        try:
            await self._executor.run(action.places, create)
        except (ConnectionLost, ServerError) as error:
            if isinstance(error, ConnectionLost) or error.status == _GATEWAY_TIMEOUT:
                # A dry run may take long enough for the API server to name a webhook that does not answer.
                with self._refusals(job):
                    await ensure(self._api, body(action.places[0]), job, check=True)
            raise
        self._cache.accepted(job)
        return NOW

    async def _create_pod(self, body: Body, job: Job) -> None:
        collection = paths.pods(job.namespace)

        def unanswered() -> None:
            self._cache.create_unanswered(job, self._now() + timedelta(seconds=WRITE_SECONDS))

        try:
            pod = await self._api.create(collection, body, Pod, on_retry=unanswered)
        except AlreadyExists:
            name = body["metadata"]["name"]
            try:
                pod = await self._api.get(f"{collection}/{name}", Pod)
            except NotFound:
                return
            if pod.metadata.labels.job_uid != job.uid:
                raise name_taken(body, earlier=bool(pod.metadata.labels.job_uid)) from None
        except (ConnectionLost, ServerError, TooManyRequests):
            # Of several tries the last alone may have been refused.
            unanswered()
            self._unanswered.add(job.namespace)
            raise
        self._unanswered.discard(job.namespace)
        self._cache.pods.applied(pod)

    @contextmanager
    def _refusals(self, job: Job, otherwise: str = POD_REJECTED, what: str = "pod") -> Iterator[None]:
        """What the API server refuses inside is remembered, and ends the plan.

        Args:
            job: whose object is refused.
            otherwise: the reason of what fits no row.
            what: the kind of the object, for messages that do not name it.
        """
        try:
            yield
        except ApiError as error:
            # Webhooks and policies deny with whatever code they like: it is their words that tell.
            if (explanation := explain_rejection(error.message, what)) is not None:
                self._reject(job, explanation.reason, f"{explanation.message}; {explanation.next_step}")
            elif isinstance(error, _REFUSALS):
                self._reject(job, otherwise, error.message)
            else:
                raise
            raise _PlanInterrupted from error

    def _reject(self, job: Job, reason: str, message: str) -> None:
        message = foreign(message, job.site.hiding(job.spec))
        is_new = self._cache.rejected(job, Rejection(message, self._now(), reason))
        # Thousands of pods may be refused for one reason, again and again.
        log.log(logging.WARNING if is_new else logging.DEBUG, "%s: %s", reason, message, extra=log_fields(job))

    def _is_current(self, job: Job) -> bool:
        known = self._cache.jobs.get(job.key)
        return known is not None and (known.uid, known.generation, known.deleting) == (job.uid, job.generation, False)


class _PlanInterrupted(Exception):
    """Going on with this plan makes no sense."""

"""Carries a plan out: the status first, then the actions in their order.

A crash between any two requests loses nothing: the status says what was decided, names are a function of the job and
the place in it, and a decision is made anew from what is found. What the server answers goes into the cache at once,
so that the next decision does not wait for the watch.
"""

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from typing import Any, Final

import msgspec

from slipway.api import names
from slipway.api.status import SliceJobStatus
from slipway.cluster import paths
from slipway.cluster.cache import Cache
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import AlreadyExists, BadRequest, Conflict, Forbidden, Invalid, NotFound
from slipway.cluster.events import EventRecorder
from slipway.cluster.jobs import read_job
from slipway.cluster.lanes import Lanes
from slipway.cluster.merge_patch import merge_patch
from slipway.cluster.removal import Remover
from slipway.cluster.store import ASKED_SECONDS, Key
from slipway.cluster.wire import JsonObject
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
    ForceDeletePod,
    ListPods,
    LookAtNodes,
    Plan,
)
from slipway.planner.pods import PodFactory
from slipway.planner.ray import TOKEN_KEY
from slipway.planner.snapshot import (
    HEAD,
    NAME_TAKEN,
    POD_REJECTED,
    QUOTA_EXCEEDED,
    WAITING_FOR_OLD,
    Job,
    Node,
    Pod,
    Rejection,
    Slot,
)

log = logging.getLogger(__name__)

MAX_IN_FLIGHT: Final = 64
"""Requests for creations, and looks, at once; above it the API server is the limit anyway."""

MAX_CREATES: Final = 512
"""Pods created before looking at the job again: reacting never waits behind a huge create."""

NOW: Final = 0.0
_REFUSALS: Final = (BadRequest, Forbidden, Invalid)
_COLLECTIONS: Final = {
    "ConfigMap": paths.config_maps,
    "NetworkPolicy": paths.network_policies,
    "Pod": paths.pods,
    "Service": paths.services,
}


class _NameTaken(Exception):
    """An object of somebody else, or of an earlier job of this name, has the name that ours needs."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class _OwnerReference(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""

    def had_name_of(self, job: Job) -> bool:
        """Whether the owner is, or was, a SliceJob of that name."""
        group = self.api_version.partition("/")[0]
        return (group, self.kind, self.name) == (names.GROUP, names.KIND, job.name)


class _OwnedMeta(msgspec.Struct, rename="camel"):
    uid: str = ""
    owner_references: tuple[_OwnerReference, ...] = ()


class _Owned(msgspec.Struct):
    metadata: _OwnedMeta


class Applier:
    """Writes what the planner decided. One serves all jobs; writes are bounded, and fair between jobs."""

    def __init__(
        self, api: ApiConnection, cache: Cache, recorder: EventRecorder, *, now: Callable[[], datetime]
    ) -> None:
        """`now` is the wall clock in UTC."""
        self._api = api
        self._cache = cache
        self._recorder = recorder
        self._now = now
        self._lanes = Lanes(MAX_IN_FLIGHT)
        self.remover = Remover(api, cache)

    async def apply(self, plan: Plan, job: Job) -> float | None:
        """Write the status, record the Events, act.

        Returns:
            Seconds after which the job should be looked at again; None when the watch will tell.

        Raises:
            SlipwayClusterError: something kept the plan from being carried out; trying again is safe.
        """
        # A write whose answer was lost is first seen in the job that the plan was made from.
        self._tell(job)
        current = await self._write_status(job, plan.status)
        if current is None:
            return NOW
        self._tell(current)
        again = [NOW] if current is not job else []
        try:
            for action in plan.actions:
                wait = await self._act(action, current)
                if wait is not None:
                    again.append(wait)
        except _NameTaken as taken:
            self._reject(current, taken.reason, str(taken))
            return NOW
        except _Enough:
            return NOW
        return min(again, default=None)

    def _tell(self, job: Job) -> None:
        for announcement in self._cache.news(job):
            log.info("%s: %s", announcement.reason, announcement.message, extra={"job": _shown(job)})
            self._recorder.record(job, announcement)

    async def _write_status(self, job: Job, wanted: SliceJobStatus) -> Job | None:
        """Returns the job with that status, the same object when it had it; None when the job has changed."""
        if wanted == job.status:
            return job
        patch = merge_patch(dump_status(job.status), dump_status(wanted))
        if not patch:
            return job
        key, path = _key(job), paths.job(job.namespace, job.name)
        body = {"metadata": {"resourceVersion": job.resource_version}, "status": patch}
        self._cache.writes(job, wanted)
        try:
            written = await self._api.patch_status(path, body, JsonObject)
        except NotFound:
            self._cache.forget(key)
            return None
        except Conflict:
            await self._fetch(key)
            return None
        self._cache.status_written(job, self._now())
        self._cache.jobs.upsert(written)
        # Not what the cache holds by now, which may be of a later generation than the plan.
        return read_job(written, job)

    async def _fetch(self, key: Key) -> None:
        try:
            self._cache.jobs.upsert(await self._api.get(paths.job(*key), JsonObject))
        except NotFound:
            self._cache.forget(key)

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
            case DeletePods():
                await self.remover.delete_pods(action, job)
                return ASKED_SECONDS + 1.0
            case LookAtNodes():
                return await self._look_at_nodes(action, job)
            case ListPods():
                return await self._list_pods(job)
            case ForceDeletePod():
                await self.remover.force_delete_pod(action, job)
            case DeleteJob():
                await self.remover.delete_job(job)
        return None

    async def _look_at_nodes(self, action: LookAtNodes, job: Job) -> float:
        async def look(name: str) -> None:
            try:
                self._cache.nodes.applied(await self._api.get(paths.node(name), Node))
            except NotFound:
                self._cache.nodes.denied(name)

        await self._lanes.run(action.names, look)
        if action.attempt is not None:
            self._cache.nodes_asked(job, action.attempt)
        return NOW

    async def _list_pods(self, job: Job) -> float:
        at = self._now()
        selector = f"{names.LABEL_JOB_UID}={job.uid}"
        listing = await self._api.list(paths.pods(job.namespace), Pod, label_selector=selector)
        self._cache.pods_listed(job, listing.items, listing.resource_version, at)
        return NOW

    async def _check(self, action: Check, job: Job) -> float:
        with self._refusals(job):
            await self._lanes.run(action.bodies, lambda body: self._ensure(body, job, check=True))
        self._cache.accepted(job)
        return NOW

    async def _create_objects(self, action: CreateObjects | CreateServices, job: Job) -> None:
        with self._refusals(job):
            await self._lanes.run(action.bodies, lambda body: self._ensure(body, job))
        if isinstance(action, CreateServices):
            self._cache.served(job, action.attempt)

    async def _create_token(self, action: CreateToken, job: Job) -> None:
        """Only creating is needed, and allowed: the name is of this very job, and nobody here reads Secrets."""
        body = action.body | {"stringData": {TOKEN_KEY: secrets.token_hex(32)}}
        with suppress(AlreadyExists):
            await self._api.create(paths.secrets(job.namespace), body, msgspec.Raw)

    async def _ensure(self, body: Body, job: Job, *, check: bool = False) -> None:
        collection = _COLLECTIONS[body["kind"]](job.namespace)
        try:
            await self._api.create(collection, body, msgspec.Raw, check=check)
        except AlreadyExists:
            path = f"{collection}/{body['metadata']['name']}"
            found = (await self._api.get(path, _Owned)).metadata
            if any(owner.uid == job.uid for owner in found.owner_references):
                return
            if not found.owner_references or not all(owner.had_name_of(job) for owner in found.owner_references):
                raise _name_taken(body, earlier=False) from None
            await self._make_way(path, found.uid, job)
            try:
                await self._api.create(collection, body, msgspec.Raw, check=check)
            except AlreadyExists:
                raise _name_taken(body, earlier=True) from None

    async def _make_way(self, path: str, uid: str, job: Job) -> None:
        """Delete what an earlier job of this name has left; the garbage collector may take half a minute.

        That the job's name is its own by now shows that the earlier one is gone; an outdated cache does not.
        """
        if (await self._api.get(paths.job(job.namespace, job.name), _Owned)).metadata.uid == job.uid:
            with suppress(NotFound, Conflict, Forbidden):
                await self._api.delete(path, uid=uid)

    async def _create_pods(self, action: CreatePods, job: Job) -> float | None:
        pools = self._pools(action, PodFactory(job, self._cache.settings), job)
        factory = PodFactory(job, self._cache.settings, pools)

        async def create(slot: Slot) -> None:
            if not self._is_current(job):
                raise _Enough
            with self._refusals(job):
                await self._create_pod(factory.pod(action.attempt, slot), job)

        await self._lanes.run(action.slots[:MAX_CREATES], create)
        self._cache.accepted(job)
        return NOW

    def _pools(self, action: CreatePods, factory: PodFactory, job: Job) -> Mapping[int, str]:
        """The node pools of all slices, not only of those whose pods come first: each has to know the others'."""
        if not (factory.pool_hosts and self._cache.settings.whole_cluster):
            return action.pools
        unsettled = sorted({slot[0] for slot in action.slots if slot != HEAD} - action.pools.keys())
        chosen = self._cache.pools.choose(
            _key(job), job.uid, action.attempt, unsettled, factory.pool_hosts, factory.suits
        )
        return {**action.pools, **chosen}

    async def _create_pod(self, body: Body, job: Job) -> None:
        collection = paths.pods(job.namespace)
        try:
            pod = await self._api.create(collection, body, Pod)
        except AlreadyExists:
            name = body["metadata"]["name"]
            try:
                pod = await self._api.get(f"{collection}/{name}", Pod)
            except NotFound:
                return
            if pod.metadata.labels.job_uid != job.uid:
                raise _name_taken(body, earlier=bool(pod.metadata.labels.job_uid)) from None
        self._cache.pods.applied(pod)

    @contextmanager
    def _refusals(self, job: Job) -> Iterator[None]:
        """What the API server refuses inside is remembered, and ends the plan."""
        try:
            yield
        except _REFUSALS as error:
            quota = isinstance(error, Forbidden) and error.quota
            self._reject(job, QUOTA_EXCEEDED if quota else POD_REJECTED, error.message)
            raise _Enough from error

    def _reject(self, job: Job, reason: str, message: str) -> None:
        log.warning("%s: %s", reason, message, extra={"job": _shown(job)})
        self._cache.rejected(job, Rejection(message, self._now(), reason))

    def _is_current(self, job: Job) -> bool:
        known = self._cache.jobs.get(_key(job))
        return known is not None and (known.uid, known.generation, known.deleting) == (job.uid, job.generation, False)


def _name_taken(body: Body, earlier: bool) -> _NameTaken:
    name = f"{body['kind']} {body['metadata']['name']}"
    if earlier:
        return _NameTaken(WAITING_FOR_OLD, f"{name} of an earlier job of this name must go first")
    return _NameTaken(
        NAME_TAKEN, f"{name} is needed and is somebody else's: delete it, or give the SliceJob another name"
    )


class _Enough(Exception):
    """Going on with this plan makes no sense."""


def dump_status(status: SliceJobStatus) -> dict[str, Any]:
    """The status as JSON; empty for one that was never written, so that the first write says everything."""
    if status == SliceJobStatus():
        return {}
    return status.model_dump(mode="json", by_alias=True, exclude_none=True)


def _key(job: Job) -> Key:
    return job.namespace, job.name


def _shown(job: Job) -> str:
    return f"{job.namespace}/{job.name}"

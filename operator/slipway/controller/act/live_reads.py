"""Reads objects from the API server where a decision needs them fresher than the watches, or nothing watches them."""

import logging
from collections.abc import Awaitable, Callable, Collection
from datetime import datetime
from functools import partial

import msgspec

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import Forbidden, NotFound, SlipwayClusterError
from slipway.controller.act.events import read_pod_events
from slipway.controller.act.executor import BoundedExecutor
from slipway.controller.act.workloads import WorkloadWriter
from slipway.controller.observability.log_fields import log_fields
from slipway.controller.seen.cache import Cache
from slipway.controller.seen.visitors import Visitor, visitors
from slipway.core.model.job import Job
from slipway.core.model.nodes import Node
from slipway.core.model.pods import Pod
from slipway.core.model.tenants import Visitors
from slipway.core.planner.contract.actions import Refresh

log = logging.getLogger(__name__)


class _LeaseSpec(msgspec.Struct, rename="camel"):
    renew_time: datetime | None = None
    lease_duration_seconds: int | None = None


class _KubeletLease(msgspec.Struct):
    spec: _LeaseSpec


class Looks:
    """Answers go into the cache, with the moment at which they were asked for."""

    def __init__(
        self,
        api: ApiConnection,
        cache: Cache,
        workloads: WorkloadWriter,
        executor: BoundedExecutor,
        now: Callable[[], datetime],
    ) -> None:
        """`now` is the wall clock in UTC."""
        self._api = api
        self._cache = cache
        self._workloads = workloads
        self._executor = executor
        self._now = now

    async def refresh(self, action: Refresh, job: Job) -> None:
        """Read all that an action names.

        Raises:
            SlipwayClusterError: when the API server does not answer.
        """
        at = self._now()
        reads: list[Callable[[], Awaitable[None]]] = []
        bound = self._cache.pods.bound_to(action.nodes, job.key)
        reads += [partial(self._node, name, bound[name], at) for name in action.nodes]
        reads += [partial(self._kubelet, name, job, at) for name in action.kubelets]
        reads += [partial(self._visitors, name, job, at) for name in action.visitors]
        reads += [partial(self._events, uid, job, at) for uid in action.events]
        reads += [partial(self._pods, job, at)] if action.pods else []
        reads += [partial(self._workloads.read, job, at)] if action.workload else []
        await self._executor.run(reads, lambda read: read())

    async def _node(self, name: str, pods: Collection[str], at: datetime) -> None:
        nodes = self._cache.nodes
        uid = nodes.uid_of(name)
        try:
            nodes.found(await self._api.get(paths.node(name), Node))
        except NotFound:
            if not nodes.denied(name, uid, pods):
                # The answer is of a node that another has replaced; of that one the next look tells.
                return
        self._cache.node_read(name, at)

    async def _kubelet(self, name: str, job: Job, at: datetime) -> None:
        try:
            lease = (await self._api.get(paths.kubelet_lease(name), _KubeletLease)).spec
            self._cache.kubelet_read(name, at, lease.renew_time, lease.lease_duration_seconds)
        except NotFound:
            self._cache.kubelet_read(name, at, None)
        except Forbidden as error:
            log.warning("no proof that node %s is dead: %s", name, error, extra=log_fields(job))
            self._cache.kubelet_read(name, at, None, forbidden=True)

    async def _visitors(self, name: str, job: Job, at: datetime) -> None:
        try:
            listing = await self._api.list(paths.pods(), Visitor, field_selector=f"spec.nodeName={name}")
            self._cache.visitors_read(name, visitors(listing.items, at))
        except SlipwayClusterError as error:
            # Nothing but a sentence in the status depends on it.
            log.info("who is on node %s is not known: %s", name, error, extra=log_fields(job))
            self._cache.visitors_read(name, Visitors(at, unknown=True))

    async def _events(self, uid: str, job: Job, at: datetime) -> None:
        self._cache.events_read(uid, await read_pod_events(self._api, job.namespace, uid, at))

    async def _pods(self, job: Job, at: datetime) -> None:
        # Before its first attempt a job has no pods; an earlier job of its name may have some.
        by_uid, by_name = f"{names.LABEL_JOB_UID}={job.uid}", f"{names.LABEL_JOB_NAME}={job.name}"
        selector = by_uid if job.status.attempt is not None else by_name
        listing = await self._api.list(paths.pods(job.namespace), Pod, label_selector=selector)
        own = [pod for pod in listing.items if pod.metadata.labels.job_uid == job.uid]
        for pod in listing.items:
            if pod.metadata.labels.job_uid != job.uid:
                self._cache.pods.applied(pod)
        self._cache.pods_listed(job, own, listing.resource_version, at)

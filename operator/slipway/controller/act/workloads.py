"""Writes Kueue's Workloads as the planner decides. The cache gets the API server's answer at once."""

import logging
from datetime import datetime

from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import AlreadyExists, Conflict, NotFound
from slipway.controller.act.owned_objects import NameTaken
from slipway.controller.observability.log_fields import log_fields
from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Job, Key
from slipway.core.model.workload import Workload, job_of_workload, workload_name
from slipway.core.planner.contract.actions import CreateWorkload, DeleteWorkload, PatchWorkload
from slipway.core.planner.queue.kueue.admission import of_no_job
from slipway.core.vocabulary.reasons import NAME_TAKEN

log = logging.getLogger(__name__)


class WorkloadWriter:
    """Creates, patches and deletes Workloads; one that has changed meanwhile is only read again."""

    def __init__(self, api: ApiConnection, cache: Cache) -> None:
        self._api = api
        self._cache = cache
        self._known = cache.kueue.workloads

    async def read(self, job: Job, at: datetime) -> None:
        """Read the Workload of a job, which the watch may not have shown."""
        await self._read_again(self._cache.kueue.version, job.namespace, workload_name(job.name))
        self._cache.workload_read(job, at)

    async def release(self, key: Key) -> bool:
        """Let the Workload of a job that is gone go, as soon as no pod of the job may run; returns whether it asked."""
        workload, version = self._known.get(key), self._cache.kueue.version
        if workload is None or not version or workload.metadata.labels.operator_id != self._cache.settings.operator_id:
            return False
        if self._cache.jobs.key_of(workload.metadata.labels.job_uid) is not None:
            # Somebody's copy of the Workload of a job that exists.
            return False
        actions = of_no_job(version, workload, self._cache.pods.of(key))
        for action in actions:
            await self.change(action, key[0])
        return bool(actions)

    async def create(self, action: CreateWorkload, job: Job) -> None:
        """Create the Workload of a job.

        Raises:
            NameTaken: when a Workload that is not the job's has the name.
        """
        collection, name = paths.workloads(action.version, job.namespace), action.body["metadata"]["name"]
        log.info("asking Kueue for quota by Workload %s", name, extra=log_fields(job))
        try:
            made = await self._api.create(collection, action.body, Workload)
        except AlreadyExists:
            made = await self._api.get(f"{collection}/{name}", Workload)
            if not made.metadata.labels.job_uid:
                words = f"Workload {name} is needed and is somebody else's: delete it, or rename the SliceJob"
                raise NameTaken(NAME_TAKEN, words) from None
        self._known.applied(made)
        self._cache.workload_made(job)

    async def change(self, action: PatchWorkload | DeleteWorkload, namespace: str) -> None:
        """Patch or delete a Workload.

        Raises:
            Conflict, NotFound: when no newer one is known then either, so that the request would fail again at once.
        """
        if isinstance(action, PatchWorkload):
            await self._patch(action, namespace)
        else:
            await self._delete(action, namespace)

    async def _patch(self, action: PatchWorkload, namespace: str) -> None:
        path = f"{paths.workloads(action.version, namespace)}/{action.name}"
        patch = {**action.patch}
        patch["metadata"] = {**patch.get("metadata", {}), "resourceVersion": action.resource_version}
        send = self._api.patch_status if action.status else self._api.patch
        try:
            self._known.applied(await send(path, patch, Workload))
        except (Conflict, NotFound) as refusal:
            workload = await self._read_again(action.version, namespace, action.name)
            if workload is not None and workload.metadata.resource_version == action.resource_version:
                raise refusal

    async def _delete(self, action: DeleteWorkload, namespace: str) -> None:
        path = f"{paths.workloads(action.version, namespace)}/{action.name}"
        try:
            await self._api.delete(path, uid=action.uid)
        except (NotFound, Conflict) as refusal:
            workload = await self._read_again(action.version, namespace, action.name)
            if workload is not None and workload.metadata.uid == action.uid and not workload.deleting:
                raise refusal
            log.info("Workload %s/%s is gone already: %s", namespace, action.name, refusal)
        else:
            await self._read_again(action.version, namespace, action.name)

    async def _read_again(self, version: str, namespace: str, name: str) -> Workload | None:
        """Read a Workload; returns it as it is known then, None when there is none."""
        key = (namespace, job_of_workload(name))
        try:
            self._known.applied(await self._api.get(f"{paths.workloads(version, namespace)}/{name}", Workload))
        except NotFound:
            if (workload := self._known.get(key)) is not None:
                self._known.removed(workload)
        return self._known.get(key)

"""Lists of SliceJobs beside kopf's watch, because that watch may lag and miss changes and deletions."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import NotFound, SlipwayClusterError
from slipway.apiserver.wire import JsonObject
from slipway.controller.seen.cache import Cache
from slipway.core.model.job import Key
from slipway.core.model.parts import ObjectMeta

log = logging.getLogger(__name__)

RESYNC_SECONDS: Final = 600.0
_RESYNC_RETRY_SECONDS: Final = 60.0
BEHIND_SECONDS: Final = 5.0
"""What kopf's watch brings within this time need not be fetched."""
_RELIST_SECONDS: Final = (0.5, 30.0)
"""The first and the longest pause before SliceJobs are listed again that could not be listed."""


class _JobName(msgspec.Struct):
    metadata: ObjectMeta


class JobLists:
    """Reads SliceJobs by lists, and tells what kopf's watch has not."""

    def __init__(
        self,
        api: ApiConnection,
        cache: Cache,
        namespaces: Sequence[str],
        *,
        seen: Callable[[Mapping[str, Any]], None],
        gone: Callable[[Key, str], None],
    ) -> None:
        """`seen` is told of jobs as JSON, `gone` of keys and UIDs of jobs that are no more."""
        self._api = api
        self._cache = cache
        self._namespaces = namespaces
        self._seen = seen
        self._gone = gone

    async def read_all(self) -> None:
        """Read every SliceJob, however often it takes.

        The last leader may have begun an attempt that kopf's watch does not show yet, and a decision on the status
        before it would delete the pods of that attempt.
        """
        pause, longest = _RELIST_SECONDS
        while True:
            try:
                for namespace in self._namespaces:
                    async for page in self._api.pages(paths.jobs(namespace), JsonObject):
                        for body in page.items or ():
                            self._seen(body)
            except SlipwayClusterError as error:
                log.warning("SliceJobs could not be listed, so no job is looked at yet: %s", error)
                await asyncio.sleep(pause)
                pause = min(2 * pause, longest)
            else:
                return

    async def compare(self) -> None:
        """Now and then, list the names of the jobs, and read those that are newer than kopf's watch has shown."""
        while True:
            wait = RESYNC_SECONDS
            try:
                for namespace in self._namespaces:
                    await self._compare(namespace)
            except SlipwayClusterError as error:
                log.warning("SliceJobs could not be listed: %s", error)
                wait = _RESYNC_RETRY_SECONDS
            await asyncio.sleep(wait)

    async def _compare(self, namespace: str) -> None:
        jobs, owners = self._cache.jobs, self._cache.pods.owners()
        listing = await self._api.list(paths.jobs(namespace), _JobName)
        found = (item.metadata for item in listing.items)
        listed = {(metadata.namespace, metadata.name): (metadata.uid, metadata.resource_version) for metadata in found}
        there = {uid for uid, _ in listed.values()}

        def exists(uid: str) -> bool:
            # Anybody can copy a pod or edit its labels: a job that exists is not gone, whatever name is beside its UID.
            key = jobs.key_of(uid)
            return uid in there or (key is not None and namespace not in ("", key[0]))

        gone = set(jobs.missing(listed, listing.resource_version, namespace))
        gone |= {(key, uid) for key, uid in owners if uid and namespace in ("", key[0]) and not exists(uid)}
        for key, uid in gone:
            self._gone(key, uid)
        if jobs.newer(listed):
            await asyncio.sleep(BEHIND_SECONDS)
        for key in jobs.newer(listed):
            with suppress(NotFound):
                self._seen(await self._api.get(paths.job(*key), JsonObject))

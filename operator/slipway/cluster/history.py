"""Keeps the attempts that leave a full `status.attempts`, in pages: ConfigMaps that the job owns.

Attempt 123 is in `<job>-history-1`, as it was in the status. A page is a function of the attempts that were added to
it, so adding one again after a crash changes nothing.
"""

import gzip
import logging
import zlib
from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from slipway.api.status import MAX_ATTEMPTS, Attempt
from slipway.cluster import paths
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import BadRequest, Forbidden, Garbled, Invalid, NotFound
from slipway.cluster.events import EventRecorder
from slipway.cluster.log_fields import log_fields
from slipway.cluster.owned import NameTaken, OwnedMeta, ensure
from slipway.cluster.wire import JsonObject, decode
from slipway.core.manifests.metadata import metadata
from slipway.core.manifests.redact import foreign
from slipway.core.model.job import Job
from slipway.core.planner.contract.actions import EventRecord, KeepHistory

log = logging.getLogger(__name__)

PAGE_SIZE: Final = 100
"""Attempts of one page: with the longest log tails a fifth of what a ConfigMap holds."""
KEY: Final = "attempts.json.gz"
MAX_BYTES: Final = 4 * 1024 * 1024
"""Of a page that is unpacked."""
_GZIP: Final = 31
"""What tells zlib that there is a gzip header."""

Numbered = dict[int, JsonObject]
"""Attempts as they were in the status, by number."""


class Page(msgspec.Struct, rename="camel"):
    """A ConfigMap with attempts."""

    metadata: OwnedMeta
    binary_data: dict[str, bytes] = {}

    @property
    def attempts(self) -> Numbered:
        """What it holds.

        Raises:
            Garbled: when somebody else has written to it.
        """
        if KEY not in self.binary_data:
            return {}
        try:
            # No more than that: users may edit a page, and one that unpacks to gigabytes would end the process.
            content = zlib.decompressobj(wbits=_GZIP).decompress(self.binary_data[KEY], MAX_BYTES)
            return {int(one["number"]): one for one in decode(list[JsonObject], content)}
        except (zlib.error, Garbled, KeyError, TypeError, ValueError) as error:
            raise Garbled(f"binaryData[{KEY}] is no gzipped list of attempts: {error!r}") from error


def pack(attempts: Numbered) -> bytes:
    """Attempts as a page holds them: the same bytes for the same attempts."""
    return gzip.compress(msgspec.json.encode([attempts[number] for number in sorted(attempts)]), mtime=0)


def page_name(job: str, page: int) -> str:
    """Name of the ConfigMap."""
    return f"{job}-history-{page}"


async def read(api: ApiConnection, namespace: str, job: str) -> list[JsonObject]:
    """Every attempt of a job but those that only waited, oldest first: those in its pages and those in its status.

    Raises:
        NotFound: when there is no such job.
        Garbled: when a page cannot be read.
    """
    # The status first: what leaves it from now on is seen here, what has left it is in a page.
    found = await api.get(paths.job(namespace, job), JsonObject)
    status, known = found.get("status", {}), Numbered()
    for number in range(status.get("attempt", -1) // PAGE_SIZE + 1):
        page = await _read_page(api, namespace, page_name(job, number), found["metadata"]["uid"])
        known |= page.attempts if page is not None else {}
    known |= {one["number"]: one for one in status.get("attempts", ())}
    return [known[number] for number in sorted(known)]


async def _read_page(api: ApiConnection, namespace: str, name: str, uid: str) -> Page | None:
    """The page, if there is one of the job of that UID."""
    try:
        page = await api.get(f"{paths.config_maps(namespace)}/{name}", Page)
    except NotFound:
        return None
    return page if page.metadata.of(uid) else None


class History:
    """Adds attempts to the pages of jobs."""

    def __init__(self, api: ApiConnection, recorder: EventRecorder) -> None:
        self._api = api
        self._recorder = recorder

    async def keep(self, action: KeepHistory, job: Job) -> None:
        """Add attempts to their pages. What the API server refuses to keep is told of, and given up: the job goes on.

        Raises:
            SlipwayClusterError: something else went wrong, a conflict for example; trying again is safe.
        """
        pages: dict[int, Numbered] = {}
        for number, one in _as_stored(action.attempts, job).items():
            pages.setdefault(number // PAGE_SIZE, {})[number] = one
        for page, attempts in pages.items():
            name = page_name(job.name, page)
            try:
                await self._add(name, attempts, job)
            except (NameTaken, BadRequest, Forbidden, Invalid, Garbled) as refusal:
                self._give_up(name, attempts, job, refusal)

    async def _add(self, name: str, attempts: Numbered, job: Job) -> None:
        path = f"{paths.config_maps(job.namespace)}/{name}"
        page = await _read_page(self._api, job.namespace, name, job.uid)
        if page is None:
            about = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(job, name, {})}
            await ensure(self._api, about | {"binaryData": {KEY: pack(attempts)}}, job)
            # It may have been made meanwhile, with other attempts: by a request whose answer was lost, say.
            page = await self._api.get(path, Page)
        if (merged := page.attempts | attempts) != page.attempts:
            version = {"resourceVersion": page.metadata.resource_version}
            await self._api.patch(path, {"metadata": version, "binaryData": {KEY: pack(merged)}}, msgspec.Raw)

    def _give_up(self, name: str, attempts: Iterable[int], job: Job, refusal: Exception) -> None:
        numbers = ", ".join(map(str, sorted(attempts)))
        message = (
            f"the history lacks attempt {numbers}: status.attempts holds the newest {MAX_ATTEMPTS} only, "
            f"and it cannot be added to ConfigMap {name}: {foreign(str(refusal), job.site.hiding(job.spec))}"
        )
        log.warning("%s", message, extra=log_fields(job))
        self._recorder.record(job, EventRecord("HistoryIncomplete", message, warning=True))


def _as_stored(attempts: Iterable[Attempt], job: Job) -> Numbered:
    """The attempts as they are in the status, with what only another version can read of them."""
    entries = (one for one in job.stored_status.get("attempts", ()) if isinstance(one, Mapping))
    stored = {one.get("number"): dict(one) for one in entries}
    return {
        one.number: stored.get(one.number) or one.model_dump(mode="json", by_alias=True, exclude_none=True)
        for one in attempts
    }

"""Keeps the attempts that leave a full `status.attempts`, in pages: ConfigMaps that the job owns.

Attempt 123 is in `<job>-history-1`, as it was in the status. A page is a function of the attempts that were added to
it, so adding one again after a crash changes nothing.
"""

import gzip
import logging
from collections.abc import Iterable, Mapping

import msgspec

from slipway.api.status import MAX_ATTEMPTS, Attempt
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import BadRequest, Forbidden, Garbled, Invalid
from slipway.apiserver.history_pages import KEY, PAGE_SIZE, Numbered, Page, page_name, read_page
from slipway.controller.act.events import EventRecorder
from slipway.controller.act.owned_objects import NameTaken, ensure
from slipway.controller.observability.log_fields import log_fields
from slipway.core.manifests.metadata import metadata
from slipway.core.manifests.redact import foreign
from slipway.core.model.job import Job
from slipway.core.planner.contract.actions import EventRecord, KeepHistory

log = logging.getLogger(__name__)


def pack(attempts: Numbered) -> bytes:
    """Attempts as a page holds them: the same bytes for the same attempts."""
    return gzip.compress(msgspec.json.encode([attempts[number] for number in sorted(attempts)]), mtime=0)


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
        page = await read_page(self._api, job.namespace, name, job.uid)
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
    entries = (attempt for attempt in job.stored_status.get("attempts", ()) if isinstance(attempt, Mapping))
    stored = {entry.get("number"): dict(entry) for entry in entries}
    return {
        attempt.number: stored.get(attempt.number) or attempt.model_dump(mode="json", by_alias=True, exclude_none=True)
        for attempt in attempts
    }

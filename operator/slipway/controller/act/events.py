"""Writes Events, and delays no decision for one.

An Event's name is a hash of what it says about which attempt, so telling twice tells once. Whatever cannot be
recorded is logged and dropped: the story is in the status anyway.

They are Events of v1 and not of events.k8s.io/v1: `kubectl describe` sorts by lastTimestamp, which the latter refuses.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import AlreadyExists, SlipwayClusterError
from slipway.controller.observability.log_fields import log_fields
from slipway.core.model.events import PodEvent, PodEvents, SeenEvent
from slipway.core.model.job import Job
from slipway.core.planner.contract.actions import EventRecord
from slipway.core.planner.contract.freshness import EVER

log = logging.getLogger(__name__)

MAX_WAITING: Final = 1000
HEAD_START_SECONDS: Final = 0.1
"""What an Event tells of goes on first: its writing would delay the first deletion of an attempt that has failed."""
BURST: Final = 20
REFILL_SECONDS: Final = 6.0
"""Seconds until a job that has used up its burst may record one more Event."""
MAX_NOTE_BYTES: Final = 1000

MAX_READ: Final = 20
"""Events of a pod that are remembered."""
_MAX_BUCKETS: Final = 4096


async def read_pod_events(api: ApiConnection, namespace: str, pod_uid: str, at: datetime) -> PodEvents:
    """The newest Events of a pod; none where they may not be read."""
    try:
        listing = await api.list(paths.events(namespace), SeenEvent, field_selector=f"involvedObject.uid={pod_uid}")
    except SlipwayClusterError as error:
        # Nothing but a sentence in the status depends on them.
        log.info("Events of pod %s are not known: %s", pod_uid, error)
        return PodEvents(at)
    dated = sorted(listing.items, key=lambda event: event.time or EVER)[-MAX_READ:]
    return PodEvents(at, tuple(PodEvent(event.reason, event.message or "", event.time) for event in dated))


class EventRecorder:
    """Records what a plan announces."""

    def __init__(
        self, api: ApiConnection, identity: str, *, now: Callable[[], datetime], clock: Callable[[], float]
    ) -> None:
        """`now` dates the Events; `clock` is monotonic, in seconds."""
        self._api = api
        self._identity = identity
        self._now = now
        self._clock = clock
        self._waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue(MAX_WAITING)
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def record(self, job: Job, announcement: EventRecord) -> None:
        """Have an Event written soon; returns at once. How a job ended is told, however much was told before."""
        if not job.status.final and not self._allowed(job.uid):
            log.info("Event %s is dropped: too many", announcement.reason, extra=log_fields(job))
            return
        if self._waiting.full():
            # The oldest: after a takeover those come first that the last leader has probably recorded.
            oldest = self._waiting.get_nowait()
            self._waiting.task_done()
            log.warning("Event %s is dropped: %d others wait", oldest["reason"], MAX_WAITING)
        self._waiting.put_nowait(self._body(job, announcement))

    async def run(self) -> None:
        """Write what is recorded, for ever."""
        while True:
            rested = self._waiting.empty()
            body = await self._waiting.get()
            try:
                if rested:
                    await asyncio.sleep(HEAD_START_SECONDS)
                await self._api.create(paths.events(body["metadata"]["namespace"]), body, msgspec.Raw)
            except AlreadyExists:
                pass
            except SlipwayClusterError as error:
                log.warning("Event %s was not recorded: %s", body["reason"], error)
            finally:
                self._waiting.task_done()

    async def flush(self) -> None:
        """Wait until everything recorded so far was written or given up."""
        await self._waiting.join()

    def _allowed(self, uid: str) -> bool:
        now = self._clock()
        tokens, at = self._buckets.pop(uid, (float(BURST), now))
        tokens = min(float(BURST), tokens + (now - at) / REFILL_SECONDS)
        allowed = tokens >= 1.0
        self._buckets[uid] = (tokens - 1.0 if allowed else tokens, now)
        if len(self._buckets) > _MAX_BUCKETS:
            self._buckets.popitem(last=False)
        return allowed

    def _body(self, job: Job, announcement: EventRecord) -> dict[str, Any]:
        now, component = self._now(), f"{names.GROUP}/operator"
        second = now.strftime("%Y-%m-%dT%H:%M:%SZ")
        said = "\0".join((job.uid, str(job.status.attempt), announcement.reason, announcement.message))
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{job.name}.{hashlib.sha256(said.encode()).hexdigest()[:16]}",
                "namespace": job.namespace,
            },
            "eventTime": now.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "firstTimestamp": second,
            "lastTimestamp": second,
            "count": 1,
            "source": {"component": component},
            "reportingComponent": component,
            "reportingInstance": self._identity[:128],
            "action": "Reconcile",
            "reason": announcement.reason[:128],
            "type": "Warning" if announcement.warning else "Normal",
            "message": announcement.message.encode()[:MAX_NOTE_BYTES].decode(errors="ignore"),
            "involvedObject": {
                "apiVersion": names.API_VERSION,
                "kind": names.KIND,
                "namespace": job.namespace,
                "name": job.name,
                "uid": job.uid,
                "resourceVersion": job.resource_version,
            },
        }

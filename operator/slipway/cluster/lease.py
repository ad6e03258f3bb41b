"""Leadership by a Lease: one process acts, another may stand by.

Expected flow:
1. Whoever finds the Lease free, released or expired writes itself in; the resource version lets one of them win.
2. The holder renews every 2 s. When 10 s have passed since the last renewal it heard of, `check` raises: it writes
   nothing more, and its process ends.
3. 15 s after that renewal another may take over. The 5 s between are longer than any write of ours may take.
4. A holder that stops of its own accord empties the Lease, and the next one starts at once.

Times of other processes are never compared with our clock: a Lease has expired when it did not change for its
duration while we watched. Our own deadline runs on a monotonic clock from before the renewal was sent.
"""

import asyncio
import logging
from collections.abc import Callable
from datetime import datetime
from typing import Any, Final

import msgspec

from slipway.cluster import paths
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import AlreadyExists, Conflict, NotFound, SlipwayClusterError

log = logging.getLogger(__name__)

DURATION_SECONDS: Final = 15
DEADLINE_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 2.0
_REQUEST_SECONDS: Final = 3.0


class LostLeadership(Exception):
    """Another process may be the leader by now: stop."""


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None


class _Record(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


class Lease:
    """Our claim on a Lease."""

    def __init__(
        self,
        api: ApiConnection,
        namespace: str,
        name: str,
        identity: str,
        *,
        now: Callable[[], datetime],
        clock: Callable[[], float],
        retry_seconds: float = RETRY_SECONDS,
    ) -> None:
        """`now` only fills in fields for people; `clock` is monotonic, in seconds; `identity` is unique per process."""
        self._api = api
        self._collection = paths.leases(namespace)
        self._namespace, self._name, self._identity = namespace, name, identity
        self._now = now
        self._clock = clock
        self._retry = retry_seconds
        self._seen: tuple[str, float] = ("", clock())
        self._renewed: float | None = None
        self._held: _Record | None = None

    @property
    def held(self) -> bool:
        """Whether we lead and may still write."""
        return self._renewed is not None and self._clock() < self._renewed + DEADLINE_SECONDS

    def check(self) -> None:
        """Return while we lead.

        Raises:
            LostLeadership: when the last renewal is too long ago, or there was none.
        """
        if not self.held:
            raise LostLeadership(f"{self._identity} does not hold Lease {self._namespace}/{self._name}")

    async def acquire(self) -> None:
        """Wait until we lead."""
        waiting = ""
        while True:
            try:
                holder = await self._try()
            except SlipwayClusterError as error:
                holder = f"an API server that answers: {error}"
            if holder is None:
                log.info("%s leads by Lease %s/%s", self._identity, self._namespace, self._name)
                return
            if holder != waiting:
                log.info("standing by for %s", holder)
                waiting = holder
            await asyncio.sleep(self._retry)

    async def keep(self) -> None:
        """Renew until leadership is lost.

        Raises:
            LostLeadership: when another has it, or no renewal came through in time.
        """
        while True:
            await asyncio.sleep(self._retry)
            try:
                holder = await self._try()
            except SlipwayClusterError as error:
                log.warning("Lease %s/%s was not renewed: %s", self._namespace, self._name, error)
            else:
                if holder is not None:
                    self._renewed = None
                    raise LostLeadership(f"{holder} has Lease {self._namespace}/{self._name} now")
            self.check()

    async def release(self) -> None:
        """Let the next leader start at once; a failure only makes it wait for the Lease to expire."""
        record, self._held, self._renewed = self._held, None, None
        if record is None:
            return
        spec = _Spec("", 1, record.spec.lease_transitions, record.spec.acquire_time, self._micro_time())
        try:
            await self._write(record.metadata.resource_version, spec)
        except SlipwayClusterError as error:
            log.warning("Lease %s/%s was not released: %s", self._namespace, self._name, error)

    async def _try(self) -> str | None:
        """Take or renew the Lease; returns who has it when that is not us."""
        began = self._clock()
        try:
            record = await self._api.get(f"{self._collection}/{self._name}", _Record)
        except NotFound:
            record = None
        if record is not None and (holder := self._other_holder(record)):
            return holder
        try:
            self._held = await self._claim(record)
        except (Conflict, AlreadyExists):
            # Perhaps a first try of our own whose answer was lost: the next look at the Lease tells.
            return None if self.held else "whoever was faster"
        self._renewed = began
        return None

    def _other_holder(self, record: _Record) -> str | None:
        holder = record.spec.holder_identity
        if not holder or holder == self._identity:
            return None
        if record.metadata.resource_version != self._seen[0]:
            self._seen = (record.metadata.resource_version, self._clock())
        expires = self._seen[1] + (record.spec.lease_duration_seconds or DURATION_SECONDS)
        return holder if self._clock() < expires else None

    async def _claim(self, record: _Record | None) -> _Record:
        now = self._micro_time()
        old = record.spec if record else _Spec()
        renewal = old.holder_identity == self._identity
        transitions = (old.lease_transitions or 0) + (0 if renewal or record is None else 1)
        spec = _Spec(self._identity, DURATION_SECONDS, transitions, old.acquire_time if renewal else now, now)
        return await self._write(record.metadata.resource_version if record else None, spec)

    async def _write(self, version: str | None, spec: _Spec) -> _Record:
        metadata = {"name": self._name, "namespace": self._namespace}
        body: dict[str, Any] = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        body["spec"] = {name: value for name, value in msgspec.to_builtins(spec).items() if value is not None}
        if version is None:
            return await self._api.create(self._collection, body, _Record, seconds=_REQUEST_SECONDS, guarded=False)
        metadata["resourceVersion"] = version
        path = f"{self._collection}/{self._name}"
        return await self._api.replace(path, body, _Record, seconds=_REQUEST_SECONDS, guarded=False)

    def _micro_time(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

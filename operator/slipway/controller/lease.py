"""Leadership by a Lease: one process acts, others stand by.

Expected flow, with the times of `LeaseTimes`:
1. A process that finds the Lease free, released or expired writes itself in; the resource version lets one win.
2. The leader renews every `retry` seconds, by one PUT with the version it knows; it reads only after a conflict.
3. `deadline` seconds after it sent the last renewal that was answered, `check` raises: the process writes nothing more,
   and ends. Until then `check` returns the seconds that are left, and no write may take longer.
4. The leader writes its `duration` into the Lease. A standby takes the Lease when it has not seen it change for that
   long. A Lease that somebody has deleted has changed, too: its holder writes until it wants to renew it, and then
   makes another.
5. A leader that stops of its own accord empties the Lease, and the next one starts when it looks at it.

Why there are never two writers: let the leader send a renewal at t0. The API server stores it at t1 >= t0, a standby
reads it at t2 >= t1. The leader's last write has ended by t0 + deadline, the standby's first begins after
t2 + duration. Both times are the leader's, whatever the standby's own are: it reads the duration in the Lease, and
remembers it for a Lease that is deleted. What is between them is for the API server to notice a broken connection, and
for clocks that do not run equally fast: a second at least, and a tenth of the duration. Every clock is monotonic, and
compared with itself alone.

There is one exception. A process that has not seen the Lease of its present holder, and finds none, does not know of
that holder: at a first install it takes the Lease at once. If somebody has deleted it just before, its holder may write
until its next renewal, at most `retry` later, or, where the API server does not answer it, until its deadline. To wait
for that would delay every first install. A status is written with its resource version, and objects are created by
deterministic names, so that of two such writes one is refused.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import AlreadyExists, Conflict, ConnectionLost, NotFound, SlipwayClusterError

log = logging.getLogger(__name__)

LEAST_SLACK: Final = 1.0
"""Seconds between the leader's deadline and the end of the Lease, in which a broken connection is noticed."""
LARGEST_SHARE: Final = 0.9
"""Of the duration, for the deadline: the clocks of two machines differ by less than the rest."""
TRIES: Final = 3
"""Into so many parts `retry` divides the deadline at least: two renewals are sent well before it."""
LONGEST_RETRY_SECONDS: Final = 10.0
"""However long the Lease: a standby notices within so long that it was released, and a holder that it was deleted."""
REQUESTS: Final = 2.4
"""So many requests without an answer fit between a renewal and the deadline: after two that hang, a third begins."""
LONGEST_REQUEST_SECONDS: Final = 10.0
"""A connection that is dead is not waited for any longer, however long the Lease."""


@dataclass(frozen=True, slots=True)
class LeaseTimes:
    """How long a Lease holds, in seconds.

    After the leader's sudden death a standby reads the last renewal at most `retry` later, and leads `duration` after
    that. A leader survives an API server that does not answer for `deadline` less twice `retry`.
    """

    duration: int
    """Without a renewal for so long, another process takes the Lease."""
    deadline: float
    """Without a renewal for so long, the leader writes nothing more, and ends."""
    retry: float
    """Between two renewals, and between two looks of a standby."""

    def __post_init__(self) -> None:
        """Refuse times with which two processes might write, or a leader would not survive one late answer.

        Raises:
            ValueError: names the two times that do not go together, and what is allowed.
        """
        longest = min(self.duration - LEAST_SLACK, LARGEST_SHARE * self.duration)
        if self.deadline > longest:
            raise ValueError(
                f"a renew deadline of {self.deadline:g} s is too long for a Lease duration of {self.duration} s: "
                f"at most {longest:g} s, which leaves a second, and a tenth of the duration, until another may lead"
            )
        if self.retry > (most := min(self.deadline / TRIES, LONGEST_RETRY_SECONDS)):
            raise ValueError(
                f"a retry period of {self.retry:g} s is too long for a renew deadline of {self.deadline:g} s: at most "
                f"{most:.4g} s, so that one answer may be lost, and a Lease that is free is seen soon"
            )

    @property
    def request(self) -> float:
        """A request without an answer is given up after this."""
        return min((self.deadline - self.retry) / REQUESTS, LONGEST_REQUEST_SECONDS)


DEFAULT_TIMES: Final = LeaseTimes(duration=8, deadline=7.0, retry=1.0)


class LostLeadership(Exception):
    """Another process may be the leader by now: stop."""


class _Meta(msgspec.Struct, rename="camel"):
    resource_version: str
    annotations: dict[str, str] = {}


class _Spec(msgspec.Struct, rename="camel"):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    lease_transitions: int | None = None
    acquire_time: str | None = None
    renew_time: str | None = None


class _Record(msgspec.Struct):
    metadata: _Meta
    spec: _Spec = msgspec.field(default_factory=_Spec)


def _served(annotations: dict[str, str]) -> str:
    """The namespaces that a Lease's annotations name, whatever their order."""
    return ", ".join(sorted(filter(None, annotations.get(names.SERVED_NAMESPACES, "").split(",")))) or "all namespaces"


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
        served: Sequence[str] = (),
        times: LeaseTimes = DEFAULT_TIMES,
    ) -> None:
        """Make no claim yet.

        Args:
            api: a connection without a guard that nothing else uses, so that no request of others delays a renewal.
            namespace: namespace of the Lease.
            name: name of the Lease.
            identity: unique per process.
            now: wall clock, for fields that people read.
            clock: monotonic, in seconds.
            served: the namespaces that this process serves, which clients read off the Lease; empty for all.
            times: this process's own; a holder's are read in the Lease.
        """
        self._api = api
        self._collection = paths.leases(namespace)
        self._namespace, self._name, self._identity = namespace, name, identity
        self._now = now
        self._clock = clock
        self._annotations = {names.SERVED_NAMESPACES: ",".join(served)} if served else {}
        self._others: dict[str, str] = self._annotations
        self.times: Final = times
        self._seen: tuple[str, float] = ("", clock())
        self._others_duration = times.duration
        self._expires = clock()
        self._renewed: float | None = None
        self._held: _Record | None = None
        self._answered = False

    @property
    def held(self) -> bool:
        """Whether we lead and may still write."""
        return self._left() > 0.0

    @property
    def age(self) -> float | None:
        """Seconds since the last renewal that was answered was sent; None while another process may lead."""
        return self._clock() - self._renewed if self._renewed is not None and self.held else None

    def awaited(self) -> str:
        """The Lease, as long as this process has neither taken it nor seen who has; empty from then on."""
        return "" if self._answered else self._which

    @property
    def _which(self) -> str:
        return f"Lease {self._namespace}/{self._name}"

    def check(self) -> float:
        """Seconds for which we lead for certain: a write that begins now must have ended by then.

        Raises:
            LostLeadership: when the last renewal is too long ago, or there was none.
        """
        left = self._left()
        if left <= 0.0:
            raise LostLeadership(f"{self._identity} does not hold {self._which}")
        return left

    async def acquire(self) -> None:
        """Wait until we lead."""
        said = ""
        while True:
            level, words = logging.INFO, ""
            try:
                if (holder := await self._try()) is not None:
                    difference = self._difference()
                    level = logging.WARNING if difference else logging.INFO
                    words = f"standing by for {holder}{difference}"
                self._answered = True
            except SlipwayClusterError as error:
                level, words = logging.WARNING, f"{self._which} cannot be taken: {error}"
            if not words and self.held:
                log.info("%s leads by %s", self._identity, self._which)
                return
            if words and words != said:
                log.log(level, "%s", words)
                said = words
            # Not a whole pause later than the Lease expires.
            expires_in = self._expires - self._clock()
            await asyncio.sleep(min(self.times.retry, expires_in) if expires_in > 0.0 else self.times.retry)

    def _difference(self) -> str:
        """What to say of a holder that serves other namespaces; it may be of another release, which never makes way."""
        ours, theirs = _served(self._annotations), _served(self._others)
        if ours == theirs:
            return ""
        return (
            f", which holds {self._which} and serves {theirs}, where this process is to serve {ours}: unless an "
            "upgrade replaces that one, install one of the two releases in another namespace, or give it an operatorId"
        )

    async def keep(self) -> None:
        """Renew until leadership is lost.

        Raises:
            LostLeadership: when another has it, or no renewal came through in time.
        """
        spent = 0.0
        while True:
            # A request that hung has used up the pause before the next one.
            await asyncio.sleep(max(0.0, self.times.retry - spent))
            began = self._clock()
            try:
                holder = await self._try()
            except SlipwayClusterError as error:
                log.warning("%s was not renewed: %s", self._which, error)
                spent = self._clock() - began
            else:
                spent = 0.0
                if holder is not None:
                    self._held = self._renewed = None
                    raise LostLeadership(f"{holder} has {self._which} now")
            self.check()

    async def release(self) -> None:
        """Let the next leader start at once; a failure only makes it wait for the Lease to expire."""
        record, self._held, self._renewed = self._held, None, None
        try:
            if record is not None:
                await self._empty(record)
        except SlipwayClusterError as error:
            log.warning("%s was not released: %s", self._which, error)

    async def _empty(self, record: _Record) -> None:
        spec = _Spec("", 1, record.spec.lease_transitions, record.spec.acquire_time, self._micro_time())
        try:
            await self._write(record.metadata.resource_version, spec)
        except Conflict:
            # A renewal whose answer did not arrive any more.
            record = await self._read()
            if record.spec.holder_identity == self._identity:
                await self._write(record.metadata.resource_version, spec)

    async def _try(self) -> str | None:
        """Take or renew the Lease; returns who has it when that is not us."""
        if self._held is not None:
            with suppress(Conflict, NotFound):
                await self._claim(self._held)
                return None
        try:
            record: _Record | None = await self._read()
        except NotFound:
            record = None
        if holder := self._other_holder(record) if record is not None else self._deleted_holder():
            return holder
        try:
            await self._claim(record)
        except (Conflict, AlreadyExists, NotFound):
            return None if self.held else await self._faster()
        return None

    async def _faster(self) -> str:
        """Who was faster; how long it holds the Lease is known even if somebody deletes it before the next look."""
        holder = None
        with suppress(NotFound):
            holder = self._other_holder(await self._read())
        # Perhaps it was a first try of our own whose answer was lost: the next look at the Lease tells.
        return holder or "a process that was faster"

    def _left(self) -> float:
        return 0.0 if self._renewed is None else self._renewed + self.times.deadline - self._clock()

    def _other_holder(self, record: _Record) -> str | None:
        holder = record.spec.holder_identity
        if not holder or holder == self._identity:
            return None
        if record.metadata.resource_version != self._seen[0]:
            self._seen = (record.metadata.resource_version, self._clock())
        self._others = record.metadata.annotations
        self._others_duration = record.spec.lease_duration_seconds or self.times.duration
        self._expires = self._seen[1] + self._others_duration
        return holder if self._clock() < self._expires else None

    def _deleted_holder(self) -> str | None:
        """The holder of a Lease that somebody deleted, for as long as that process may still write; None after that."""
        if self.held:
            return None
        if self._seen[0]:
            self._seen = ("", self._clock())
            self._expires = self._clock() + max(self._others_duration, self.times.duration)
        return "the holder of a Lease that was deleted" if self._clock() < self._expires else None

    async def _claim(self, record: _Record | None) -> None:
        began, now = self._clock(), self._micro_time()
        old = record.spec if record else _Spec()
        renewal = old.holder_identity == self._identity
        transitions = (old.lease_transitions or 0) + (0 if renewal or record is None else 1)
        spec = _Spec(self._identity, self.times.duration, transitions, old.acquire_time if renewal else now, now)
        self._held = await self._write(record.metadata.resource_version if record else None, spec)
        self._renewed = began

    async def _read(self) -> _Record:
        return await self._soon(self._api.get(f"{self._collection}/{self._name}", _Record))

    async def _write(self, version: str | None, spec: _Spec) -> _Record:
        metadata: dict[str, Any] = {"name": self._name, "namespace": self._namespace}
        metadata["annotations"] = self._annotations
        body: dict[str, Any] = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": metadata}
        body["spec"] = {name: value for name, value in msgspec.to_builtins(spec).items() if value is not None}
        if version is None:
            return await self._soon(self._api.create(self._collection, body, _Record))
        metadata["resourceVersion"] = version
        return await self._soon(self._api.replace(f"{self._collection}/{self._name}", body, _Record))

    async def _soon(self, answer: Awaitable[_Record]) -> _Record:
        """The answer, if it comes before it is of no use any more."""
        seconds = min(self.times.request, self._left()) if self.held else self.times.request
        try:
            async with asyncio.timeout(seconds):
                return await answer
        except TimeoutError:
            raise ConnectionLost(f"no answer within {seconds:.1f} s") from None

    def _micro_time(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

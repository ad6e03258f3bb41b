"""Processes that compete for one Lease, each with times, a clock and a way to the API server of its own."""

import asyncio
import json
import random
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final, cast

import msgspec

from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import AlreadyExists, ApiError, Conflict, NotFound
from slipway.controller.lease import LONGEST_RETRY_SECONDS, Lease, LeaseTimes, LostLeadership
from tests.simulation.loop import ProcessLoop
from tests.simulation.timeline import Timeline

PROCESSES: Final = 3
SECONDS: Final = 900.0
"""How long a history lasts."""
DRIFT: Final = 0.005
"""A clock runs so much faster or slower than the true one at most, and twice as much than another."""
SLACK: Final = 0.9
"""Seconds between the last write of one process and the first of the next, for the API server."""
LONGEST: Final = 60
"""Seconds that a Lease lasts at most here."""

Json = dict[str, Any]


class TwoLead(Exception):
    """Another process leads while the one before may still write."""


class Server:
    """The API server, which has at most this one Lease."""

    def __init__(self, timeline: Timeline) -> None:
        self.stored: Json | None = None
        self.silent_until = 0.0
        self._timeline = timeline
        self._version = 0

    def get(self) -> Json:
        if self.stored is None:
            raise NotFound(404, "NotFound", "no Lease")
        return self.stored

    def create(self, body: Json) -> Json:
        if self.stored is not None:
            raise AlreadyExists(409, "AlreadyExists", "there is a Lease")
        body["metadata"]["uid"] = f"made as version {self._version + 1}"
        return self._store(body)

    def replace(self, body: Json) -> Json:
        about = self.get()["metadata"]
        if about["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict", "another version")
        body["metadata"]["uid"] = about["uid"]
        return self._store(body)

    def _store(self, body: Json) -> Json:
        self._version += 1
        stored: Json = json.loads(json.dumps(body))
        stored["metadata"]["resourceVersion"] = str(self._version)
        self.stored = stored
        return stored


class Way:
    """The verbs of one process. A request that its sender gave up may still arrive."""

    def __init__(self, server: Server, timeline: Timeline, rng: random.Random) -> None:
        self._server, self._timeline, self._rng = server, timeline, rng
        self.seen = ("", "")
        """The Lease that the newest answer showed, and its holder."""

    async def get(self, path: str, kind: Any) -> Any:
        return await self._asked(self._server.get, kind)

    async def create(self, path: str, body: Json, kind: Any) -> Any:
        return await self._asked(lambda: self._server.create(body), kind)

    async def replace(self, path: str, body: Json, kind: Any) -> Any:
        return await self._asked(lambda: self._server.replace(body), kind)

    async def _asked(self, act: Callable[[], Json], kind: Any) -> Any:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def answered(result: Any) -> None:
            if not answer.done():
                answer.set_result(result)

        def arrive() -> None:
            try:
                result: Any = act()
            except ApiError as error:
                result = error
            self._send(lambda: answered(result))

        self._send(arrive)
        result = await answer
        if isinstance(result, ApiError):
            raise result
        self.seen = _which(result)
        return msgspec.convert(result, kind)

    def _send(self, then: Callable[[], None]) -> None:
        """Let something cross the network, if it does; what meets a silent server waits there."""
        if self._rng.random() < 0.05:
            return
        takes = self._rng.choice((0.01, 0.01, 0.3, 4.0))
        self._timeline.after(max(takes, self._server.silent_until - self._timeline.now), then)


def _which(lease: Json) -> tuple[str, str]:
    return lease["metadata"]["uid"], lease["spec"].get("holderIdentity") or ""


class Claimant:
    """A process from its start to its end."""

    def __init__(self, name: str, times: LeaseTimes, server: Server, timeline: Timeline, rng: random.Random) -> None:
        self.name, self.times = name, times
        self.rate = 1.0 + rng.uniform(-DRIFT, DRIFT)
        self.way = Way(server, timeline, rng)
        self.loop = ProcessLoop(timeline)  # type: ignore[abstract]  # asyncio lists more than a process calls
        self.lease = Lease(
            cast(ApiConnection, self.way),
            "ns",
            "lease",
            name,
            now=lambda: datetime(2026, 1, 1, tzinfo=UTC),
            clock=lambda: timeline.now * self.rate,
            times=times,
        )
        self.ended = False
        self.writes_until = 0.0
        """A write that it has begun may take until then."""
        self.loop.run_inside(self._begin)

    def _begin(self) -> None:
        self._task = self.loop.create_task(self._lead())

    async def _lead(self) -> None:
        try:
            await self.lease.acquire()
            await self.lease.keep()
        except LostLeadership:
            self.ended = True

    def stop(self) -> None:
        """Let it end of its own accord, and give the Lease back."""

        async def leave() -> None:
            self._task.cancel()
            self.writes_until = 0.0
            self.ended = True
            await self.lease.release()

        self.loop.run_inside(lambda: self.loop.create_task(leave()))

    def kill(self) -> None:
        """Let it be gone at once. What it has sent may arrive."""
        self.ended = True
        self.loop.kill()


class History:
    """What happens to some processes within SECONDS, of which no two may write at the same time."""

    def __init__(self, seed: int) -> None:
        self._rng = random.Random(seed)
        self.timeline = Timeline()
        self.server = Server(self.timeline)
        self.processes: list[Claimant] = []
        self.leaders: list[str] = []
        """Those that have led, in their order."""

    def run(self) -> "History":
        """Let it happen.

        Raises:
            TwoLead: when a process leads before the last one can write no more.
        """
        for _ in range(PROCESSES):
            self._start()
        self._next()
        self.timeline.run(SECONDS, self._look)
        return self

    def _start(self) -> None:
        name = f"process-{len(self.processes)}"
        self.processes.append(Claimant(name, some_times(self._rng), self.server, self.timeline, self._rng))

    def _look(self) -> bool:
        for one in self.processes:
            if not one.lease.held or one.ended:
                continue
            if self.leaders[-1:] != [one.name]:
                self._first_write(one)
                self.leaders.append(one.name)
            one.writes_until = self.timeline.now + one.lease.check() / one.rate
        return False

    def _first_write(self, leader: Claimant) -> None:
        now = self.timeline.now
        for other in self.processes:
            if other is not leader and other.writes_until and other.writes_until + SLACK > now:
                words = f"{leader.name} ({leader.times}) leads at {now:.2f} s, and {other.name} ({other.times})"
                raise TwoLead(f"{words} may write until {other.writes_until:.2f} s")

    def _next(self) -> None:
        """Let something befall them after a while, again and again."""
        kinds = (self._silence, self._silence, self._delete, self._kill, self._stop, self._freeze)
        self._rng.choice(kinds)()
        self.timeline.after(self._rng.uniform(1.0, 60.0), self._next)

    def _silence(self) -> None:
        self.server.silent_until = self.timeline.now + self._rng.uniform(1.0, LONGEST)

    def _delete(self) -> None:
        """Delete the Lease, once every process has seen it: one that has not does not know of its holder."""
        alive, stored = [one for one in self.processes if not one.ended], self.server.stored
        if stored is not None and all(one.way.seen == _which(stored) for one in alive):
            self.server.stored = None

    def _kill(self) -> None:
        self._replace(Claimant.kill)

    def _stop(self) -> None:
        self._replace(Claimant.stop)

    def _replace(self, end: Callable[[Claimant], None]) -> None:
        """End a process, and start another in its place; one that meets a deleted Lease would take it at once."""
        if self.server.stored is not None:
            for one in self.processes:
                if one.ended or self._rng.random() < 0.5:
                    continue
                end(one)
            while sum(not one.ended for one in self.processes) < PROCESSES:
                self._start()

    def _freeze(self) -> None:
        alive = [one for one in self.processes if not one.ended]
        if alive:
            loop = self._rng.choice(alive).loop
            loop.freeze()
            self.timeline.after(self._rng.uniform(1.0, LONGEST), loop.thaw)


def some_times(rng: random.Random) -> LeaseTimes:
    """Any that a process takes, the tightest among them."""
    duration = rng.randint(2, LONGEST)
    longest = min(duration - 1, 0.9 * duration)
    deadline = longest if rng.random() < 0.5 else rng.uniform(0.5, longest)
    return LeaseTimes(duration, deadline, rng.uniform(0.1, 1.0) * min(deadline / 3, LONGEST_RETRY_SECONDS))

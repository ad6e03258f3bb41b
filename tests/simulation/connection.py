"""The model's side of Slipway's connection: latency, errors, lost answers, late writes, and watches that lag and break.

Everything above a single request is Slipway's own: its retries, its reading of answers, its guard.
"""

import asyncio
import json
import math
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

from slipway.apiserver import connection, errors
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import ConnectionLost
from slipway.apiserver.paths import GROUPS, NODES, profiles
from slipway.apiserver.writes import Writes
from slipway.core.model.pods import Pod
from tests.simulation import versions
from tests.simulation.grounds import CLOCKS, PROFILES, QUEUES, SIZES, SLOW_LISTS
from tests.simulation.loop import ProcessLoop
from tests.simulation.requests import Server, refuse
from tests.simulation.store import Log, LogEntry, Store
from tests.simulation.timeline import Timeline, second
from tests.simulation.truth import Violation

T = TypeVar("T")

LATEST: Final = 0.98
"""How late a request may still be carried out, as a share of Slipway's own timeout: it breaks the connection then."""
SLOWEST_LIST: Final = 8.0
"""Longest time that a LIST takes on slow ground, in seconds."""
MOST_NODE_READS: Final = 60
"""In a second; each of the few nodes of a history once for each of its jobs is less."""
PROFILES_PATH: Final = profiles()
_LISTED: Final = ("/nodes", "/pods", "/slicejobs")


@dataclass(slots=True)
class Weather:
    """How badly the way to the API server behaves."""

    refuse: float = 0.0
    """Share of requests that are refused (409 excepted: those are real)."""
    lose: float = 0.0
    """Share of requests of which the answer is lost; half of them were carried out."""
    late: float = 0.0
    """Share of writes that are carried out seconds later, while the client waits in vain."""
    crash: float = 0.0
    """Share of requests during which the process dies, before or after they are carried out."""
    lag: float = 0.05
    """Longest delay of a watch event, in seconds."""
    cut: float = 0.0
    """Share of watch events after which the watch breaks; it may then have to list anew."""
    repeat: float = 0.0
    """Share of watch events that come twice."""


@dataclass(slots=True)
class Line:
    """One process's line to the server, and what it has been told."""

    name: str
    loop: ProcessLoop
    weather: Weather
    rng: random.Random
    die: Callable[[], None]
    say: Callable[..., None]
    leads: Callable[[], bool] = lambda: True
    """Whether the process holds the Lease."""
    grounds: frozenset[str] = frozenset()
    newer: bool = False
    """Whether the process is of a version that knows more words than the present one."""
    blind_until: float = 0.0
    """Until then nodes may not be read."""
    node_reads: Counter[int] = field(default_factory=Counter)
    """How many nodes were read by name in each second."""
    told: dict[str, int] = field(default_factory=dict)
    """The newest version of each pod, by UID, that the process has been shown."""
    told_at: dict[str, float] = field(default_factory=dict)
    """When it was shown that version."""


class ModelConnection(ApiConnection):
    """An ApiConnection whose single requests reach the model."""

    def __init__(self, line: Line, server: Server, store: Store, timeline: Timeline) -> None:
        self.guard = lambda: math.inf
        self._writes = Writes()
        self.line = line
        self.on_date = lambda date, asked: None
        self._model = server
        self._store = store
        self._timeline = timeline

    @property
    def server(self) -> str:
        return ""

    async def _once(self, request: "connection._Request") -> bytes:
        no_queues = request.url == GROUPS and QUEUES not in self.line.grounds
        if no_queues or (request.url == PROFILES_PATH and PROFILES not in self.line.grounds):
            # So that a history without queues and profiles is the same as ever.
            return self._carry_out(request)
        return await self._sent(request)

    async def _sent(self, request: "connection._Request") -> bytes:
        line, rng = self.line, self.line.rng
        # An Event that cannot be written is dropped by design, so nothing but a crash stands in its way here.
        weather = Weather(crash=line.weather.crash) if request.url.endswith("/events") else line.weather
        write, asked = request.method != "GET", self._timeline.now
        self._not_too_often(request)
        self._only_as_leader(request)
        await asyncio.sleep(rng.uniform(0.001, 0.02))
        self._in_time(request, asked)
        luck = rng.random()
        if (luck := luck - weather.crash / 2) < 0:
            await self._die()
        if (luck := luck - weather.refuse) < 0:
            raise self._refusal(request)
        if (luck := luck - weather.lose / 2) < 0:
            self._say("is lost", request)
            raise await self._silence(request)
        if write and (luck := luck - weather.late) < 0:
            self._say("is late", request)
            self._carry_out_late(request)
            await asyncio.sleep(request.limits.total or 30.0)
            raise ConnectionLost(f"{request.method} {request.url}: timed out")
        behind = self._model.choose_clock(rng) if CLOCKS in line.grounds else 0.0
        try:
            self._may_read(request.url)
            content = self._carry_out(request, behind)
        except errors.ApiError:
            if luck < weather.lose / 2:
                raise await self._silence(request) from None
            await self._answer(asked, behind)
            raise
        if (luck := luck - weather.crash / 2) < 0:
            await self._die()
        if luck < weather.lose / 2:
            self._say("is carried out, its answer lost", request)
            raise await self._silence(request)
        if SLOW_LISTS in line.grounds and request.url.endswith(_LISTED) and not write:
            await asyncio.sleep(rng.uniform(0.0, SLOWEST_LIST) if rng.random() < 0.5 else 0.0)
        await self._answer(asked, behind)
        self._tell(request, content)
        return content

    def _in_time(self, request: "connection._Request", asked: float) -> None:
        """A client that was frozen gives a write up whose time is over before it has sent it."""
        if request.method != "GET" and self._timeline.now > asked + (request.limits.total or math.inf):
            raise ConnectionLost(f"{request.method} {request.url}: timed out")

    def _may_read(self, path: str) -> None:
        if "/nodes" in path and self._timeline.now < self.line.blind_until:
            raise refuse(403, "Forbidden", "nodes is forbidden: cannot get resource")

    def _not_too_often(self, request: "connection._Request") -> None:
        """A decision that asks for the same node again at once, and again, spins."""
        if request.method != "GET" or f"{NODES}/" not in request.url or SIZES in self.line.grounds:
            return
        present = int(self._timeline.now)
        self.line.node_reads[present] += 1
        if self.line.node_reads[present] > MOST_NODE_READS:
            raise Violation(f"{self.line.name} reads nodes {self.line.node_reads[present]} times in a second")

    def _only_as_leader(self, request: "connection._Request") -> None:
        if request.method != "GET" and not self.line.leads():
            raise Violation(f"{self.line.name} sends {request.method} {request.url} without the Lease")

    async def _answer(self, asked: float, behind: float) -> None:
        date = second(self._timeline.now - behind)
        await asyncio.sleep(self.line.rng.uniform(0.001, 0.02))
        self.on_date(date, asked)

    def _carry_out(self, request: "connection._Request", behind: float = 0.0) -> bytes:
        self._store.behind = behind
        newer = self.line.newer and "/slicejobs" in request.url
        data = versions.sent(request.data) if newer else request.data
        try:
            content = self._model.handle(self.line.name, request.method, request.url, request.query or {}, data)
            return versions.received(content) if newer else content
        finally:
            self._store.behind = 0.0

    def _carry_out_late(self, request: "connection._Request") -> None:
        delay = self.line.rng.uniform(0.0, LATEST * (request.limits.total or 30.0))

        def act() -> None:
            with suppress(errors.ApiError):
                self._carry_out(request)

        self._timeline.after(delay, act)

    async def _die(self) -> None:
        self.line.die()
        await asyncio.get_running_loop().create_future()

    async def _silence(self, request: "connection._Request") -> ConnectionLost:
        """The answer never comes: the client waits as long as it is ready to, or hears at once that the line is cut."""
        seconds = request.limits.total or 30.0
        await asyncio.sleep(seconds if self.line.rng.random() < 0.5 else self.line.rng.uniform(0.0, 0.5))
        return ConnectionLost(f"{request.method} {request.url}: no answer")

    def _say(self, what: str, request: "connection._Request") -> None:
        self.line.say("  %s: %s %s %s", self.line.name, request.method, request.url, what)

    def _refusal(self, request: "connection._Request") -> errors.ApiError:
        code, reason = self.line.rng.choice(
            ((500, "InternalError"), (503, "ServiceUnavailable"), (504, "Timeout"), (429, "TooManyRequests"))
        )
        self._say(f"is refused: {reason}", request)
        return refuse(code, reason, f"the server is not well: {reason}", 1.0 if code == 429 else None)

    def _tell(self, request: "connection._Request", content: bytes) -> None:
        # A list of who is on a node is read for their names and what they hold; no more of them is kept.
        if "/pods" in request.url and "fieldSelector" not in (request.query or {}):
            body = json.loads(content)
            if request.method == "GET" and "items" not in body:
                # `get` knows what it is read for.
                return
            for one in body.get("items", [body]):
                if "uid" in one.get("metadata", {}):
                    self._told(one["metadata"]["uid"], int(one["metadata"]["resourceVersion"]))

    async def get(self, path: str, kind: type[T], *, accept: str = "application/json") -> T:
        """One object; of a pod that is read for its owners alone nothing else is kept."""
        found = await super().get(path, kind, accept=accept)
        if isinstance(found, Pod):
            self._told(found.metadata.uid, int(found.metadata.resource_version))
        return found

    def _told(self, uid: str, version: int) -> None:
        if version > self.line.told.get(uid, 0):
            self.line.told[uid] = version
            self.line.told_at[uid] = self._timeline.now

    async def watch(
        self,
        path: str,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        seconds: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The changes of one resource from a version on: late, sometimes twice, until the watch breaks."""
        self._may_read(path)
        if path == PROFILES_PATH and PROFILES not in self.line.grounds:
            await asyncio.get_running_loop().create_future()
        log = self._store.logs[path.rpartition("/")[2]]
        weather, rng = self.line.weather, self.line.rng
        place = start = log.after(int(resource_version))
        reader = _Reader(log, self.line.loop)
        due = 0.0
        try:
            while True:
                while place >= len(log.entries):
                    await reader.wait()
                entry = log.entries[place]
                due = max(due, entry.time + _delay(rng, weather.lag))
                if due > self._timeline.now:
                    await asyncio.sleep(due - self._timeline.now)
                if SLOW_LISTS in self.line.grounds and path == NODES and entry.kind == "DELETED" and rng.random() < 0.7:
                    raise refuse(410, "Expired", "too old resource version")
                yield self._shown(entry)
                place += 1
                if rng.random() < weather.repeat:
                    place = max(start, place - rng.randint(1, 3))
                if rng.random() < weather.cut:
                    raise await self._cut(path)
        finally:
            reader.close()

    def _shown(self, entry: LogEntry) -> bytes:
        self._told(entry.uid, entry.version)
        return entry.line

    async def _cut(self, path: str) -> Exception:
        rng = self.line.rng
        self.line.say("  %s: watch of %s is cut", self.line.name, path)
        await asyncio.sleep(rng.choice((0.0, 1.0, rng.uniform(0.0, 75.0))))
        if rng.random() < 0.5:
            return refuse(410, "Expired", "too old resource version")
        return ConnectionLost(f"watch of {path}: cut")


class _Reader:
    """Waits for a log to grow."""

    def __init__(self, log: Log, loop: ProcessLoop) -> None:
        self._log = log
        self._loop = loop
        self._waiting: asyncio.Future[Any] | None = None
        log.readers.append(self._grown)

    async def wait(self) -> None:
        self._waiting = self._loop.create_future()
        await self._waiting

    def close(self) -> None:
        if self._grown in self._log.readers:
            self._log.readers.remove(self._grown)

    def _grown(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done() and not self._loop.dead:
            waiting.set_result(None)


def _delay(rng: random.Random, longest: float) -> float:
    """Mostly short, sometimes as long as it gets."""
    return rng.uniform(0.0, longest) if rng.random() < 0.2 else rng.uniform(0.0, min(longest, 0.05))

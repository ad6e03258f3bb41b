"""One operator process: the real engine in a simulated process, with a stand-in for kopf's stream and for the Lease."""

import asyncio
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

from slipway.controller.clock import Clock
from slipway.controller.engine import Engine
from slipway.controller.lease import Lease, LostLeadership
from slipway.controller.observability.metrics import Metrics
from slipway.controller.settings import OperatorSettings
from tests.simulation import versions
from tests.simulation.connection import SLOWEST_LIST, Line, ModelConnection, Weather
from tests.simulation.grounds import PROGRESS, SLOW_LISTS, UNREADABLE_NODES, VERSIONS
from tests.simulation.logs import ModelLogs
from tests.simulation.loop import ProcessLoop
from tests.simulation.requests import Server
from tests.simulation.store import Store
from tests.simulation.timeline import Timeline, moment
from tests.simulation.truth import Violation


class ModelLease:
    """Leadership as the history grants it."""

    def __init__(self, timeline: Timeline, *, granted: bool) -> None:
        self._timeline = timeline
        self._waiting: asyncio.Future[None] | None = None
        self.granted = granted
        self.led_from = timeline.now if granted else math.inf
        self.lost_at: float | None = None

    @property
    def held(self) -> bool:
        return self.granted and (self.lost_at is None or self._timeline.now < self.lost_at)

    def grant(self) -> None:
        """From now on the process that stood by leads."""
        self.granted = True
        self.led_from = self._timeline.now
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    def check(self) -> float:
        if not self.held:
            raise LostLeadership("the Lease was lost")
        return math.inf if self.lost_at is None else self.lost_at - self._timeline.now

    async def acquire(self) -> None:
        """Until the history lets the process lead."""
        if not self.granted:
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting

    async def keep(self) -> None:
        """As long as it lives."""
        await asyncio.get_running_loop().create_future()

    async def release(self) -> None:
        """Nothing to give back."""


class _NoLag:
    worst = 0.0

    async def run(self) -> None:
        """Simulated loops are never late."""
        await asyncio.get_running_loop().create_future()


class Process:
    """An operator process from its start to its end."""

    def __init__(
        self,
        name: str,
        timeline: Timeline,
        store: Store,
        server: Server,
        weather: Weather,
        rng: random.Random,
        *,
        wrong_by: float,
        leads: bool = True,
        grounds: frozenset[str] = frozenset(),
        record: Path | None,
        on_death: Callable[["Process"], None],
        say: Callable[..., None],
    ) -> None:
        self.name = name
        self.started = timeline.now
        self.loop = ProcessLoop(timeline)  # type: ignore[abstract]  # asyncio lists more than a process calls
        self.lease = ModelLease(timeline, granted=leads)
        self.line = Line(name, self.loop, weather, rng, self.die, say, lambda: self.lease.held, grounds)
        self.line.blind_until = self._blind_until(grounds, rng)
        self.line.newer = VERSIONS in grounds and rng.random() < 0.5
        self._timeline = timeline
        self._store = store
        self._weather = weather
        self._rng = rng
        self._on_death = on_death
        self.died: float | None = None
        self._engine: Engine | None = None
        self._settings = OperatorSettings(identity=name, record=record)
        api = ModelConnection(self.line, server, store, timeline)
        api.guard = self.lease.check
        clock = Clock(lambda: moment(timeline.now).timestamp() + wrong_by, lambda: timeline.now)
        api.on_date = clock.heard
        self.loop.run_inside(self._begin, api, clock)

    def _blind_until(self, grounds: frozenset[str], rng: random.Random) -> float:
        """Until when nodes may not be read."""
        if UNREADABLE_NODES not in grounds:
            return 0.0
        return rng.choice((float("inf"), self.started + rng.uniform(0.0, 60.0)))

    @property
    def alive(self) -> bool:
        return self.died is None

    def die(self) -> None:
        """Killed: everything in memory is lost."""
        if self.died is None:
            self.died = self._timeline.now
            self.loop.kill()
            self._on_death(self)

    def stop(self) -> None:
        """Stopped as by SIGTERM: what it is doing is broken off, then it is gone."""

        async def leave() -> None:
            assert self._engine is not None
            await self._engine.stop()
            self.die()

        if self.alive and self._engine is not None:
            self.loop.run_inside(lambda: self.loop.create_task(leave()))

    def _begin(self, api: ModelConnection, clock: Clock) -> None:
        self._engine = Engine(api, cast(Lease, self.lease), self._settings, clock, Metrics())
        self._engine.lag = cast(Any, _NoLag())
        if PROGRESS in self.line.grounds:
            logs = ModelLogs(self._timeline, self._store, random.Random(self._rng.random()))
            self._engine._progress.open_stream = cast(Any, logs.stream)
        over = self._engine.start()
        over.add_done_callback(self._ended)
        self.loop.create_task(self._follow_jobs(self._engine)).add_done_callback(self._ended)

    def _ended(self, over: "asyncio.Future[None]") -> None:
        if over.cancelled():
            return
        error = over.exception()
        if isinstance(error, LostLeadership) and self.lease.granted:
            self.die()
        elif error is not None:
            raise Violation(f"the operator ended itself: {error!r}") from error

    async def _follow_jobs(self, engine: Engine) -> None:
        """What kopf does: list, then follow; after a cut, list again, which does not tell of what is gone."""
        log, rng, weather = self._store.logs["jobs"], self._rng, self._weather
        grown = asyncio.Event()
        log.readers.append(grown.set)
        while True:
            place, listed = len(log.entries), list(self._store.jobs.values())
            if SLOW_LISTS in self.line.grounds:
                await asyncio.sleep(rng.uniform(0.0, SLOWEST_LIST))
            for body in listed:
                self._told(body)
                engine.observe(None, self._read(json.loads(json.dumps(body))))
            while True:
                while place >= len(log.entries):
                    grown.clear()
                    await grown.wait()
                    if weather.lag:
                        await asyncio.sleep(rng.uniform(0.0, self._job_lag()))
                entry = log.entries[place]
                place += 1
                if self._overtaken(entry.uid, place):
                    continue
                message = json.loads(entry.line)
                self._told(message["object"])
                engine.observe(message["type"], self._read(message["object"]))
                if rng.random() < weather.cut:
                    await asyncio.sleep(rng.uniform(0.0, 30.0))
                    break

    def _told(self, job: dict[str, Any]) -> None:
        self.line.told[job["metadata"]["uid"]] = int(job["metadata"]["resourceVersion"])

    def _job_lag(self) -> float:
        """Longest delay of a change of a SliceJob in kopf's watch, in seconds."""
        return self._weather.lag

    def _read(self, job: dict[str, Any]) -> dict[str, Any]:
        return versions.understood(job) if self.line.newer else job

    def _overtaken(self, uid: str, place: int) -> bool:
        """kopf hands on only the newest of the changes of one object that wait."""
        return any(entry.uid == uid for entry in self._store.logs["jobs"].entries[place:])

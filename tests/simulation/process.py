"""One operator process: the real engine in a simulated process, with a stand-in for kopf's stream and for the Lease."""

import asyncio
import json
import random
from collections.abc import Callable
from typing import Any, cast

from slipway.cluster.lease import Lease, LostLeadership
from slipway.shell.clock import Clock
from slipway.shell.engine import Engine
from slipway.shell.settings import OperatorSettings
from tests.simulation.connection import Line, ModelConnection, Weather
from tests.simulation.loop import ProcessLoop
from tests.simulation.requests import Server
from tests.simulation.store import Store
from tests.simulation.timeline import Timeline, moment
from tests.simulation.truth import Violation


class ModelLease:
    """Leadership as the history grants it."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self.lost_at: float | None = None

    @property
    def held(self) -> bool:
        return self.lost_at is None or self._timeline.now < self.lost_at

    def check(self) -> None:
        if not self.held:
            raise LostLeadership("the Lease was lost")

    async def acquire(self) -> None:
        """The history starts a process only when it leads."""

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
        on_death: Callable[["Process"], None],
        say: Callable[..., None],
    ) -> None:
        self.name = name
        self.started = timeline.now
        self.loop = ProcessLoop(timeline)  # type: ignore[abstract]
        self.lease = ModelLease(timeline)
        self.line = Line(name, self.loop, weather, rng, self.die, say)
        self._timeline = timeline
        self._store = store
        self._weather = weather
        self._rng = rng
        self._on_death = on_death
        self.died: float | None = None
        self._engine: Engine | None = None
        api = ModelConnection(self.line, server, store, timeline)
        api.guard = self.lease.check
        clock = Clock(lambda: moment(timeline.now).timestamp() + wrong_by, lambda: timeline.now)
        api.on_date = clock.heard
        self.loop.run_inside(self._begin, api, clock)

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
        settings = OperatorSettings(identity=self.name)
        self._engine = Engine(api, cast(Lease, self.lease), settings, clock)
        self._engine._lag = cast(Any, _NoLag())
        over = self._engine.start()
        over.add_done_callback(self._ended)
        self.loop.create_task(self._follow_jobs(self._engine)).add_done_callback(self._ended)

    def _ended(self, over: "asyncio.Future[None]") -> None:
        if over.cancelled():
            return
        error = over.exception()
        if isinstance(error, LostLeadership):
            self.die()
        elif error is not None:
            raise Violation(f"the operator ended itself: {error!r}") from error

    async def _follow_jobs(self, engine: Engine) -> None:
        """What kopf does: list, then follow; after a cut, list again, which does not tell of what is gone."""
        log, rng, weather = self._store.logs["jobs"], self._rng, self._weather
        grown = asyncio.Event()
        log.readers.append(grown.set)
        while True:
            place = len(log.entries)
            for body in list(self._store.jobs.values()):
                engine.observe(None, json.loads(json.dumps(body)))
            while True:
                while place >= len(log.entries):
                    grown.clear()
                    await grown.wait()
                    if weather.lag:
                        await asyncio.sleep(rng.uniform(0.0, weather.lag))
                entry = log.entries[place]
                place += 1
                if self._overtaken(entry.uid, place):
                    continue
                message = json.loads(entry.line)
                engine.observe(message["type"], message["object"])
                if rng.random() < weather.cut:
                    await asyncio.sleep(rng.uniform(0.0, 30.0))
                    break

    def _overtaken(self, uid: str, place: int) -> bool:
        """kopf hands on only the newest of the changes of one object that wait."""
        return any(entry.uid == uid for entry in self._store.logs["jobs"].entries[place:])

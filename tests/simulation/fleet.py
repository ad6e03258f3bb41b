"""The operator's processes: who leads, who stands by, and what becomes of them."""

import random
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.simulation.connection import Weather
from tests.simulation.grounds import STANDBY
from tests.simulation.process import Process
from tests.simulation.requests import Server
from tests.simulation.store import Store
from tests.simulation.timeline import Timeline

WRONG_CLOCKS: Final = (0.0, 0.0, 0.0, 2.0, -90.0, 600.0)
"""Seconds by which a process's wall clock is wrong."""


class Fleet:
    """Starts, stops and replaces the processes of a history."""

    def __init__(
        self,
        timeline: Timeline,
        store: Store,
        server: Server,
        weather: Weather,
        rng: random.Random,
        grounds: frozenset[str],
        *,
        record: Path | None,
        say: Callable[..., None],
    ) -> None:
        self._timeline = timeline
        self._store = store
        self._server = server
        self._weather = weather
        self._rng = rng
        self._grounds = grounds
        self._record = record
        self._say = say
        self.calm = False
        self.processes: list[Process] = []

    def start(self) -> None:
        """A process leads: a new one, or the one that stands by."""
        if self.leader() is not None:
            return
        standby = self._standby()
        if standby is not None:
            self._say("%s takes over", standby.name)
            standby.lease.grant()
        else:
            self._begin(leads=True)
        if STANDBY in self._grounds:
            self._stand_by()

    def named(self, name: str) -> Process:
        """The process of that name."""
        return next(one for one in self.processes if one.name == name)

    def bury(self) -> None:
        """End all of them."""
        for process in self.processes:
            process.loop.kill()
            process.loop.bury()

    def calm_down(self) -> None:
        """From here on nothing goes wrong with any of them."""
        self.calm = True
        for process in self.processes:
            process.line.weather.refuse = process.line.weather.lose = process.line.weather.late = 0.0
            process.line.weather.crash = process.line.weather.cut = 0.0

    def crash(self) -> None:
        """The leader is killed."""
        leader = self.leader()
        if leader is not None and not self.calm:
            leader.die()

    def freeze(self) -> None:
        """The leader stands still for longer than its Lease lasts, and then goes on as if nothing had happened."""
        leader = self.leader()
        if leader is None or self.calm:
            return
        self._say("%s stands still", leader.name)
        leader.loop.freeze()
        leader.lease.lost_at = self._timeline.now + 8.0
        self._timeline.after(self._rng.uniform(13.0, 17.0), self.start)
        self._timeline.after(self._rng.uniform(14.0, 60.0), leader.loop.thaw)
        self._timeline.after(90.0, leader.die)

    def roll(self) -> None:
        """A rolling update: the old process ends in good order, and the new one starts at once."""
        leader = self.leader()
        if leader is not None and not self.calm:
            leader.lease.lost_at = self._timeline.now
            leader.stop()
            self._timeline.after(self._rng.uniform(0.5, 3.0), self.start)

    def leader(self) -> Process | None:
        """The process that holds the Lease."""
        return next((one for one in self.processes if one.alive and one.lease.held), None)

    def _standby(self) -> Process | None:
        return next((one for one in self.processes if one.alive and not one.lease.granted), None)

    def _stand_by(self) -> None:
        """A process watches, and waits for the Lease."""
        if self._standby() is None:
            self._begin(leads=False)

    def _begin(self, *, leads: bool) -> None:
        name = f"operator-{len(self.processes)}"
        self._say("%s starts" if leads else "%s stands by", name)
        self.processes.append(
            Process(
                name,
                self._timeline,
                self._store,
                self._server,
                Weather() if self.calm else self._weather,
                self._rng,
                wrong_by=self._rng.choice(WRONG_CLOCKS),
                leads=leads,
                grounds=self._grounds,
                record=self._record,
                on_death=self._died,
                say=self._say,
            )
        )

    def _died(self, process: Process) -> None:
        self._say("%s is gone", process.name)
        if not process.lease.granted:
            self._timeline.after(self._rng.uniform(1.0, 60.0), self._stand_by)
        elif process.lease.lost_at is None:
            down = self._rng.choice((self._rng.uniform(13.0, 20.0), self._rng.uniform(20.0, 200.0)))
            self._timeline.after(min(down, 20.0) if self.calm else down, self.start)

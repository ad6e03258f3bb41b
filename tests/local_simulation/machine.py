"""The machine of a history: what its processes share, and what each of them has of it."""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from slipway.local.conversion.devices import Device, Inventory
from slipway.local.engine.address import Address
from slipway.local.engine.errors import EngineUnavailable
from slipway.local.jobs.job_files import JobFolder, NoSuchJob
from slipway.local.supervisor.this_machine import Machine
from tests.local_simulation.connection import Connection, Weather
from tests.local_simulation.engine import Engine
from tests.local_simulation.fibers import Broken, Fiber, Pool, Process, Signal
from tests.simulation.timeline import Timeline, moment

Written = Callable[[str, dict[str, Any], dict[str, Any]], None]
"""Called with who has written a job, how it was, and how it is."""
MOST_WAITS: Final = 60
"""Turns of a supervisor within a second of simulated time; more are a loop that never waits."""
TURN_SECONDS: Final = 0.01


@dataclass(slots=True)
class Disk:
    """The files of all jobs."""

    timeline: Timeline
    logs: Path
    files: dict[str, dict[str, Any]] = field(default_factory=dict)
    """What is in them; nobody changes what he has read."""
    supervised: dict[str, Process] = field(default_factory=dict)
    changes: dict[str, Signal] = field(default_factory=dict)
    versions: dict[str, int] = field(default_factory=dict)
    """How often each file has changed."""
    written: Written = lambda who, before, after: None

    def changed(self, name: str) -> Signal:
        return self.changes.setdefault(name, Signal(self.timeline))

    def change(self, name: str) -> None:
        """Tell whoever watches the file."""
        self.versions[name] = self.versions.get(name, 0) + 1
        self.changed(name).give()


@dataclass(frozen=True, slots=True)
class Folder(JobFolder):
    """The folder of a job, whose file is on the disk of a history; logs are real files."""

    disk: Disk

    def read(self) -> dict[str, Any]:
        if (found := self.disk.files.get(self.name)) is None:
            raise NoSuchJob(self.name)
        return found

    def store(self, body: dict[str, Any]) -> None:
        """A new job."""
        self.disk.files[self.name] = json.loads(json.dumps(body))
        (self.path / "logs").mkdir(parents=True, exist_ok=True)

    def remove(self) -> None:
        _step()
        del self.disk.files[self.name]
        self.disk.change(self.name)

    @contextmanager
    def supervised(self, inherited: int | None = None) -> Iterator[int | None]:
        self.read()
        owner, fiber = self.disk.supervised.get(self.name), Fiber.current
        if owner is not None and not owner.dead:
            yield None
            return
        assert fiber is not None
        self.disk.supervised[self.name] = fiber.process
        try:
            yield 1
        finally:
            if self.disk.supervised.get(self.name) is fiber.process:
                del self.disk.supervised[self.name]

    def _locked(self) -> Any:
        self.read()
        return nullcontext()

    def _write(self, body: dict[str, Any]) -> None:
        _step()
        before = self.read()
        self.disk.files[self.name] = json.loads(json.dumps(body))
        self.disk.change(self.name)
        self.disk.written(Fiber.current.process.name if Fiber.current else "user", before, body)
        _step()


def _step() -> None:
    if Fiber.current is not None:
        Fiber.current.process.step()


@dataclass(slots=True)
class Site:
    """What the processes of the machine share."""

    timeline: Timeline
    engine: Engine
    disk: Disk
    rng: random.Random
    weather: Weather
    gpus: int = 0
    threads: int = 16
    booted: float = -1000.0
    connections: list[Connection] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    """When somebody lost the engine."""
    choosing: Process | None = None
    chosen: Signal = field(init=False)

    def __post_init__(self) -> None:
        self.chosen = Signal(self.timeline)


class ModelNews:
    """The news of one supervisor."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._words: list[str] = []
        self._there = Signal(process.timeline)
        self._waits = (0, 0)

    def put(self, word: str) -> None:
        self._words.append(word)
        self._there.give()

    def wait(self, seconds: float | None) -> set[str]:
        self._process.step()
        self._not_too_often()
        self._process.sleep(TURN_SECONDS)
        until = None if seconds is None else self._process.timeline.now + seconds
        while not self._words and (until is None or self._process.timeline.now < until):
            self._there.wait(None if until is None else until - self._process.timeline.now)
        found, self._words = set(self._words), []
        return found

    def _not_too_often(self) -> None:
        second, count = self._waits
        now = int(self._process.timeline.now)
        self._waits = (now, count + 1 if now == second else 1)
        if count > MOST_WAITS:
            raise Broken(f"{self._process.name} goes on and on without waiting")


class ModelMachine(Machine):
    """The machine as one process has it."""

    def __init__(self, site: Site, process: Process) -> None:
        self._site = site
        self._process = process

    @property
    def name(self) -> str:
        return "here"

    def now(self) -> datetime:
        return moment(self._site.timeline.now)

    def booted_at(self) -> datetime:
        return moment(self._site.booted)

    def sleep(self, seconds: float) -> None:
        self._process.sleep(seconds)

    def thread(self, name: str, work: Callable[[], object]) -> None:
        self._process.spawn(work)

    def pool(self) -> Pool:
        return Pool(self._process, self._site.threads)

    def news(self) -> Any:
        return ModelNews(self._process)

    def changes(self, job: JobFolder, stop: Any) -> Iterator[None]:
        assert isinstance(job, Folder)
        # What happens before the watch is set up, it does not tell of.
        self._process.sleep(self._site.rng.choice((0.0, self._site.rng.uniform(0.0, 0.5))))
        known = job.disk.versions.get(job.name, 0)
        while not stop.is_set():
            if job.disk.versions.get(job.name, 0) == known:
                job.disk.changed(job.name).wait()
                self._process.sleep(self._site.rng.uniform(0.0, 0.05))
            known = job.disk.versions.get(job.name, 0)
            yield

    def connect(self, address: Address) -> Any:
        self._process.step()
        site = self._site
        if not site.engine.up:
            raise EngineUnavailable("the engine is away", "", "")
        made = Connection(site.engine, self._process, site.weather, site.rng, site.losses)
        site.connections.append(made)
        return made

    def inventory(self) -> Inventory:
        cards = tuple(Device("nvidia", number, f"/dev/nvidia{number}") for number in range(self._site.gpus))
        return Inventory({"nvidia": cards} if cards else {})

    @contextmanager
    def choosing_devices(self) -> Iterator[None]:
        site = self._site
        while site.choosing is not None and not site.choosing.dead:
            site.chosen.wait(1.0)
        site.choosing = self._process
        try:
            yield
        finally:
            site.choosing = None
            site.chosen.give()

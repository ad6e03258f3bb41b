"""What supervisors reach: the calls of the Docker SDK to the model engine, with all that goes wrong on the way."""

import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

from docker.errors import APIError

from slipway.api import names
from tests.local_simulation.engine import Container, Engine, refusal
from tests.local_simulation.fibers import Broken, Process
from tests.simulation.truth import Violation

Act = Callable[[], object]
T = TypeVar("T")


@dataclass(slots=True)
class Weather:
    """Shares of the calls that go wrong, and how late events are."""

    slow: float = 0.0
    """Takes up to 3 s."""
    unasked: float = 0.0
    """Never reaches the engine."""
    unanswered: float = 0.0
    """Is carried out, and the answer is lost."""
    refused: float = 0.0
    """The engine answers 500."""
    lag: float = 0.0
    """Seconds by which events are late at most."""
    late: float = 0.0
    """Share of the calls under way that are carried out after the death of who asked."""


NOTED_SECONDS: Final = 4.0
"""Simulated seconds within which a supervisor has noted that the engine is gone."""


class Lost(ConnectionError):
    """The connection is gone."""


class Connection:
    """As much of docker.APIClient as production code uses."""

    api_version: Final = "1.51"

    def __init__(
        self, engine: Engine, process: Process, weather: Weather, rng: random.Random, losses: list[float]
    ) -> None:
        self._engine = engine
        self._process = process
        self._weather = weather
        self._rng = rng
        self._epoch = engine.epoch
        self._closed = False
        self._losses = losses
        self._ended: float | None = None
        self.name = f"{process.name}.{engine.timeline.now}"
        self.opened = engine.timeline.now

    def close(self) -> None:
        self._closed = True
        self._ended = self._engine.timeline.now
        self._engine.news.give()

    @property
    def job(self) -> str:
        """What its process looks after."""
        return self._process.job

    def in_use_at(self, time: float) -> bool:
        """Whether its process had noticed by then, and lived long enough after to note it."""
        died = self._process.died
        alive = died is None or died > time + NOTED_SECONDS
        return alive and (self._ended is None or self._ended >= time)

    @property
    def cut(self) -> bool:
        return self._closed or self._epoch != self._engine.epoch

    def _call(self, act: Callable[[], T], *, late: bool = False) -> T:
        """Ask the engine; `late` calls may be carried out although who asked is dead by then."""
        process, rng, weather = self._process, self._rng, self._weather
        process.step()
        self._check()
        if weather.slow and rng.random() < weather.slow:
            self._slowly(act, rng.uniform(0.0, 3.0), late and rng.random() < weather.late)
        if weather.unasked and rng.random() < weather.unasked:
            raise self._lost("connection reset")
        if weather.refused and rng.random() < weather.refused:
            raise refusal(500, "the engine is out of sorts")
        try:
            answer = act()
        except Violation as broken:
            raise Broken(str(broken)) from broken
        if weather.unanswered and rng.random() < weather.unanswered:
            raise self._lost("no answer")
        process.step()
        self._check()
        return answer

    def _slowly(self, act: Act, seconds: float, late: bool) -> None:
        """Let time pass; where who asked dies meanwhile, the engine may do it nevertheless."""
        if late:
            self._process.on_death.append(orphan := lambda: self._orphaned(act))
        self._process.sleep(seconds)
        if late:
            self._process.on_death.remove(orphan)
        self._check()

    def _orphaned(self, act: Act) -> None:
        def do() -> None:
            if self._engine.up:
                with suppress(APIError):
                    act()

        self._engine.timeline.after(self._rng.uniform(0.0, 5.0), do)

    def _check(self) -> None:
        if self.cut:
            raise self._lost("the engine has hung up")

    def _lost(self, words: str) -> Lost:
        self._losses.append(self._engine.timeline.now)
        return Lost(words)

    # What is read.

    def containers(self, *, all: bool, filters: Mapping[str, Any]) -> list[dict[str, Any]]:
        return self._call(
            lambda: [
                {"Id": one.id, "State": one.state, "Labels": dict(one.labels)}
                for one in self._engine.containers.values()
                if _matches(one.labels, filters["label"])
            ]
        )

    def inspect_container(self, name: str) -> dict[str, Any]:
        def act() -> dict[str, Any]:
            found = self._engine.get(name)
            found.shown[self.name] = found.version
            return found.inspected()

        return self._call(act)

    def inspect_image(self, name: str) -> dict[str, Any]:
        return self._call(lambda: {"Id": name})

    def logs(self, container: str, *, tail: Any = "all", stream: bool = False, **_: Any) -> Any:
        found = self._call(lambda: self._engine.get(container))
        words = f"2026-01-01T00:00:00Z the log of {found.name}\n".encode()
        return iter([words]) if stream else words

    def events(self, *, since: int, decode: bool, filters: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        engine, label = self._engine, [filters["label"]]
        at: int = self._call(lambda: engine.events_since(datetime.fromtimestamp(since, UTC)))
        while not self.cut:
            if at == len(engine.log):
                engine.news.wait()
                if self._weather.lag and not self.cut:
                    self._process.sleep(self._rng.uniform(0.0, self._weather.lag))
                continue
            _, event = engine.log[at]
            at += 1
            if _matches(event["labels"], label):
                yield dict(event)

    # What is done.

    def create_container_from_config(self, config: dict[str, Any], name: str | None = None) -> dict[str, Any]:
        return self._call(lambda: {"Id": self._engine.create(name, config).id}, late=True)

    def start(self, container: str) -> None:
        self._call(lambda: self._engine.start(self._engine.get(container)), late=True)

    def stop(self, container: str, timeout: float) -> None:
        found: Container = self._call(lambda: self._stop(container, timeout))
        while found.running and found.id in self._engine.containers:
            found.ended.wait()
            self._check()
        self._call(lambda: None)

    def _stop(self, container: str, timeout: float) -> Container:
        found = self._engine.get(container)
        self._engine.stop_later(found, timeout, "stopped by Slipway")
        return found

    def put_archive(self, container: str, path: str, data: bytes) -> None:
        assert path == "/"
        self._call(lambda: self._engine.unpack(self._engine.get(container), data), late=True)

    def remove_container(self, container: str, *, v: bool = False, force: bool) -> None:
        engine = self._engine
        found: Container = self._call(
            lambda: engine.remove_by_force(engine.get(container), "removed by Slipway"), late=True
        )
        while found.removing and not self.cut:
            found.ended.wait()
        self._check()
        if found.error_of_removal:
            raise refusal(500, found.error_of_removal)

    # Networks.

    def networks(self, names: Any = None, filters: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
        return self._call(
            lambda: [
                {"Id": id, "Name": name}
                for id, (name, labels) in self._engine.networks.items()
                if (names is None or name in names) and (filters is None or _matches(labels, [filters["label"]]))
            ]
        )

    def create_network(self, name: str, *, driver: str, labels: dict[str, str], check_duplicate: bool) -> None:
        def act() -> None:
            if any(known == name for known, _ in self._engine.networks.values()):
                raise refusal(409, f"network with name {name} already exists")
            self._engine.networks[f"net-{len(self._engine.networks)}-{name}"] = (name, labels)

        self._call(act, late=True)

    def inspect_network(self, id: str) -> dict[str, Any]:
        return self._call(lambda: {"Containers": {one: {} for one in self._joined(id)}})

    def _joined(self, id: str) -> list[str]:
        """Ids of the containers in a network: those of its job that run."""
        if id not in self._engine.networks:
            raise refusal(404, f"network {id} not found")
        uid = self._engine.networks[id][1].get(names.LABEL_JOB_UID)
        return [one.id for one in self._engine.containers.values() if one.running and one.uid == uid]

    def remove_network(self, id: str) -> None:
        def act() -> None:
            if self._joined(id):
                raise refusal(403, f"network {id} has active endpoints")
            del self._engine.networks[id]

        self._call(act)


def _matches(labels: Mapping[str, str], wanted: Any) -> bool:
    """Whether there are the labels, each as KEY or KEY=VALUE."""
    pairs = (one.partition("=") for one in ([wanted] if isinstance(wanted, str) else wanted))
    return all(key in labels and (not sign or labels[key] == value) for key, sign, value in pairs)

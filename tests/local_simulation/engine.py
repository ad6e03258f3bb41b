"""A model of the Docker engine: its containers, networks and events, and what happens to them."""

import random
import tarfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from io import BytesIO
from typing import Any, Final

from docker.errors import APIError
from requests import Response

from slipway.api import names
from slipway.api.places import Place
from slipway.api.places import worker as worker_place
from slipway.local.conversion.devices import LABEL_DEVICES
from tests.local_simulation.fibers import Signal
from tests.simulation.program import AttemptKey
from tests.simulation.timeline import Timeline, moment
from tests.simulation.truth import Violation

NEVER: Final = "0001-01-01T00:00:00Z"
EVERYBODY: Final = 0o777
SIGKILLED: Final = 137
SIGTERMED: Final = 143
REBOOTED: Final = 255
"""What an engine says of a container of which it knows nothing, because the machine was started again."""


def refusal(status: int, words: str) -> APIError:
    """An answer of the engine that says no."""
    response = Response()
    response.status_code, response.reason = status, ""
    return APIError(words, response=response, explanation=words)


@dataclass(slots=True, eq=False)
class Container:
    """One container, and the process in it."""

    id: str
    name: str
    body: Mapping[str, Any]
    created: float
    ended: Signal
    running: bool = False
    paused: bool = False
    stopping: bool = False
    """Whether the process was sent SIGTERM."""
    oom: bool = False
    removing: bool = False
    dead: bool = False
    code: int = 0
    error: str = ""
    error_of_removal: str = ""
    started: float | None = None
    finished: float | None = None
    shown: dict[str, int] = field(default_factory=dict)
    """The version that each connection was shown last."""
    version: int = 1
    """Grows when its state changes."""
    opened: set[str] = field(default_factory=set)
    """Empty volumes to which every user may write."""

    @property
    def labels(self) -> Mapping[str, str]:
        found: Mapping[str, str] = self.body.get("Labels", {})
        return found

    @property
    def host_config(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.body.get("HostConfig", {})
        return found

    @property
    def empty_volumes(self) -> set[str]:
        mounts = self.host_config.get("Mounts") or ()
        return {one["Target"] for one in mounts if one["Type"] == "volume" and not one.get("Source")}

    @property
    def uid(self) -> str:
        """UID of its job; empty for a container of others."""
        return self.labels.get(names.LABEL_JOB_UID, "")

    @property
    def of_slipway(self) -> bool:
        """Whether it is a job's, or one that opens a job's volumes."""
        return bool(self.uid) or "VolumesFrom" in self.host_config

    @property
    def key(self) -> AttemptKey:
        return self.uid, int(self.labels.get(names.LABEL_ATTEMPT, -1))

    @property
    def place(self) -> Place:
        return worker_place(int(self.labels[names.LABEL_SLICE]), int(self.labels[names.LABEL_HOST]))

    @property
    def devices(self) -> list[str]:
        return list(filter(None, self.labels.get(LABEL_DEVICES, "").split(",")))

    @property
    def state(self) -> str:
        """The word of the engine, as `StateString` of moby has it."""
        if self.running:
            return "paused" if self.paused else "running"
        if self.removing:
            return "removing"
        if self.dead:
            return "dead"
        return "created" if self.started is None else "exited"

    def inspected(self) -> dict[str, Any]:
        state = {
            "Status": self.state,
            "Running": self.running,
            "Paused": self.paused,
            "OOMKilled": self.oom,
            "Dead": self.dead,
            "ExitCode": self.code,
            "Error": self.error,
            "StartedAt": _stamp(self.started),
            "FinishedAt": _stamp(self.finished),
        }
        config = {"Labels": dict(self.labels), "StopTimeout": self.body.get("StopTimeout")}
        return {
            "Id": self.id,
            "Name": f"/{self.name}",
            "Created": _stamp(self.created),
            "State": state,
            "Config": config,
            "HostConfig": {"ReadonlyRootfs": False} | dict(self.host_config),
            "Image": self.body.get("Image", ""),
        }


def _stamp(seconds: float | None) -> str:
    return NEVER if seconds is None else moment(seconds).isoformat().replace("+00:00", "Z")


@dataclass(slots=True)
class Reactions:
    """What the processes in containers do; the history fills them in."""

    starts: Callable[[Container], None] = lambda container: None
    stops: Callable[[Container, str], None] = lambda container, why: None
    """Called when a process has ended, with the reason."""
    term: Callable[[Container], tuple[float, int] | None] = lambda container: (0.1, SIGTERMED)
    """After how many seconds SIGTERM ends it, with which code; None for never."""
    start_error: Callable[[Container], str] = lambda container: ""
    """Why a process cannot be started."""
    asked: Callable[[str, Mapping[str, str]], None] = lambda what, labels: None
    """Called with what is asked for, and the labels of the container, where that changes anything."""


class Engine:
    """The engine of the machine."""

    def __init__(self, timeline: Timeline, rng: random.Random, reactions: Reactions) -> None:
        self.timeline = timeline
        self.rng = rng
        self.reactions = reactions
        self.containers: dict[str, Container] = {}
        self.networks: dict[str, tuple[str, Mapping[str, str]]] = {}
        """Name and labels, by id."""
        self.up = True
        self.epoch = 0
        """How often it has gone down."""
        self.log: list[tuple[float, Mapping[str, Any]]] = []
        """Its events, which it remembers for as long as it runs."""
        self.news = Signal(timeline)
        """Given at each event, and when it goes down."""
        self.jammed = 0.0
        """Share of removals that fail at first, and leave a dead container."""
        self.slow_removals = 0.0
        self.say: Callable[..., None] = lambda *words: None
        self._ids = 0

    def _id(self) -> str:
        self._ids += 1
        return f"{self._ids:04d}" + "0" * 8

    def _event(self, container: Container, action: str) -> None:
        container.version += 1
        at = int(moment(self.timeline.now).timestamp() * 1e9)
        event = {"id": container.id, "Action": action, "labels": container.labels, "timeNano": at}
        self.log.append((self.timeline.now, event))
        self.say("engine: %s %s", container.name, action)
        self.news.give()

    def named(self, name: str) -> Container | None:
        """By its name or id."""
        found = self.containers.get(name)
        return found or next((one for one in self.containers.values() if one.name == name), None)

    def get(self, name: str) -> Container:
        """By its name or id.

        Raises:
            APIError: 404.
        """
        if (found := self.named(name)) is None:
            raise refusal(404, f"No such container: {name}")
        return found

    def create(self, name: str | None, body: Mapping[str, Any]) -> Container:
        if name is not None and self.named(name) is not None:
            raise refusal(409, f'Conflict. The container name "/{name}" is already in use')
        self.reactions.asked("create", body.get("Labels", {}))
        made = Container(id := self._id(), name or f"unnamed-{id}", body, self.timeline.now, Signal(self.timeline))
        self._two_owners(made)
        self.containers[made.id] = made
        self._event(made, "create")
        return made

    def unpack(self, container: Container, archive: bytes) -> None:
        """Give its folders the modes of an archive; the volumes may be another's."""
        if container.host_config.get("ReadonlyRootfs"):
            raise refusal(500, "container rootfs is marked read-only")
        owners = map(self.get, container.host_config.get("VolumesFrom", [container.id]))
        with tarfile.open(fileobj=BytesIO(archive)) as content:
            folders = {f"/{one.name}" for one in content if one.isdir() and one.mode == EVERYBODY}
        for one in owners:
            one.opened |= folders

    def _two_owners(self, made: Container) -> None:
        for other in self.containers.values():
            shared = set(made.devices) & set(other.devices)
            if shared and other.state in ("created", "running", "paused") and not other.error:
                raise Violation(f"{made.name} gets {sorted(shared)}, which {other.name} has")

    def start(self, container: Container) -> None:
        if container.removing or container.dead:
            raise refusal(409, "container is marked for removal and cannot be started")
        if container.running:
            raise refusal(304, "")
        self.reactions.asked("start", container.labels)
        if closed := container.empty_volumes - container.opened:
            raise Violation(f"{container.name} is started while only root can write to {sorted(closed)}")
        if error := self.reactions.start_error(container):
            container.error, container.code = error, 127
            container.version += 1
            raise refusal(400, error)
        container.running, container.error = True, ""
        container.started, container.finished = self.timeline.now, None
        self._event(container, "start")
        self.reactions.starts(container)

    def ends(self, container: Container, code: int, why: str, *, oom: bool = False) -> None:
        """The process in it ends."""
        if not container.running:
            return
        container.running = container.paused = container.stopping = False
        container.code, container.oom, container.finished = code, oom, self.timeline.now
        if self.up:
            self._event(container, f"die {code}")
        else:
            container.version += 1
            self.say("%s ends with %d (%s)", container.name, code, why)
        container.ended.give()
        self.reactions.stops(container, why)

    def term(self, container: Container, why: str) -> None:
        """Send SIGTERM; a paused container is let go on for that."""
        container.paused = False
        if container.stopping or not container.running:
            return
        self.reactions.asked("stop", container.labels)
        container.stopping = True
        if (answer := self.reactions.term(container)) is not None:
            seconds, code = answer
            run = container.started

            def end() -> None:
                if container.running and container.started == run:
                    self.ends(container, code, why)

            self.timeline.after(seconds, end)

    def stop_later(self, container: Container, grace: float, why: str) -> None:
        """SIGTERM now, and SIGKILL after that many seconds, by nobody who waits for it."""
        run = container.started
        self.term(container, why)

        def kill() -> None:
            if container.running and container.started == run:
                self.ends(container, SIGKILLED, why)

        self.timeline.after(grace, kill)

    def remove_by_force(self, container: Container, why: str) -> Container:
        """Kill it and begin to remove it.

        Raises:
            APIError: when it is being removed already.
        """
        if container.removing:
            raise refusal(409, f"removal of container {container.name} is already in progress")
        if container.running:
            self.reactions.asked("remove", container.labels)
        container.removing, container.error_of_removal = True, ""
        self.ends(container, SIGKILLED, why)
        if self.rng.random() < self.slow_removals:
            self.timeline.after(self.rng.uniform(0.0, 2.0), lambda: self._finish_removal(container))
        else:
            self._finish_removal(container)
        return container

    def _finish_removal(self, container: Container) -> None:
        """It is gone, or dead where its files are in use."""
        if not container.removing:
            return
        container.removing = False
        if self.rng.random() < self.jammed:
            container.dead = True
            container.error_of_removal = f"container {container.name}: driver failed to remove root filesystem"
            container.version += 1
        else:
            del self.containers[container.id]
            self._event(container, "destroy")
        container.ended.give()

    def hang_up(self) -> None:
        """It answers nobody any more, and forgets its events."""
        self.up = False
        self.epoch += 1
        self.log.clear()
        self.news.give()
        for one in self.containers.values():
            one.ended.give()

    def come_up(self) -> None:
        """It answers again; what was being removed is forgotten, as a daemon does that is started again."""
        self.up = True
        for one in list(self.containers.values()):
            if one.removing:
                one.removing, one.dead = False, True
        self.say("engine: is up")

    def events_since(self, since: datetime) -> int:
        """Index of the first event from then on."""
        return next((at for at, (when, _) in enumerate(self.log) if moment(when) >= since), len(self.log))

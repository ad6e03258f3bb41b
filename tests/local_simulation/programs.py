"""What runs in the containers, and the ledger of what really happened to it."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Final

from slipway.api.places import Place
from slipway.api.status import Cause
from tests.local_simulation.engine import SIGKILLED, SIGTERMED, Container, Engine
from tests.simulation.cluster import Shape
from tests.simulation.program import AttemptKey, Ending, Program, Script
from tests.simulation.timeline import Timeline
from tests.simulation.truth import Blow, Kind, Truth

START_ERROR: Final = "start error"
BY_SLIPWAY: Final = ("stopped by Slipway", "removed by Slipway")
BY_ENGINE: Final = "stopped with the engine"
REMOVED: Final = "removed by somebody"
KILLED: Final = "killed by somebody"
REBOOT: Final = "the machine restarts"
HITS: Final = {
    BY_ENGINE: (Kind.DISRUPTED, Cause.PREEMPTION),
    REMOVED: (Kind.DELETED, Cause.PREEMPTION),
    # Nothing tells it from a program that kills itself.
    KILLED: (Kind.SILENT, Cause.PREEMPTION),
    REBOOT: (Kind.LOST, Cause.PREEMPTION),
}
"""What each end by others is in the ledger."""


@dataclass(slots=True)
class Programs:
    """The programs of all attempts."""

    timeline: Timeline
    rng: random.Random
    engine: Engine
    truth: Truth
    shapes: dict[str, Shape]
    """By name of the job."""
    names: dict[str, str]
    """Names of the jobs, by UID."""
    script: Callable[[AttemptKey], Script]
    say: Callable[..., None]
    programs: dict[AttemptKey, Program[Container]] = field(default_factory=dict)
    broken: dict[AttemptKey, Place | None] = field(default_factory=dict)
    """The place of each attempt whose container cannot be started."""
    gone: dict[str, Container] = field(default_factory=dict)
    """Every container that has hit a program by its end, by id."""
    clean: dict[AttemptKey, list[Blow]] = field(default_factory=dict)
    """Programs that ended well."""
    stopped_with_0: dict[AttemptKey, dict[Place, float]] = field(default_factory=dict)
    """When hosts exited 0 that something else had stopped."""
    slack: float = 1.0
    """Seconds by which the end of a container may be taken for one with its engine."""
    kubelets_differ: bool = False
    """Whether the clocks of machines differ; here is one."""

    def __post_init__(self) -> None:
        reactions = self.engine.reactions
        reactions.starts, reactions.stops = self._starts, self._stops
        reactions.term, reactions.start_error = self._term, self._start_error

    def name_of(self, uid: str) -> str:
        return self.names[uid]

    def shape_of(self, uid: str) -> Shape:
        return self.shapes[self.name_of(uid)]

    def shape_in(self, key: AttemptKey) -> Shape:
        """No job has a choice of slices here."""
        return self.shape_of(key[0])

    def _program(self, key: AttemptKey) -> Program[Container]:
        if key not in self.programs:
            script, shape = self.script(key), self.shape_of(key[0])
            self.say("attempt %d is going to %s (%s)", key[1], script.will.value, script)
            self.programs[key] = Program(key, shape.pods, script, self.timeline, self.rng, self._ends, lambda: True)
        return self.programs[key]

    def _starts(self, container: Container) -> None:
        if container.uid in self.names:
            self.truth.starts(container.key)
            self._program(container.key).started(container)

    def _start_error(self, container: Container) -> str:
        if container.uid not in self.names:
            return ""
        script = self._program(container.key).script
        if script.message != START_ERROR or script.place != container.place:
            return ""
        # The engine does not date it, so it counts from when the container was created.
        blow = Blow(container.created, Kind.EXIT, Cause.FAILURE, container.place, container.id)
        self.truth.hit(container.key, blow)
        self.gone[container.id] = container
        return "exec: no such file"

    def _ends(self, program: Program[Container], container: Container, ending: Ending, why: str) -> None:
        """The program comes to its end, unless somebody has paused it."""
        if container.paused:
            self.timeline.after(1.0, lambda: self._ends(program, container, ending, why))
        elif container.running and not container.stopping:
            self.engine.ends(container, ending.code, why, oom=ending.reason == "OOMKilled")

    def _stops(self, container: Container, why: str) -> None:
        if container.uid not in self.names:
            return
        key = container.key
        self.truth.stops(key)
        clean = container.code == 0 and why in ("will", KILLED)
        if clean:
            self.truth.done.setdefault(key, set()).add(container.place)
        elif container.code == 0:
            self.stopped_with_0.setdefault(key, {})[container.place] = self.timeline.now
        self._hit(container, why, clean)
        # Its peers wait in vain for one that was stopped before they met.
        self.programs[key].ended(container, clean and self.programs[key].met)

    def _hit(self, container: Container, why: str, clean: bool) -> None:
        if why in BY_SLIPWAY:
            return
        kind, cause = HITS.get(why, (Kind.PEER if why == "peer" else Kind.EXIT, Cause.FAILURE))
        if why == "will" and container.oom:
            kind = Kind.OOM
        elif why == "will":
            cause = self.shape_of(container.uid).codes.get(container.code, Cause.FAILURE)
        self.gone[container.id] = container
        blow = Blow(self.timeline.now, kind, cause, container.place, container.id, container.version, container.code)
        if clean:
            self.clean.setdefault(container.key, []).append(replace(blow, kind=Kind.EXIT))
        if not clean or why == KILLED:
            # Peers crash by an exit 0 too early; nothing tells them from what crashes by itself.
            self.truth.hit(container.key, blow)

    def forgotten(self, container: Container) -> None:
        """Somebody removes a container that does not run: how it has ended may be known by then, or not."""
        if container.uid in self.names:
            self.gone[container.id] = container
            blow = Blow(self.timeline.now, Kind.SILENT, Cause.PREEMPTION, container.place, container.id)
            self.truth.hit(container.key, blow)

    def _term(self, container: Container) -> tuple[float, int] | None:
        """SIGTERM ends most, some with 0; it ends nothing that hangs in a collective."""
        luck = self.rng.random()
        if container.uid in self.names and luck < 0.25:
            return None
        return self.rng.uniform(0.0, 3.0), self.rng.choice((SIGTERMED, SIGTERMED, SIGKILLED, 1, 0))

"""What the workers of one attempt do: meet, work, end; crash when a peer is gone; take SIGTERM this way or that.

Truth as opposed to what the API shows: `running` counts containers that really run on machines that really do.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Generic, Protocol, TypeVar

from slipway.api.places import FIRST, Place
from tests.simulation.timeline import Timeline, Timer

AttemptKey = tuple[str, int]
"""(job uid, attempt)."""

CRASH_CODES: Final = (1, 1, 1, 134, 139)
VFIO: Final = "open(/dev/vfio/0): Device or resource busy"


class Will(Enum):
    """What the program of an attempt is going to do."""

    SUCCEED = "succeed"
    EXIT = "exit"
    OOM = "oom"
    NO_TPU = "no tpu"
    HANG = "hang"


@dataclass(slots=True)
class Ending:
    """How a container ends."""

    code: int
    reason: str = ""
    message: str = ""


@dataclass(slots=True)
class Script:
    """The fate of one attempt, if nobody disturbs it."""

    will: Will = Will.SUCCEED
    place: Place = FIRST
    """Who fails."""
    code: int = 1
    after: float = 10.0
    """Seconds of work: from all being there, or from its own start for one who fails early."""
    early: bool = False
    spread: float = 1.0
    """Seconds between the first and the last host that is done."""
    message: str = ""


class Runs(Protocol):
    """What a program knows of a container that it runs in, on a node or under an engine."""

    @property
    def place(self) -> Place: ...
    @property
    def running(self) -> bool: ...
    @property
    def stopping(self) -> bool: ...


Member = TypeVar("Member", bound=Runs)


@dataclass(slots=True)
class Program(Generic[Member]):
    """One attempt of one job, as it really goes."""

    key: AttemptKey
    expected: int
    script: Script
    timeline: Timeline
    rng: random.Random
    on_end: Callable[["Program[Member]", Member, Ending, str], None]
    """Called when a container ends, with the reason: "will", "peer" or "killed"."""
    reachable: Callable[[], bool]
    """Whether the names of the hosts can be looked up."""
    on_joined: Callable[[Member], None] = lambda head: None
    """Called with the container of a Ray head once all workers have joined it."""
    members: dict[Place, Member] = field(default_factory=dict)
    timers: list[Timer] = field(default_factory=list)
    met: bool = False
    broken: bool = False
    finished: bool = False
    """Whether nobody hangs any more."""

    def started(self, container: Member) -> None:
        """A container runs."""
        if self.met and not self.broken and self.expected > 1:
            # Whoever comes back cannot join those that have gone on without it; who is alone begins anew.
            self._break(container)
        self.met = self.met and self.expected > 1
        # Who died before all had met, and took nobody along, is known to none of those who come now.
        known = self.met or any(one.running for one in self.members.values())
        self.broken = self.broken and self.expected > 1 and known
        self.members[container.place] = container
        if self.broken:
            self._doom(container)
        elif self.script.early and self.script.place == container.place and self.script.will is not Will.SUCCEED:
            self._later(self.script.after, container, self._failure(), "will")
        self.meet()

    def meet(self) -> None:
        """Work begins once all are there and find each other."""
        if self.met or not self.reachable():
            return
        if sum(one.running for one in self.members.values()) == self.expected:
            self.met = True
            self._work()

    def finish(self) -> None:
        """Whoever hangs or works is done soon: the end of a history."""
        self.script, self.finished = Script(Will.SUCCEED, after=5.0), True
        if self.met and not self.broken:
            self._work()
        # Nobody waits for ever for one that exited 0 before all had met.
        in_vain = self.broken or (not self.met and not all(one.running for one in self.members.values()))
        for member in self.members.values():
            if in_vain and member.running:
                self._later(self.rng.uniform(1.0, 60.0), member, Ending(1, "Error", "peer is gone"), "peer")

    def _work(self) -> None:
        script = self.script
        if script.will is Will.HANG:
            return
        if script.will is not Will.SUCCEED and not script.early:
            culprit = self.members[script.place]
            self._later(script.after, culprit, self._failure(), "will")
        if script.will is Will.SUCCEED:
            for member in self.members.values():
                wait = script.after + self.rng.uniform(0.0, script.spread)
                self._later(wait, member, Ending(0, "Completed"), "will")

    def _failure(self) -> Ending:
        script = self.script
        if script.will is Will.OOM:
            return Ending(137, "OOMKilled")
        if script.will is Will.NO_TPU:
            return Ending(1, "Error", f"RuntimeError: {VFIO}")
        return Ending(script.code, "Error", script.message)

    def ended(self, container: Member, clean: bool) -> None:
        """A container does not run any more; unless it was done, its peers find out."""
        if not clean and not self.broken:
            self._break(container)

    def _break(self, container: Member) -> None:
        self.broken = True
        for member in self.members.values():
            if member is not container and member.running:
                self._doom(member)

    def deserted(self, container: Member) -> None:
        """A machine cannot be reached by its peers for long: some give up."""
        for member in self.members.values():
            if member is not container and member.running and self.rng.random() < 0.5:
                self._later(self.rng.uniform(10.0, 60.0), member, self._crash(), "peer")

    def _doom(self, member: Member) -> None:
        luck = self.rng.random()
        if luck < 0.75 or self.finished:
            self._later(self.rng.uniform(0.2, 8.0), member, self._crash(), "peer")
        elif luck < 0.9:
            self._later(self.rng.uniform(8.0, 60.0), member, self._crash(), "peer")

    def _crash(self) -> Ending:
        return Ending(self.rng.choice(CRASH_CODES), "Error", "CoordinationService/PollForError")

    def _later(self, seconds: float, container: Member, ending: Ending, why: str) -> None:
        def act() -> None:
            if container.running and not container.stopping:
                self.on_end(self, container, ending, why)

        self.timers.append(self.timeline.after(seconds, act))

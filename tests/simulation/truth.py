"""What really happened, as nobody in the cluster can know it: who runs, and what hit whom first."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from slipway.api.places import Place
from slipway.api.status import Cause
from tests.simulation.program import AttemptKey


class Kind(Enum):
    """What hit an attempt; the words stand in histories."""

    EXIT = "the program exits"
    OOM = "out of memory"
    NO_TPU = "TPU busy"
    LOST = "machine dies"
    DISRUPTED = "disrupted"
    DELETED = "deleted by hand"
    OVER_LIMIT = "evicted for its own usage"
    REFUSED = "refused by its node"
    STUCK = "image cannot be pulled"
    SILENT = "machine falls silent"
    PEER = "crash after a peer"


OUTRANKED = (Kind.EXIT, Kind.NO_TPU)
"""What a machine's death explains away (design 5.4)."""


@dataclass(slots=True)
class Blow:
    """Something that hit one pod of an attempt."""

    time: float
    kind: Kind
    cause: Cause
    place: Place
    uid: str
    version: int | None = None
    """Version of the pod that shows it; None while nothing does."""
    code: int = 0
    """Exit code."""


@dataclass(slots=True)
class Held:
    """What a pod with a node holds, in seconds of the simulation."""

    uid: str
    attempt: int
    since: float
    """When it was bound."""
    stopped: float | None = None
    """When its container really ended."""
    until: float | None = None
    """When the API showed its end, or lost it."""


class Violation(Exception):
    """An invariant does not hold."""


def require(holds: bool, otherwise: str) -> None:
    """Raise a Violation with these words where something does not hold."""
    if not holds:
        raise Violation(otherwise)


@dataclass(slots=True)
class Truth:
    """The ledger of one history."""

    job_names: Mapping[str, str]
    """Names of the jobs, by UID."""
    blows: dict[AttemptKey, list[Blow]] = field(default_factory=dict)
    running: dict[AttemptKey, int] = field(default_factory=dict)
    done: dict[AttemptKey, set[Place]] = field(default_factory=dict)
    """Slots whose program exited 0 of its own will."""
    held: dict[str, dict[str, Held]] = field(default_factory=dict)
    """Of each job the pods of workers that were bound, by UIDs."""

    def starts(self, key: AttemptKey) -> None:
        """A container really runs.

        Raises:
            Violation: when one of another attempt, or of an earlier job of that name, still does.
        """
        name = self.job_names[key[0]]
        running = [one for one, count in self.running.items() if count and one != key]
        others = [f"attempt {one[1]} of {one[0]}" for one in running if self.job_names[one[0]] == name]
        if others:
            raise Violation(f"a container of attempt {key[1]} of {key[0]} starts while {', '.join(others)} still runs")
        self.running[key] = self.running.get(key, 0) + 1

    def stops(self, key: AttemptKey) -> None:
        self.running[key] -= 1

    def hit(self, key: AttemptKey, blow: Blow) -> Blow:
        self.blows.setdefault(key, []).append(blow)
        return blow

    def of(self, key: AttemptKey) -> list[Blow]:
        return self.blows.get(key, [])

    def stopped(self, job: str, pod: str, now: float) -> None:
        """The container of a pod really ended."""
        held = self.held.get(job, {}).get(pod)
        if held is not None and held.stopped is None:
            held.stopped = now

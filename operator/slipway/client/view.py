"""A SliceJob as the SDK reads it: only what calls need, so that a newer operator's fields do no harm."""

import msgspec

from slipway.api.status import Cause, ConditionType, Phase, PhaseKind
from slipway.client import errors
from slipway.client.errors import HostFailure, JobInfo
from slipway.core.vocabulary.charges import FAILURES, PREEMPTIONS, Budget, charge_of


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    """Part of a SliceJob, in camelCase outside."""


class Metadata(_Object, frozen=True):
    """Which job it is."""

    name: str
    uid: str
    resource_version: str
    generation: int = 0
    annotations: dict[str, str] = {}
    deletion_timestamp: str | None = None


class Root(_Object, frozen=True):
    """Where an attempt broke."""

    slice: int | None = None
    host: int | None = None
    exit_code: int | None = None
    signal: int | None = None
    log: str | None = None


class Attempt(_Object, frozen=True):
    """One try."""

    number: int
    cause: str | None = None
    reason: str | None = None
    message: str | None = None
    root: Root | None = None
    running_time: str | None = None
    end_time: str | None = None


class Result(_Object, frozen=True):
    """How the job ended."""

    reason: str
    message: str


class Resolved(_Object, frozen=True):
    """The effective shape."""

    hosts: int


class Slices(_Object, frozen=True):
    """How many slices the last attempt had."""

    granted: int


class Condition(_Object, frozen=True):
    """A condition."""

    type: str
    status: str
    message: str = ""
    observed_generation: int = 0


class Status(_Object, frozen=True):
    """What became of the job."""

    phase: str | None = None
    attempt: int | None = None
    attempts: tuple[Attempt, ...] = ()
    result: Result | None = None
    resolved: Resolved | None = None
    slices: Slices | None = None
    conditions: tuple[Condition, ...] = ()


class RayFields(_Object, frozen=True):
    """What the Ray cluster is for."""

    keep_alive: bool = False


class Spec(_Object, frozen=True):
    """What was asked for."""

    ray: RayFields | None = None


class JobView(_Object, frozen=True):
    """The job."""

    metadata: Metadata
    spec: Spec = Spec()
    status: Status = Status()

    @property
    def keeps_ray(self) -> bool:
        """Whether it is a Ray cluster that stays."""
        return self.spec.ray is not None and self.spec.ray.keep_alive

    @property
    def terminating(self) -> bool:
        """Whether somebody deleted it, and something of it is left."""
        return self.metadata.deletion_timestamp is not None

    @property
    def over(self) -> bool:
        """Whether it will not change any more by itself."""
        return self._phase.final or self._phase.kind is PhaseKind.REFUSED

    @property
    def _phase(self) -> Phase:
        return Phase(self.status.phase or Phase.PENDING)

    @property
    def running_attempt(self) -> int | None:
        """Number of the attempt of which every host runs."""
        running = self.status.phase == Phase.RUNNING and self.status.attempts
        return self.status.attempts[0].number if running else None

    @property
    def story(self) -> str:
        """What it does or waits for, in a sentence; empty while no operator has said so."""
        told = (one.message for one in self.status.conditions if one.type == "Running" and one.message)
        return next((f"{self.status.phase}: {message}" for message in told), "")

    @property
    def waits_for_capacity(self) -> bool:
        """Whether there are too few nodes for it."""
        return self._phase.kind is PhaseKind.LACKS_NODES

    @property
    def spec_judged(self) -> bool:
        """Whether an operator has accepted or refused the spec as it is now."""
        if self._phase.final or self.status.attempt is not None:
            return True
        accepted = (one for one in self.status.conditions if one.type == ConditionType.ACCEPTED)
        return any(one.observed_generation == self.metadata.generation for one in accepted)

    @property
    def refusal(self) -> str:
        """Why the operator does not accept it, in a sentence; empty where it does."""
        return self._message() if self._phase.kind is PhaseKind.REFUSED else ""

    def condition(self, kind: str) -> bool:
        """Whether that condition is true."""
        return any(one.type == kind and one.status == "True" for one in self.status.conditions)

    def attempt(self, number: int) -> Attempt | None:
        """That attempt, unless it is too long ago."""
        return next((one for one in self.status.attempts if one.number == number), None)

    def ended(self, number: int) -> bool:
        """Whether that attempt is over, though perhaps not yet judged."""
        attempt = self.attempt(number)
        return attempt is None or attempt.end_time is not None

    def judged(self, number: int) -> bool:
        """Whether the operator has told why that attempt ended."""
        attempt = self.attempt(number)
        return attempt is None or attempt.cause is not None

    def loss(self, number: int, kind: str) -> errors.JobError | None:
        """The error that the end of that attempt stands for; None where the operator knows of no end.

        Args:
            kind: what the job ran on, TPU, GPU or CPU.
        """
        attempt = self.attempt(number)
        if attempt is None or attempt.cause is None:
            return None
        found = _LOSSES.get(charge_of(Cause(attempt.cause)).budget, errors.JobError)
        info = JobInfo(self.metadata.name, _STATES.get(found, "error"), kind)
        return found(f"attempt {number} was lost: {attempt.message}", info, self._failure(attempt))

    def error(self, kind: str) -> errors.JobError:
        """The error that the end of the job stands for.

        Args:
            kind: what the job ran on, TPU, GPU or CPU.
        """
        found = _ENDS.get(self._phase, errors.JobError)
        result = self.status.result
        newest = self.status.attempts[0].reason if self.status.attempts else None
        if result is not None and result.reason == "ScheduleTimeout" and newest in (None, result.reason):
            found = errors.CapacityUnavailable
        info = JobInfo(self.metadata.name, _STATES.get(found, "error"), kind)
        return found(self._message(), info, self._failure(*self.status.attempts[:1]))

    def _message(self) -> str:
        if self.status.result is not None:
            return self.status.result.message
        words = [one.message for one in self.status.conditions if one.type == "Accepted"]
        return next(iter(words), "") or f"it is {self.status.phase}"

    def _failure(self, attempt: Attempt | None = None) -> HostFailure | None:
        root = attempt.root if attempt else None
        if root is None:
            return None
        per_slice = self.status.resolved.hosts if self.status.resolved else 1
        placed = root.slice is not None and root.host is not None
        index = (root.slice or 0) * per_slice + (root.host or 0) if placed else None
        return HostFailure(root.slice, root.host, index, root.exit_code, root.signal, root.log or "")


_ENDS: dict[str, type[errors.JobError]] = {
    Phase.FAILED: errors.JobFailed,
    Phase.PREEMPTED: errors.JobPreempted,
    Phase.CANCELLED: errors.JobCancelled,
    Phase.INVALID: errors.InvalidJob,
}
_LOSSES: dict[Budget | None, type[errors.JobError]] = {
    FAILURES: errors.JobFailed,
    PREEMPTIONS: errors.JobPreempted,
}
_STATES: dict[type[errors.JobError], errors.State] = {
    errors.JobFailed: "failed",
    errors.JobPreempted: "preempted",
}

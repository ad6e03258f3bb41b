"""A SliceJob as the SDK reads it: only what calls need, so that a newer operator's fields do no harm."""

import msgspec

from slipway.api.status import Phase
from slipway.sdk import errors
from slipway.sdk.errors import HostFailure, JobInfo


class _Object(msgspec.Struct, frozen=True, rename="camel"):
    """Part of a SliceJob, in camelCase outside."""


class Metadata(_Object, frozen=True):
    """Which job it is."""

    name: str
    uid: str
    resource_version: str
    annotations: dict[str, str] = {}


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


class Status(_Object, frozen=True):
    """What became of the job."""

    phase: str | None = None
    attempt: int | None = None
    attempts: tuple[Attempt, ...] = ()
    result: Result | None = None
    resolved: Resolved | None = None
    slices: Slices | None = None
    conditions: tuple[Condition, ...] = ()


class JobView(_Object, frozen=True):
    """The job."""

    metadata: Metadata
    status: Status = Status()

    @property
    def over(self) -> bool:
        """Whether it will not change any more by itself."""
        return self.status.phase in (*_ENDS, Phase.SUCCEEDED)

    @property
    def running_attempt(self) -> int | None:
        """Number of the attempt of which every host runs."""
        running = self.status.phase == Phase.RUNNING and self.status.attempts
        return self.status.attempts[0].number if running else None

    def condition(self, kind: str) -> bool:
        """Whether that condition is true."""
        return any(one.type == kind and one.status == "True" for one in self.status.conditions)

    def error(self, kind: str) -> errors.JobError:
        """The error that the end of the job stands for.

        Args:
            kind: what the job ran on, TPU or CPU.
        """
        found = _ENDS[self.status.phase or ""]
        result = self.status.result
        if result is not None and result.reason == "ScheduleTimeout":
            found = errors.CapacityUnavailable
        info = JobInfo(self.metadata.name, _STATES.get(found, "error"), kind)
        return found(self._message(), info, self._failure())

    def _message(self) -> str:
        if self.status.result is not None:
            return self.status.result.message
        words = [one.message for one in self.status.conditions if one.type == "Accepted"]
        return next(iter(words), "") or f"it is {self.status.phase}"

    def _failure(self) -> HostFailure | None:
        root = self.status.attempts[0].root if self.status.attempts else None
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
_STATES: dict[type[errors.JobError], errors.State] = {
    errors.JobFailed: "failed",
    errors.JobPreempted: "preempted",
}

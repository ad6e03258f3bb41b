"""The errors that calls of the client and of the SDK raise.

SlipwayError
├── NotPicklable             something that was to travel cannot; nothing was started
├── PayloadTooLarge          it can, but is too large; nothing was started
├── ClusterError             the API server cannot be reached, or did not do what the call needs
│   ├── Unreachable          no answer: nothing is known of what was asked for
│   ├── NotAuthenticated     401, the API server does not know who we are
│   ├── NotAllowed           403, a role is missing, or a policy says no
│   ├── NotFound             404, there is no such job, or the cluster has no SliceJobs
│   ├── AlreadyExists        409, another job has the name
│   ├── ChangedMeanwhile     409, somebody else has changed the job
│   ├── Refused              400 or 422, the API server does not take the object, or no namespace has such a name;
│   │                        nothing was stored
│   ├── TooManyRequests      429, the API server is busy
│   └── ServerFailed         5xx, the API server failed
├── AlreadyFinished          the job has ended, and nothing about it can change any more
├── WaitTimeout              the job is not there yet; it goes on by itself, unless a call's timeout ended it
├── NotStarted               no pod of the job has started, so there is no log
├── LogsPurged               the pods are gone, and with them their logs
├── SessionClosed            the session was closed under the call
└── JobError                 the job did not succeed; `.info` says which, `.host` where, `.log` its last lines
    ├── JobFailed            the program failed as often as it may
    ├── JobPreempted         the job was preempted as often as it may
    ├── CapacityUnavailable  the slices did not come in time
    ├── JobCancelled         somebody cancelled it
    ├── InvalidJob           it can never start: the API server (400, 422) or the operator refused it
    ├── VersionMismatch      Python, Ray or cloudpickle differ between here and the image
    └── ResultMissing        the job succeeded, and its result could not be read
"""

from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")

State = Literal["succeeded", "failed", "preempted", "error"]


class SlipwayError(Exception):
    """Anything that a call of the SDK raises on purpose."""


class NotPicklable(SlipwayError, TypeError):
    """A function, a class or an argument cannot travel; nothing was started."""


class PayloadTooLarge(SlipwayError, ValueError):
    """What was to travel does not fit into a Secret; nothing was started."""


class ClusterError(SlipwayError):
    """The API server cannot be reached, does not know who we are, or did not do what the call needs."""


class Unreachable(ClusterError):
    """The API server gave no answer; whether it carried the request out is not known."""


class NotAuthenticated(ClusterError):
    """The API server does not know who we are."""


class NotAllowed(ClusterError):
    """A role is missing, or an admission policy says no; nothing was done."""


class NotFound(ClusterError):
    """There is no such job, or the cluster has no SliceJobs."""


class AlreadyExists(ClusterError):
    """Another job has the name; nothing was stored."""


class ChangedMeanwhile(ClusterError):
    """Somebody else has changed the job."""


class Refused(ClusterError):
    """The API server does not take the object, or no namespace can have the name; nothing was stored."""


class TooManyRequests(ClusterError):
    """The API server is busy; nothing was done."""


class ServerFailed(ClusterError):
    """The API server failed; whether it carried the request out is not known."""


class AlreadyFinished(SlipwayError):
    """The job has ended, and nothing about it can change any more."""


class WaitTimeout(SlipwayError, TimeoutError):
    """The job is not there yet; it goes on by itself, unless a call's timeout ended it."""


class NotStarted(SlipwayError):
    """No pod of the job has started, so there is no log."""


class LogsPurged(SlipwayError):
    """The pods are gone, and with them their logs."""


class SessionClosed(SlipwayError):
    """The session was closed before the call had its result."""


@dataclass(frozen=True, slots=True)
class JobInfo:
    """Which job, what became of it, and what it ran on."""

    name: str
    """Name of the SliceJob."""
    state: State
    """What became of it."""
    kind: str
    """TPU, GPU or CPU."""


@dataclass(frozen=True, slots=True)
class HostFailure:
    """The host that ended the last attempt."""

    slice: int | None
    """Slice index; None for the Ray head."""
    host: int | None
    """Host index within its slice; None for the Ray head."""
    index: int | None
    """Flat index: slice-major, then host; None for the Ray head."""
    exit_code: int | None
    """Exit code; None where the host was lost."""
    signal: int | None
    """Signal that ended it."""
    log: str
    """Its last lines, at most 2 KiB, secrets removed."""

    def __str__(self) -> str:
        if self.slice is None:
            return "the Ray head"
        return f"host {self.host} of slice {self.slice} (index {self.index})"


@dataclass(frozen=True, slots=True)
class JobSucceeded(Generic[T]):
    """The job succeeded."""

    info: JobInfo
    result: T
    """One for each host: slice-major, then by host."""


class JobError(SlipwayError):
    """The job did not succeed."""

    def __init__(self, message: str, info: JobInfo, failure: HostFailure | None = None) -> None:
        tail = f"\n{failure}, last lines:\n{failure.log.rstrip()}" if failure and failure.log else ""
        super().__init__(f"SliceJob {info.name}: {message}{tail}")
        self.info = info
        """Which job."""
        self.host = failure
        """Where it went wrong, when that is known."""
        self.outputs: list[str | None] = []
        """What each host of a container call wrote in the last attempt, None where that is gone; see
        `capture_output`."""

    def __reduce__(self) -> tuple[Any, ...]:
        """How it travels between processes."""
        # By default the finished message alone would be given to the constructor, and an error that cannot be
        # unpickled breaks the pool of processes that it comes from, or has its caller wait for ever.
        return _restored, (type(self), *self.args), self.__dict__

    @property
    def exit_code(self) -> int | None:
        """Exit code of that host."""
        return self.host.exit_code if self.host else None

    @property
    def log(self) -> str:
        """Last lines of that host, at most 2 KiB."""
        return self.host.log if self.host else ""


def _restored(kind: type[JobError], *args: Any) -> JobError:
    return kind.__new__(kind, *args)


class JobFailed(JobError):
    """The program failed as often as it may; `__cause__` is the function's own exception, when it could travel."""


class JobPreempted(JobError):
    """The job was preempted as often as it may."""


class CapacityUnavailable(JobError):
    """The slices did not come in time."""


class JobCancelled(JobError):
    """Somebody cancelled the job, or deleted it."""


class InvalidJob(JobError):
    """The API server or the operator refused the job as it is written, so it can never start."""


class VersionMismatch(JobError):
    """Python, Ray or cloudpickle differ between this process and the image."""


class ResultMissing(JobError):
    """The job succeeded, and the result could not be read."""

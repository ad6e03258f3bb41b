"""The errors that the end of a job, or of one of its attempts, stands for."""

from typing import Final

from slipway.api.status import Attempt, Phase
from slipway.client import errors
from slipway.client.errors import HostFailure, JobError, JobInfo
from slipway.client.model import JobState
from slipway.core.vocabulary.charges import FAILURES, PREEMPTIONS, Budget, charge_of
from slipway.core.vocabulary.endings import SCHEDULE_TIMEOUT

_ENDS: Final[dict[Phase, type[JobError]]] = {
    Phase.FAILED: errors.JobFailed,
    Phase.PREEMPTED: errors.JobPreempted,
    Phase.CANCELLED: errors.JobCancelled,
    Phase.INVALID: errors.InvalidJob,
}
_LOSSES: Final[dict[Budget | None, type[JobError]]] = {
    FAILURES: errors.JobFailed,
    PREEMPTIONS: errors.JobPreempted,
}
_STATES: Final[dict[type[JobError], errors.State]] = {
    errors.JobFailed: "failed",
    errors.JobPreempted: "preempted",
}


def failure(job: JobState) -> JobError | None:
    """The error that the end of a job stands for; None when it succeeded or has not ended."""
    return error_of(job) if job.over and job.phase != Phase.SUCCEEDED else None


def error_of(job: JobState) -> JobError:
    """The error that the end of a job stands for; the job has ended without success."""
    kind, newest, result = _ENDS.get(Phase(job.phase), JobError), job.attempt, job.status.result
    reason = newest.reason if newest is not None else None
    if result is not None and result.reason == SCHEDULE_TIMEOUT.reason and reason in (None, SCHEDULE_TIMEOUT.reason):
        kind = errors.CapacityUnavailable
    message = result.message if result is not None else job.refusal
    return _error(job, kind, message or f"it is {job.status.phase}", newest)


def loss(job: JobState, number: int) -> JobError | None:
    """The error that the end of that attempt stands for; None where the operator has not written a cause."""
    attempt = job.recorded(number)
    if attempt is None or attempt.cause is None:
        return None
    kind = _LOSSES.get(charge_of(attempt.cause).budget, JobError)
    return _error(job, kind, f"attempt {number} was lost: {attempt.message}", attempt)


def _error(job: JobState, kind: type[JobError], message: str, attempt: Attempt | None) -> JobError:
    info = JobInfo(job.name, _STATES.get(kind, "error"), job.hardware)
    return kind(message, info, _host_failure(job, attempt))


def _host_failure(job: JobState, attempt: Attempt | None) -> HostFailure | None:
    root = attempt.root if attempt is not None else None
    if root is None:
        return None
    index = None
    if root.slice is not None and root.host is not None:
        index = root.slice * (job.status.resolved.hosts if job.status.resolved else 1) + root.host
    return HostFailure(root.slice, root.host, index, root.exit_code, root.signal, root.log or "")

"""The fields of a log line about a job beside its message: `--log-format json`."""

from typing import Any

from slipway.api.status import Attempt
from slipway.core.model.job import Job


def log_fields(job: Job, attempt: Attempt | None = None) -> dict[str, Any]:
    """The fields of a line about a job, and about one of its attempts if it is of one.

    With `spec` the formatter removes the job's secrets from the line; the spec itself is not logged.
    """
    root = attempt.root if attempt is not None else None
    return {
        "job": f"{job.namespace}/{job.name}",
        "attempt": attempt.number if attempt is not None else job.status.attempt,
        "slice": root.slice if root is not None else None,
        "host": root.host if root is not None else None,
        "cause": attempt.cause if attempt is not None else None,
        "spec": job.site.hiding(job.spec),
    }

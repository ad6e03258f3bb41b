"""How long the engine leaves a job alone after an error in its turn."""

import logging
from typing import Final

from slipway.apiserver.errors import ApiError, Conflict, Forbidden, SlipwayClusterError
from slipway.controller.observability.log_fields import log_fields
from slipway.core.model.job import Job, Key

log = logging.getLogger(__name__)

CONFLICT_SECONDS: Final = 0.1
FORBIDDEN_SECONDS: Final = 30.0
"""A missing role is not found by asking often."""
FIRST_SECONDS: Final = 0.5
LONGEST_SECONDS: Final = 60.0


def backoff(error: BaseException, failures: int) -> float:
    """Seconds until the next try.

    Args:
        error: what went wrong this time.
        failures: how many times in a row something has gone wrong, this one included.
    """
    if isinstance(error, Conflict):
        return CONFLICT_SECONDS * min(failures, 10)
    if isinstance(error, Forbidden):
        return FORBIDDEN_SECONDS
    wait = min(FIRST_SECONDS * 2.0 ** min(failures - 1, 16), LONGEST_SECONDS)
    if isinstance(error, ApiError) and error.retry_after is not None:
        return max(wait, error.retry_after)
    return wait


class Failures:
    """How often in a row something has gone wrong with each job."""

    def __init__(self) -> None:
        self._in_a_row: dict[Key, int] = {}

    def add(self, key: Key, job: Job | None, error: Exception) -> float:
        """Log what went wrong; returns seconds until the next try."""
        failures = self._in_a_row[key] = self._in_a_row.get(key, 0) + 1
        wait = backoff(error, failures)
        expected = isinstance(error, SlipwayClusterError)
        log.log(
            logging.WARNING if expected else logging.ERROR,
            "%s; next try in %.1f s",
            error if expected else "a mistake in Slipway",
            wait,
            extra={"job": "/".join(key)} if job is None else log_fields(job),
            exc_info=None if expected else error,
        )
        return wait

    def forget(self, key: Key) -> None:
        """It went well this time."""
        self._in_a_row.pop(key, None)

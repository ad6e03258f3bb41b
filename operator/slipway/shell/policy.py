"""How long to leave a job alone after something went wrong with it."""

from typing import Final

from slipway.cluster.errors import ApiError, Conflict, Forbidden, TooManyRequests

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
    if isinstance(error, ApiError | TooManyRequests) and error.retry_after is not None:
        return max(wait, error.retry_after)
    return wait

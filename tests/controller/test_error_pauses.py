import pytest

from slipway.apiserver.errors import (
    LONGEST_RETRY_AFTER,
    Conflict,
    ConnectionLost,
    Details,
    Forbidden,
    ServerError,
    TooManyRequests,
)
from slipway.controller.error_pauses import LONGEST_SECONDS, backoff

CASES = [
    ("a change of somebody else is followed at once", Conflict(409, "", ""), 1, 0.1),
    ("a fight over an object slows down", Conflict(409, "", ""), 99, 1.0),
    ("a missing role is asked for rarely", Forbidden(403, "", ""), 1, 30.0),
    ("the first failure", ConnectionLost("x"), 1, 0.5),
    ("each further failure doubles it", ServerError(500, "", ""), 4, 4.0),
    ("but not for ever", ValueError("a mistake"), 1000, LONGEST_SECONDS),
    (
        "the server's word counts when it is longer",
        TooManyRequests(429, "", "", Details(retry_after_seconds=9)),
        1,
        9.0,
    ),
    (
        "but no server has a job left alone for an hour",
        ServerError(503, "", "", Details(retry_after_seconds=3600)),
        1,
        LONGEST_RETRY_AFTER,
    ),
    ("and not when it is shorter", TooManyRequests(429, "", "", Details(retry_after_seconds=1)), 5, 8.0),
]


@pytest.mark.parametrize(
    ("error", "failures", "seconds"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_backoff(error: Exception, failures: int, seconds: float) -> None:
    assert backoff(error, failures) == seconds

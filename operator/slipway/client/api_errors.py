"""What the API server answers as the errors of the client."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from slipway.apiserver import errors as answers
from slipway.apiserver.access import AccessError
from slipway.apiserver.errors import SlipwayClusterError
from slipway.client import errors
from slipway.client.errors import ClusterError

NO_SLICEJOBS: Final = "this cluster has no SliceJobs: Slipway's CRD is not installed"
_UNKNOWN: Final = ("the server could not find the requested resource", "404 page not found")
"""What the API server says of a kind that it does not know, in a Status or in plain text.

Every cluster has all kinds that the client asks for but SliceJobs. Any other 404 without a Status comes from a proxy or
load balancer in front of the API server.
"""
_KINDS: Final[dict[type[Exception], type[ClusterError]]] = {
    AccessError: errors.Unreachable,
    answers.ConnectionLost: errors.Unreachable,
    answers.Unauthorized: errors.NotAuthenticated,
    answers.Forbidden: errors.NotAllowed,
    answers.NotFound: errors.NotFound,
    answers.AlreadyExists: errors.AlreadyExists,
    answers.Conflict: errors.ChangedMeanwhile,
    answers.BadRequest: errors.Refused,
    answers.Invalid: errors.Refused,
    answers.TooManyRequests: errors.TooManyRequests,
    answers.ServerError: errors.ServerFailed,
}


def typed(error: Exception) -> ClusterError:
    """The error that callers see for one of the connection's."""
    words = str(error)
    if isinstance(error, answers.NO_RESOURCE) and words in _UNKNOWN:
        return errors.NotFound(NO_SLICEJOBS)
    return _KINDS.get(type(error), ClusterError)(words)


@contextmanager
def as_client_errors() -> Iterator[None]:
    """Raises what the API server answers as the errors of the client."""
    try:
        yield
    except SlipwayClusterError as error:
        raise typed(error) from error

"""The errors of requests to the API server: one class for each answer that callers tell apart.

SlipwayClusterError
├── ApiError                 the server answered with a Status
│   ├── BadRequest           400
│   ├── Unauthorized         401
│   ├── Forbidden            403
│   ├── NotFound             404, there is no such object
│   ├── NoSuchPath           404 without that word: there is no such resource, or something on the way answered
│   ├── Conflict             409, the object has changed meanwhile
│   ├── AlreadyExists        409, the name is taken
│   ├── Gone                 410, the resource version is too old to watch from
│   ├── Invalid              422, the message names the fields
│   ├── TooManyRequests      429, `.retry_after`
│   └── ServerError          5xx
├── ConnectionLost           no answer, or half of one
└── Garbled                  an answer that cannot be read
"""

from typing import Final

import msgspec

LONGEST_RETRY_AFTER: Final = 30.0
"""Seconds. A proxy in maintenance asks for an hour, and what is not seen or written meanwhile is not acted on."""


class Details(msgspec.Struct, frozen=True, rename="camel"):
    """The details of a Status."""

    retry_after_seconds: float | None = None


class Status(msgspec.Struct, frozen=True):
    """The Status object of meta/v1."""

    code: int = 0
    reason: str = ""
    message: str = ""
    details: Details | None = None


class SlipwayClusterError(Exception):
    """Anything that goes wrong between this process and the API server."""


class ConnectionLost(SlipwayClusterError):
    """The server gave no answer, or not all of it; whether it acted is unknown."""


class Garbled(SlipwayClusterError):
    """The server's answer cannot be read."""


class ApiError(SlipwayClusterError):
    """The server refused, and said why."""

    def __init__(self, status: int, reason: str, message: str, details: Details | None = None) -> None:
        super().__init__(message or reason or f"HTTP {status}")
        self.status: Final = status
        """HTTP status code."""
        self.reason: Final = reason
        """Kubernetes' reason in one CamelCase word; empty when a proxy answered."""
        self.message: Final = message or reason or f"HTTP {status}"
        self.details: Final = details or Details()

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait before the next try, as the server asks for; no more than LONGEST_RETRY_AFTER."""
        asked = self.details.retry_after_seconds
        return min(asked, LONGEST_RETRY_AFTER) if asked is not None else None


class BadRequest(ApiError):
    """The request cannot be read; with strict field validation also: it has an unknown field."""


class Unauthorized(ApiError):
    """The server does not know who we are."""


class Forbidden(ApiError):
    """A role, a policy, an admission rule or a quota is in the way."""


class NotFound(ApiError):
    """There is no such object; the API server says so in a Status."""


class NoSuchPath(ApiError):
    """The answer is a 404 without a Status, which is no proof that an object is gone.

    The API server answers so for a resource whose CRD is not installed. A load balancer in front of it answers so for
    every path while it has no API server behind it.
    """


class Conflict(ApiError):
    """The object has another UID or resource version by now."""


class AlreadyExists(ApiError):
    """The name is taken."""


class Gone(ApiError):
    """The resource version or the continuation is too old."""


class Invalid(ApiError):
    """The object breaks a rule of its schema or of validation."""


class TooManyRequests(ApiError):
    """The server is busy."""


class ServerError(ApiError):
    """The server failed, or timed out, on its own side."""


_BY_REASON: Final[dict[str, type[ApiError]]] = {
    "AlreadyExists": AlreadyExists,
    "Expired": Gone,
    "Gone": Gone,
    "NotFound": NotFound,
}
_BY_STATUS: Final[dict[int, type[ApiError]]] = {
    400: BadRequest,
    401: Unauthorized,
    403: Forbidden,
    404: NoSuchPath,
    409: Conflict,
    410: Gone,
    422: Invalid,
    429: TooManyRequests,
}
NO_RESOURCE: Final = (NotFound, NoSuchPath)
"""What a request for a resource may get whose CRD is not installed; of an object only `NotFound` is proof."""
_MAX_TEXT: Final = 512
UNREADABLE: Final = (ValueError, RecursionError)
"""What reading JSON may raise: a text that is not UTF-8 is none of msgspec's own errors, nor is too deep a nest."""

_decoder: Final = msgspec.json.Decoder(Status)


def from_status(status: Status) -> ApiError:
    """The error that a Status object stands for."""
    fallback = ServerError if status.code >= 500 else ApiError
    kind = _BY_REASON.get(status.reason) or _BY_STATUS.get(status.code, fallback)
    return kind(status.code, status.reason, status.message, status.details)


def from_response(code: int, content: bytes, retry_after: str | None = None) -> ApiError:
    """The error that an HTTP answer of 400 or more stands for, whoever on the way it is from.

    Args:
        code: HTTP status code.
        content: body of the answer; a Status, unless a proxy wrote it.
        retry_after: the Retry-After header in seconds, used when the body does not say.
    """
    try:
        read = _decoder.decode(content)
    except UNREADABLE:
        read = Status(message=content[:_MAX_TEXT].decode(errors="replace").strip())
    details = read.details or Details()
    if details.retry_after_seconds is None and retry_after is not None and retry_after.isdecimal():
        details = msgspec.structs.replace(details, retry_after_seconds=float(retry_after))
    return from_status(msgspec.structs.replace(read, code=code, details=details))

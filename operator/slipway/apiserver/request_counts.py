"""Counts what the API server is asked, by verb and answer: a middleware of every HTTP session, kopf's included."""

import logging
import re
import time
from collections import Counter
from typing import Final

import aiohttp

log = logging.getLogger(__name__)

VERBS: Final = ("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection")
"""Kubernetes' words for requests, as roles and audit logs have them."""
NO_ANSWER: Final = "none"
"""Stands where the HTTP status would for a request that got no answer."""

_COLLECTION: Final = re.compile(r"/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/[^/]+)?/[^/]+$")
_OF_ONE: Final = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
_OF_MANY: Final = {"GET": "list", "DELETE": "deletecollection"}


class Calls:
    """The requests of one process."""

    def __init__(self) -> None:
        self.counts: Final[Counter[tuple[str, str]]] = Counter()
        """How often, by verb and HTTP status (NO_ANSWER without one)."""
        self._watched: Final[dict[str, float]] = {}

    async def count(self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
        """Send a request on and count it; the middleware."""
        verb = verb_of(request.method, request.url.path, watch="watch" in request.url.query)
        try:
            response = await handler(request)
        except BaseException:
            # Also when its time is over, which reaches this place as a cancellation.
            self.counts[verb, NO_ANSWER] += 1
            raise
        self.counts[verb, str(response.status)] += 1
        log.debug("%s %s: %d", verb, request.url.path, response.status)
        if verb == "watch" and response.ok:
            self._watched[request.url.path] = time.monotonic()
        return response

    def last_watched(self, path: str) -> float:
        """When a watch of a path was last answered, in seconds of `time.monotonic`; 0 if none ever was."""
        # An API server may be behind a path of its own.
        return max((at for known, at in self._watched.items() if known.endswith(path)), default=0.0)


def verb_of(method: str, path: str, *, watch: bool = False) -> str:
    """Kubernetes' word for a request with that HTTP method and path."""
    if watch:
        return "watch"
    of_many = _OF_MANY.get(method) if _COLLECTION.search(path) else None
    return of_many or _OF_ONE.get(method, "get")

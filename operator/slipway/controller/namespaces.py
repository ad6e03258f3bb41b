"""What there is to serve: whether the API server knows SliceJobs, and in which namespaces they may be listed."""

import asyncio
import logging
from contextlib import suppress
from typing import Final

import msgspec

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import (
    NO_RESOURCE,
    ConnectionLost,
    Forbidden,
    NotFound,
    ServerError,
    SlipwayClusterError,
    TooManyRequests,
)
from slipway.apiserver.wire import JsonObject
from slipway.controller.error_pauses import backoff
from slipway.controller.observability.health import Probes

log = logging.getLogger(__name__)

LONGEST_PAUSE: Final = 30.0
"""Seconds, at most, between two looks for the CRD or the API server."""
RIGHTS_SECONDS: Final = 60.0
"""Between two looks at one's rights, of which no watch tells."""
UNASKED_SECONDS: Final = 30.0
"""How long kopf may take to ask for SliceJobs: it looks once for what there is, and watches nothing it did not find."""
_MAY_PASS: Final = (*NO_RESOURCE, ConnectionLost, ServerError, TooManyRequests)
_MISSING: Final = (
    "the API server does not know SliceJobs: install the CRD of the chart (kubectl apply -f crds/, or helm upgrade)"
)


class Refused(Exception):
    """The operator cannot work in this cluster; the message says why."""


class _Resource(msgspec.Struct):
    name: str


class _Resources(msgspec.Struct):
    resources: tuple[_Resource, ...] | None = None


class Served:
    """The namespaces of an operator; none named means all of them, at once."""

    def __init__(self, api: ApiConnection, named: tuple[str, ...]) -> None:
        self._api = api
        self._named = named
        self.namespaces: tuple[str, ...] = named
        """Those whose SliceJobs may be listed. The rights to a namespace are in it, and go when it is deleted."""

    async def until_known(self, probes: Probes, stop: asyncio.Event) -> None:
        """Wait until the API server serves SliceJobs, or for `stop`.

        An API server that is away comes back, and a CRD can be installed at any time; ending because of it would only
        add the kubelet's pause to the outage.

        Raises:
            Refused: when waiting does not help.
        """
        failures = 0
        while not stop.is_set():
            try:
                self.namespaces = await self._look()
            except _MAY_PASS as error:
                failures += 1
                waiting = _MISSING if isinstance(error, NO_RESOURCE) else f"the API server does not answer: {error}"
                if failures == 1 or waiting != probes.waiting:
                    log.warning("%s; Slipway goes on trying", waiting)
                probes.waiting = waiting
                with suppress(TimeoutError):
                    await asyncio.wait_for(stop.wait(), min(backoff(error, failures), LONGEST_PAUSE))
            except SlipwayClusterError as error:
                raise Refused(f"SliceJobs cannot be listed: {error}") from error
            else:
                if left := sorted({*self._named} - {*self.namespaces}):
                    log.warning(
                        "SliceJobs of %s may not be listed: Slipway serves the other namespaces", ", ".join(left)
                    )
                return

    async def until_changed(self, asked: asyncio.Event) -> None:
        """Wait until a named namespace is lost, or comes back, or kopf has not `asked` for SliceJobs in time.

        kopf may be answered by another API server, which has not found the CRD yet.
        """
        try:
            async with asyncio.timeout(UNASKED_SECONDS):
                await asked.wait()
        except TimeoutError:
            log.warning("SliceJobs are not watched, perhaps as an API server did not name them: Slipway begins anew")
            return
        while True:
            await asyncio.sleep(RIGHTS_SECONDS)
            if self._named and await self.changed():
                return

    async def changed(self) -> bool:
        """Whether the CRD is gone, or SliceJobs may be listed in other namespaces than before."""
        try:
            return await self._look() != self.namespaces
        except SlipwayClusterError as error:
            return isinstance(error, NO_RESOURCE)

    async def _look(self) -> tuple[str, ...]:
        allowed, refused = [], None
        for namespace in self._named or ("",):
            try:
                await self._api.get(f"{paths.jobs(namespace)}?limit=1", JsonObject)
            except Forbidden as error:
                refused = error
            else:
                allowed.append(namespace)
        if refused is not None and not allowed:
            raise refused
        resources = await self._api.get(paths.RESOURCES, _Resources)
        if names.PLURAL not in {resource.name for resource in resources.resources or ()}:
            raise NotFound(404, "NotFound", f"{paths.RESOURCES} does not name {names.PLURAL} yet")
        return tuple(filter(None, allowed))

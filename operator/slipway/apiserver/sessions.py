"""The HTTP sessions with the API server: their pools of connections, TLS, proxy and credentials."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final, cast

import aiohttp
from aiohttp.client_proto import ResponseHandler

from slipway.apiserver.access import Access
from slipway.apiserver.request_counts import Calls

MAX_CONNECTIONS: Final = 160
"""Of requests: 64 creations, 32 deletions, 32 looks, and one of each of 32 workers besides.

Watches last, so each has a connection of its own.
"""
_LAST_TURNS: Final = 5


class _Protocol(ResponseHandler):
    """Notes its connection from the end of the handshake on: who asked for it may be cancelled in that moment."""

    def __init__(self, established: set[asyncio.Transport], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop)
        self._established = established
        self._noted: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._noted = cast(asyncio.Transport, transport)
        self._established.add(self._noted)

    def connection_lost(self, exc: BaseException | None) -> None:
        if self._noted is not None:
            self._established.discard(self._noted)
        super().connection_lost(exc)


class _Connector(aiohttp.TCPConnector):
    """A pool that leaves no connection open when it is closed.

    A request that is cancelled gives its connection back to be closed, and TLS waits then for the server to close it,
    too: a busy one takes longer than the event loop may last. aiohttp forgets such a connection.
    """

    def __init__(self, access: Access, *, limit: int) -> None:
        super().__init__(limit=limit, ssl=access.ssl or True, keepalive_timeout=60)
        self._open: set[asyncio.Transport] = set()
        protocol: Callable[..., ResponseHandler] = _Protocol
        self._factory = partial(protocol, self._open, self._loop)

    async def close(self, *, abort_ssl: bool = False) -> None:
        """Close every connection at once."""
        await super().close(abort_ssl=abort_ssl)
        for transport in tuple(self._open):
            # In Debian's Python (3.11.2) a TLS transport that was closed twice cannot be aborted.
            with suppress(AttributeError):
                transport.abort()


async def _written_once(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keeps aiohttp from sending a PUT or a DELETE again, of which neither the guard nor its sender would know.

    aiohttp does so when a connection breaks that was kept, unless it gets another error.
    """
    try:
        return await handler(request)
    except (aiohttp.ClientOSError, aiohttp.ServerDisconnectedError) as error:
        if request.method == "GET":
            raise
        raise aiohttp.ClientConnectionError(str(error)) from error


async def _not_redirected(request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType) -> aiohttp.ClientResponse:
    """Keeps aiohttp from sending the request again to the address that an answer of 3xx names, with the credentials.

    No API server answers so. A proxy in front of it does, and has not passed the request on.
    """
    response = await handler(request)
    if not 300 <= response.status < 400:
        return response
    response.close()
    where = response.headers.get("Location", "").partition("?")[0]
    raise aiohttp.ClientConnectionError(f"answered with {response.status}, a redirect to {where or 'nowhere'}")


class Sessions:
    """One session for requests and one for watches, both with the credentials of an `Access`."""

    def __init__(self, access: Access, calls: Calls) -> None:
        """Must be called, and closed, in a running event loop; `calls` counts the requests."""
        self._access = access
        self._calls = calls
        self._bounded = _Connector(access, limit=MAX_CONNECTIONS)
        self._unbounded = _Connector(access, limit=0)
        self.requests: Final = self._over(self._bounded)
        self.watches: Final = self.new()

    async def close(self) -> None:
        """Close every connection."""
        for session in (self.requests, self.watches):
            await session.close()
        for connector in (self._bounded, self._unbounded):
            await connector.close()
        # A connection that is broken off is closed in the next turns of the loop, which may be its last.
        for _ in range(_LAST_TURNS):
            await asyncio.sleep(0)

    def new(self, *middlewares: aiohttp.ClientMiddlewareType) -> aiohttp.ClientSession:
        """A session without a limit of connections; the caller closes it.

        The middlewares see each request before its credentials are added.
        """
        return self._over(self._unbounded, *middlewares)

    def _over(self, connector: _Connector, *middlewares: aiohttp.ClientMiddlewareType) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=connector,
            connector_owner=False,
            middlewares=(_written_once, _not_redirected, *middlewares, self._authorize, self._calls.count),
            proxy=self._access.proxy,
            headers={"User-Agent": "slipway"},
        )

    async def _authorize(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        # Set for each request rather than in the session's headers: tokens rotate while sessions live on.
        request.server_hostname = self._access.server_hostname
        if login := self._access.proxy_login:
            # The session itself has no place for it.
            request.update_proxy(request.proxy, None, {"Proxy-Authorization": login})
        if header := await self._access.authorization():
            request.headers["Authorization"] = header
        response = await handler(request)
        if response.status != 401 or not await self._access.renew():
            return response
        response.close()
        if header := await self._access.authorization():
            request.headers["Authorization"] = header
        return await handler(request)

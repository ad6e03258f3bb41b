"""The one way to the API server: plain JSON over one bounded pool of connections.

Models of the official client cost more than the whole round trip, so bodies are JSON on the way out and narrow
structs on the way in. What may be retried is retried here, because every name is deterministic and every change
carries a precondition; what may not be is left to the caller.
"""

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from math import inf
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import aiohttp
import msgspec

from slipway.apiserver.access import Access
from slipway.apiserver.errors import ApiError, ConnectionLost, ServerError, TooManyRequests, from_response
from slipway.apiserver.request_counts import Calls
from slipway.apiserver.sessions import Sessions
from slipway.apiserver.wire import JsonObject, Listing, Page, decode
from slipway.apiserver.writes import Writes

T = TypeVar("T")

PAGE_SIZE: Final = 500

READ_SECONDS: Final = 30.0
WRITE_SECONDS: Final = 4.5
"""A write takes no longer, and a leader's never longer than its leadership is certain to last."""
CHECK_SECONDS: Final = 12.0
"""A dry run writes nothing, and the API server names a webhook that does not answer, by default after 10 s."""
COLLECTION_SECONDS: Final = 30.0
"""Deleting thousands takes long; it only ever touches an attempt or a job that is over, so a late one does no harm."""
WATCH_SECONDS: Final = 290
"""After this the server ends a watch, by default; it is taken up again where it ended."""
SILENCE_SECONDS: Final = 75.0
"""A watch without even a bookmark for this long is dead. The server sends one each 60 s, and one before the end."""
_LATE_SECONDS: Final = 10.0
"""How late the end of a watch may be."""
CONNECT_SECONDS: Final = 10.0
"""A stream has no end of its own: a connection that is not there after this is given up, a proxy's part included."""

_PAUSES: Final = (0.1, 0.5)
"""Seconds before the second and third try."""
_LONGEST_PAUSE: Final = 3.0


def _nothing() -> None:
    """No guard, nobody to call."""


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    url: str
    query: Mapping[str, str] | None
    data: bytes | None
    headers: Mapping[str, str]
    limits: aiohttp.ClientTimeout


class ApiConnection:
    """The verbs of the API server.

    Each raises the tree of `slipway.apiserver.errors`. `guard` is called before every write, each retry included. It
    returns the most seconds that the write may take, or raises: a leader that has lost its Lease writes nothing.
    """

    def __init__(self, access: Access, guard: Callable[[], float] = lambda: inf, calls: Calls | None = None) -> None:
        """Must be called, and closed, in a running event loop; `calls` counts the requests."""
        self._access = access
        self.guard = guard
        self.on_date: Callable[[datetime, float], None] = lambda date, asked: None
        """Told the server's date of an answer, and when the question was asked by `time.monotonic`."""
        self._date = ""
        self._sessions = Sessions(access, calls or Calls())
        self.new_session = self._sessions.new
        """Makes a session for watches and streams with the same credentials."""
        self._writes = Writes()

    @property
    def server(self) -> str:
        """URL of the API server."""
        return self._access.server

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._writes.cancel()
        await self._sessions.close()

    async def get(self, path: str, kind: type[T], *, accept: str = "application/json") -> T:
        """One object."""
        return decode(kind, await self._send("GET", path, seconds=READ_SECONDS, accept=accept))

    async def pages(
        self, path: str, kind: type[T], *, label_selector: str = "", field_selector: str = ""
    ) -> AsyncIterator[Page[T]]:
        """A list, page by page; every page is as of the same resource version.

        Raises:
            Gone: when reading took so long that the server has forgotten that version.
        """
        query = {"limit": str(PAGE_SIZE)} | _selectors(label_selector, field_selector)
        while True:
            content = await self._send("GET", path, query=query, seconds=READ_SECONDS)
            page = decode(Page[kind], content)  # type: ignore[valid-type]
            yield page
            if not page.metadata.next:
                return
            query["continue"] = page.metadata.next

    async def list(self, path: str, kind: type[T], *, label_selector: str = "", field_selector: str = "") -> Listing[T]:
        """Every object, and the resource version to watch from."""
        items: list[T] = []
        version = ""
        async for page in self.pages(path, kind, label_selector=label_selector, field_selector=field_selector):
            version = version or page.metadata.resource_version
            items.extend(page.items or ())
        return Listing(items, version)

    async def watch(
        self,
        path: str,
        *,
        resource_version: str,
        label_selector: str = "",
        field_selector: str = "",
        seconds: int | None = None,
    ) -> AsyncGenerator[bytes, None]:
        """The raw lines of a watch, until the server ends it after so many seconds; bookmarks are asked for.

        Raises:
            ConnectionLost: when it breaks or falls silent.
        """
        seconds = seconds or WATCH_SECONDS
        query = {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
        } | _selectors(label_selector, field_selector)
        silence = min(SILENCE_SECONDS, seconds + _LATE_SECONDS)
        timeout = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=silence)
        try:
            async with self._sessions.watches.get(self.server + path, params=query, timeout=timeout) as response:
                if response.status >= 400:
                    raise from_response(response.status, await response.read(), response.headers.get("Retry-After"))
                rest = b""
                try:
                    async for chunk in response.content.iter_any():
                        *lines, rest = (rest + chunk).split(b"\n")
                        for line in lines:
                            yield line
                finally:
                    _break_off(response)
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionLost(f"watch of {path}: {_said(error)}") from error

    async def create(
        self,
        path: str,
        body: Mapping[str, Any],
        kind: type[T],
        *,
        check: bool = False,
        strict: bool = False,
        seconds: float = WRITE_SECONDS,
        on_retry: Callable[[], None] = _nothing,
    ) -> T:
        """Create an object of a deterministic name; `check` asks for a strict dry run.

        What is not `strict` loses the fields that the API server does not know.

        An answer lost on the way makes the retry end in AlreadyExists; the caller looks whose object it is. `on_retry`
        is called when the request is sent again: whatever the answer is then, the first may have been carried out.
        """
        if check:
            # Sent once: a webhook that had all that time without an answer has none a moment later.
            query = {"dryRun": "All", "fieldValidation": "Strict"}
            sent = self._send("POST", path, query=query, body=body, seconds=CHECK_SECONDS, write=True, pauses=())
        else:
            query = {"fieldValidation": "Strict"} if strict else {}
            sent = self._send("POST", path, query=query, body=body, seconds=seconds, write=True, on_retry=on_retry)
        return decode(kind, await sent)

    async def replace(self, path: str, body: Mapping[str, Any], kind: type[T]) -> T:
        """Replace an object; the body carries the resource version it is based on."""
        return decode(kind, await self._send("PUT", path, body=body, seconds=WRITE_SECONDS, write=True))

    async def patch(self, path: str, patch: Mapping[str, Any], kind: type[T]) -> T:
        """Merge into an object; the patch carries the resource version it is based on.

        Raises:
            Conflict: when the object has changed, or when a first try had been heard after all.
        """
        content = await self._send(
            "PATCH", path, body=patch, seconds=WRITE_SECONDS, write=True, content_type="application/merge-patch+json"
        )
        return decode(kind, content)

    async def patch_status(self, path: str, patch: Mapping[str, Any], kind: type[T]) -> T:
        """Merge into an object's status, in the same way."""
        return await self.patch(f"{path}/status", patch, kind)

    async def delete(
        self,
        path: str,
        *,
        uid: str,
        version: str | None = None,
        grace_seconds: int | None = None,
        propagation: str | None = None,
        on_retry: Callable[[], None] = _nothing,
    ) -> None:
        """Delete the object with that UID, and in that resource version if one is given.

        `on_retry` is called when the request is sent again: a first one that was carried out ends in Conflict, too.

        Raises:
            Conflict: when another object has the name by now, or it has changed.
        """
        body: JsonObject = {"preconditions": {"uid": uid}}
        if version is not None:
            body["preconditions"]["resourceVersion"] = version
        if grace_seconds is not None:
            body["gracePeriodSeconds"] = grace_seconds
        if propagation is not None:
            body["propagationPolicy"] = propagation
        await self._send("DELETE", path, body=body, seconds=WRITE_SECONDS, write=True, on_retry=on_retry)

    async def delete_collection(
        self,
        path: str,
        kind: type[T],
        *,
        label_selector: str,
        field_selector: str = "",
        grace_seconds: int | None = None,
        on_retry: Callable[[], None] = _nothing,
    ) -> tuple[T, ...]:
        """Delete everything that matches; returns it as it was just before.

        `on_retry` is called when the request is sent again: the first may have deleted what the answer does not name.
        """
        if not label_selector:
            raise ValueError("a collection is never deleted without a label selector")
        body = {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        query = _selectors(label_selector, field_selector)
        content = await self._send(
            "DELETE", path, query=query, body=body, seconds=COLLECTION_SECONDS, write=True, on_retry=on_retry
        )
        return decode(Page[kind], content).items or ()  # type: ignore[valid-type]

    async def _send(
        self,
        method: str,
        path: str,
        *,
        seconds: float,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        write: bool = False,
        content_type: str = "application/json",
        accept: str = "application/json",
        on_retry: Callable[[], None] = _nothing,
        pauses: Iterable[float] = _PAUSES,
    ) -> bytes:
        data = None if body is None else msgspec.json.encode(body)
        headers = {"Accept": accept} | ({} if body is None else {"Content-Type": content_type})

        async def once() -> bytes:
            left = self.guard() if write else inf
            # What may take longer than a write is of no harm when it is late.
            total = min(seconds, left) if seconds <= WRITE_SECONDS else seconds
            # The API server gives a write up as well, even when this process is frozen and breaks no connection.
            asked = {**(query or {}), "timeout": f"{total:.3f}s"} if write else query
            limits = aiohttp.ClientTimeout(total=total)
            return await self._once(_Request(method, self.server + path, asked, data, headers, limits))

        for pause in pauses:
            try:
                return await (self._writes.run(once) if write else once())
            except (ConnectionLost, ServerError, TooManyRequests) as error:
                asked = error.retry_after if isinstance(error, ApiError) else None
                wait = (asked or pause) * random.uniform(1.0, 1.5)
                if wait > _LONGEST_PAUSE:
                    raise
            await asyncio.sleep(wait)
            on_retry()
        return await (self._writes.run(once) if write else once())

    async def settle(self) -> None:
        """Wait until the writes of cancelled callers were answered or given up, so that none lands any more."""
        await self._writes.settle(WRITE_SECONDS)

    async def _once(self, request: _Request) -> bytes:
        asked = time.monotonic()
        try:
            async with self._sessions.requests.request(
                request.method,
                request.url,
                params=request.query,
                data=request.data,
                headers=request.headers,
                timeout=request.limits,
            ) as response:
                content = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionLost(f"{request.method} {request.url}: {_said(error)}") from error
        if response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            # A proxy in front of the API servers answers with errors, and a clock, of its own.
            self._dated(response.headers.get("Date", ""), asked)
        if response.status >= 400:
            raise from_response(response.status, content, response.headers.get("Retry-After"))
        return content

    def _dated(self, date: str, asked: float) -> None:
        if date != self._date:
            self._date = date
            with suppress(ValueError, OverflowError):
                read = parsedate_to_datetime(date)
                # With -0000 it is in UTC, too, but says nothing of a zone.
                self.on_date(read if read.tzinfo is not None else read.replace(tzinfo=UTC), asked)


def _break_off(response: aiohttp.ClientResponse) -> None:
    """Close the connection of a watch that nobody reads on at once: the server would end it minutes later."""
    if response.connection is not None and response.connection.transport is not None:
        response.connection.transport.abort()


def _selectors(labels: str, fields: str) -> dict[str, str]:
    given = {"labelSelector": labels, "fieldSelector": fields}
    return {name: value for name, value in given.items() if value}


def _said(error: BaseException) -> str:
    return str(error) or type(error).__name__

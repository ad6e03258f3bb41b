"""A server on 127.0.0.1 that answers as scripted: what a real API server does once a month, on demand."""

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web
from kubernetes.aio.client import Configuration

from slipway.apiserver.access import Access
from tests.serving import served

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Replay:
    """Answers each request with the next scripted answer; keeps what was asked."""

    def __init__(self) -> None:
        self.script: deque[Handler] = deque()
        self.requests: list[web.Request] = []
        self.bodies: list[bytes] = []
        self.url = ""
        self.otherwise: Handler | None = None
        self._over = asyncio.Event()

    def then(self, *handlers: Handler) -> None:
        self.script.extend(handlers)

    def close(self) -> None:
        self._over.set()

    async def until_closed(self) -> None:
        await self._over.wait()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(request)
        self.bodies.append(await request.read())
        if not self.script and self.otherwise is not None:
            return await self.otherwise(request)
        if not self.script:
            # Nothing more is scripted: the server keeps its end open and says nothing.
            await self.until_closed()
            return web.Response(status=503)
        return await self.script.popleft()(request)


def open_access(server: str) -> Access:
    """The way to a server that asks nobody who he is."""
    return Access(Configuration(host=server))


@asynccontextmanager
async def replaying() -> AsyncIterator[Replay]:
    replay = Replay()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", replay.answer)
    async with served(app) as replay.url:
        try:
            yield replay
        finally:
            replay.close()


def answer(body: Any, status: int = 200, **headers: str) -> Handler:
    """An answer as JSON."""

    async def handle(_: web.Request) -> web.Response:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.json_response(body, status=status, headers=named)

    return handle


def raw(content: bytes, status: int = 200) -> Handler:
    """An answer that says it is JSON."""

    async def handle(_: web.Request) -> web.Response:
        return web.Response(body=content, status=status, content_type="application/json")

    return handle


def refusal(code: int, reason: str, message: str = "", **details: Any) -> Handler:
    """A Status."""
    return answer({"kind": "Status", "code": code, "reason": reason, "message": message, "details": details}, code)


def listing(version: str, *items: Any, next_page: str = "") -> Handler:
    """One page of a list."""
    return answer({"metadata": {"resourceVersion": version, "continue": next_page}, "items": list(items)})


def watching(*lines: bytes | dict[str, Any], cut: bool = False) -> Handler:
    """A watch that says these lines, then ends; with `cut` the connection breaks instead."""

    async def handle(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for line in lines:
            await response.write(line if isinstance(line, bytes) else json.dumps(line).encode() + b"\n")
        if cut:
            assert request.transport is not None
            request.transport.abort()
        return response

    return handle


def broken() -> Handler:
    """The connection breaks before an answer."""

    async def handle(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    return handle

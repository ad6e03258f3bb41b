"""An API server with Slipway's CRDs and nothing else in it, whose answers a test may replace; kopf takes it for real.

It has a thread of its own: at its end kopf takes every later task of its event loop for one of its own.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.serving import served

Answer = web.Response | None
RESOURCES = "/apis/slipway.dev/v1alpha1"
GROUP = {"groupVersion": "slipway.dev/v1alpha1", "version": "v1alpha1"}


def resources(*plurals: str) -> Any:
    """What a group serves, as it says of itself."""
    verbs = ["get", "list", "watch"]
    found = [
        {"name": one, "singularName": "", "kind": one.title(), "namespaced": True, "verbs": verbs} for one in plurals
    ]
    return {"kind": "APIResourceList", "resources": found}


DOCUMENTS: dict[str, Any] = {
    "/api": {"versions": ["v1"]},
    "/api/v1": resources("namespaces", "events"),
    "/apis": {"groups": [{"name": "slipway.dev", "versions": [GROUP], "preferredVersion": GROUP}]},
    RESOURCES: resources("slicejobs", "slicejobprofiles"),
}


def refusal(code: int, reason: str, message: str = "") -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": message}, status=code)


class ApiServer:
    """Lists are empty, watches send nothing, and every client gets the Lease."""

    def __init__(self, instead: Callable[[web.Request], Answer]) -> None:
        self.instead = instead
        """Answers in place of the server, or not at all."""
        self.url = ""
        self.loop: asyncio.AbstractEventLoop
        self.over, self.ended = asyncio.Event(), asyncio.Event()
        self.watches = 0
        """How often SliceJobs were watched."""

    def end_watches(self) -> None:
        """From now on each ends when it begins."""
        self.loop.call_soon_threadsafe(self.ended.set)

    async def answer(self, request: web.Request) -> web.Response:
        watch = "watch" in request.query
        self.watches += watch and request.path.endswith("/slicejobs")
        if (found := self.instead(request)) is not None:
            return found
        if watch:
            await self.ended.wait()
            return web.Response()
        if request.path in DOCUMENTS:
            return web.json_response(DOCUMENTS[request.path])
        if "/leases" in request.path and request.method == "GET":
            return refusal(404, "NotFound")
        sent = await request.json() if request.can_read_body else {}
        return web.json_response(sent | {"metadata": {"resourceVersion": "1"}, "items": []})


@asynccontextmanager
async def api_server(instead: Callable[[web.Request], Answer] = lambda _: None) -> AsyncIterator[ApiServer]:
    server, up = ApiServer(instead), threading.Event()

    async def serve() -> None:
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", server.answer)
        async with served(application) as server.url:
            server.loop = asyncio.get_running_loop()
            up.set()
            await server.over.wait()
            server.ended.set()

    thread = threading.Thread(target=asyncio.run, args=[serve()])
    thread.start()
    try:
        await asyncio.to_thread(up.wait)
        yield server
    finally:
        server.loop.call_soon_threadsafe(server.over.set)
        await asyncio.to_thread(thread.join)

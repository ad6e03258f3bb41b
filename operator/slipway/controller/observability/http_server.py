"""The small HTTP servers of the operator: one for probes, one for metrics."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager

from aiohttp import web

Handler = Callable[[web.Request], Awaitable[web.Response]]


@asynccontextmanager
async def serving(port: int, handlers: Mapping[str, Handler]) -> AsyncIterator[None]:
    """Answer GET requests of these paths at that port of every address, of IPv4 and IPv6; at 0 nothing is served."""
    if not port:
        yield
        return
    app = web.Application()
    for path, handler in handlers.items():
        app.router.add_get(path, _closing(handler))
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    try:
        await web.TCPSite(runner, None, port).start()
        yield
    finally:
        await runner.cleanup()


def _closing(handler: Handler) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        response = await handler(request)
        # kopf's end waits for the tasks of connections that stay open.
        response.force_close()
        return response

    return answer

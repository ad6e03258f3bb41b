"""All of kopf: login, clean-up, the stream of SliceJobs.

kopf never patches anything here. Its handlers only say what they saw; decisions are made from the cache, so losing
or repeating an event changes nothing.
"""

import asyncio
from typing import Any
from weakref import proxy

import aiohttp
import kopf

from slipway.api import names
from slipway.apiserver.connection import ApiConnection
from slipway.controller.engine import Engine


class NoDiffBase(kopf.DiffBaseStorage):
    """Keeps nothing in annotations, and spares kopf two deep copies of every object."""

    def build(self, **_: Any) -> Any:
        """Nothing to compare with."""
        return {}

    def fetch(self, **_: Any) -> Any:
        """Nothing was stored."""
        return None

    def store(self, **_: Any) -> None:
        """Store nothing."""


class _Requests:
    """kopf's requests in flight.

    kopf lets go of them at its end without cancelling them, and closes the session under them. aiohttp fails in one
    that still connects then, and the process would seem to have failed.
    """

    def __init__(self, asked: asyncio.Event) -> None:
        self._asked = asked
        self._tasks: set[asyncio.Task[Any]] = set()
        self._over = False

    async def remember(
        self, request: aiohttp.ClientRequest, handler: aiohttp.ClientHandlerType
    ) -> aiohttp.ClientResponse:
        """Know the task of a request while it waits for its answer; a middleware."""
        if self._over:
            raise asyncio.CancelledError
        if request.url.path.endswith(f"/{names.PLURAL}"):
            self._asked.set()
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            return await handler(request)
        finally:
            self._tasks.discard(task)

    def cancel(self) -> None:
        """Cancel every task that waits for an answer, or asks from now on."""
        self._over = True
        for task in self._tasks:
            task.cancel()


def kopf_settings() -> kopf.OperatorSettings:
    """kopf as a watcher of one resource that writes nothing."""
    settings = kopf.OperatorSettings()
    settings.peering.standalone = True
    settings.scanning.disabled = True
    # The process outlives kopf, and would be killed ten minutes after; a stop that hangs is for the kubelet to end.
    settings.process.ultimate_exiting_timeout = None
    settings.posting.enabled = False
    settings.persistence.diffbase_storage = NoDiffBase()
    settings.persistence.progress_storage = kopf.MultiProgressStorage([])
    settings.queueing.idle_timeout = 1.0
    settings.watching.server_timeout = 290
    settings.watching.connect_timeout = 10
    settings.watching.chunk_size = 500
    settings.networking.request_timeout = 30
    return settings


def registry_for(
    engine: Engine, api: ApiConnection, stop: asyncio.Event, asked: asyncio.Event
) -> kopf.OperatorRegistry:
    """The handlers of one operator; `stop` is the flag that kopf was given to end by.

    `asked` is set when kopf lists SliceJobs, for a list may take long before it begins to watch.
    """
    # Timers that were cancelled hold what ran when they were set until they are due, be it minutes after kopf's end.
    engine = proxy(engine)
    registry = kopf.OperatorRegistry()
    requests = _Requests(asked)

    @kopf.on.login(registry=registry)
    async def login(**_: Any) -> kopf.AiohttpSession:
        return kopf.AiohttpSession(server=api.server, aiohttp_session=api.new_session(requests.remember))

    @kopf.on.event(names.GROUP, names.VERSION, names.PLURAL, registry=registry)
    async def changed(type: str | None, body: kopf.Body, **_: Any) -> None:
        engine.observe(type, dict(body))

    @kopf.on.cleanup(registry=registry)
    async def leave(**_: Any) -> None:
        # kopf waits 5 s for any task that began after its start: ours, and its own that waits for the flag.
        await engine.stop()
        stop.set()
        requests.cancel()

    return registry

"""An API server with the jobs that a test gives it, and no operator: no job changes by itself."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

from aiohttp import web

from slipway.api.base import rfc3339
from slipway.apiserver import paths
from tests.apiserver.replay import replaying
from tests.waiting import ANSWER_SECONDS

Json = dict[str, Any]
NAMESPACE = "team-a"
JOBS = paths.jobs(NAMESPACE)
_LISTS = ("events", "leases", "nodes", "pods", "slicejobs")
NOW = rfc3339(datetime.now(UTC))


def job(name: str, phase: str, **status: Any) -> Json:
    """A job as the API server stores it."""
    about = {"name": name, "uid": f"uid of {name}", "namespace": NAMESPACE, "generation": 1, "creationTimestamp": NOW}
    seen = {"phase": phase, "observedGeneration": 1, "attempt": 0}
    return {"metadata": about | {"resourceVersion": "1"}, "spec": {"image": "a:1"}, "status": seen | status}


def failed(name: str) -> Json:
    """A job whose one attempt has failed."""
    root = {"slice": 0, "host": 0, "pod": f"{name}-0-0-0", "exitCode": 3, "log": "the reason\n"}
    ended = {"number": 0, "startTime": NOW, "endTime": NOW, "cause": "failure", "reason": "ExitCode", "root": root}
    result = {"reason": "MaxFailures", "message": "it failed as often as it may", "exitCode": 3}
    return job(name, "Failed", result=result, attempts=[ended | {"message": "host 0 of slice 0 exited with 3"}])


class ApiServer:
    """What the server has, and what it was asked."""

    def __init__(self) -> None:
        self.url = ""
        self.jobs: dict[str, Json] = {}
        self.events: list[Json] = []
        self.nodes: list[Json] = []
        self.asked: list[str] = []
        self.takes_jobs = True
        """Whether it answers who creates a job."""
        self.added: Json = {}
        """What defaults and webhooks add to the spec of every job."""
        self.refused: tuple[str, ...] = ()
        """Names of the jobs that it does not take."""
        self.meanwhile: dict[str, Callable[[], object]] = {}
        """What somebody else does just before a request is answered, by method and path."""
        self.loses_deletions = False
        """Whether the connection breaks before the answer to who deletes a job."""
        self.successor: Json | None = None
        """What somebody else creates at once when a job is deleted."""
        self.knows_slicejobs = True
        """Whether the CRD is installed."""
        self.forbidden: tuple[str, ...] = ()
        """What this user may not list."""
        self.deleted_while_watched = False
        """Whether a watch of jobs sees them go."""
        self.until_closed: Callable[[], Awaitable[object]]

    def put(self, *jobs: Json) -> None:
        """Store jobs."""
        self.jobs |= {one["metadata"]["name"]: one for one in jobs}

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Whatever a command asks."""
        asked = f"{request.method} {request.path}"
        self.asked.append(asked)
        if asked in self.meanwhile and "watch" not in request.query:
            self.meanwhile[asked]()
        if not self.knows_slicejobs and request.path.startswith(JOBS):
            return web.Response(status=404, text="404 page not found\n")
        if request.query.get("watch"):
            return await self._watch(request)
        if request.path == JOBS and request.method == "POST":
            return await self._create(request)
        if request.path.startswith(f"{JOBS}/"):
            return await self._one(request, request.path.removeprefix(f"{JOBS}/"))
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.35.0"})
        if request.method == "POST":
            return web.json_response({"status": {"allowed": True}}, status=201)
        kind = request.path.rpartition("/")[2]
        if kind not in _LISTS:
            return _missing(request.path)
        if kind in self.forbidden:
            return _refused(403, "Forbidden", f"{kind} is forbidden: User u cannot list them")
        kept = {JOBS: list(self.jobs.values()), paths.events(NAMESPACE): self.events, paths.NODES: self.nodes}
        name = request.query.get("fieldSelector", "").removeprefix("metadata.name=")
        items = [one for one in kept.get(request.path, []) if name in ("", one.get("metadata", {}).get("name"))]
        return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})

    async def _create(self, request: web.Request) -> web.Response:
        if not self.takes_jobs and "dryRun" not in request.query:
            await self.until_closed()
        body = await request.json()
        if body["metadata"]["name"] in self.refused:
            return _refused(422, "Invalid", "it is refused")
        if body["metadata"]["name"] in self.jobs:
            return _refused(409, "AlreadyExists", "its name is taken")
        made = job(body["metadata"]["name"], "Pending") | {"spec": self.added | body["spec"]}
        if "dryRun" not in request.query:
            self.put(made)
        return web.json_response(made, status=201)

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        if self.deleted_while_watched and request.path == JOBS:
            for gone in self.jobs.values():
                await answer.write(json.dumps({"type": "DELETED", "object": gone}).encode() + b"\n")
        await self.until_closed()
        return answer

    async def _one(self, request: web.Request, name: str) -> web.Response:
        if name not in self.jobs:
            return _missing(name)
        if request.method != "DELETE":
            return web.json_response(self.jobs[name])
        if (await request.json())["preconditions"]["uid"] != self.jobs[name]["metadata"]["uid"]:
            return _refused(409, "Conflict", f"the UID of {name} is another")
        gone = self.jobs.pop(name)
        if self.successor is not None:
            self.put(self.successor)
        if self.loses_deletions and request.transport is not None:
            request.transport.abort()
        return web.json_response(gone)


def _missing(what: str) -> web.Response:
    return _refused(404, "NotFound", f"{what} not found")


def _refused(code: int, reason: str, message: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": message}, status=code)


@contextmanager
def serving() -> Iterator[ApiServer]:
    """The server, in a thread of its own: commands have a loop of their own."""
    found, ready = ApiServer(), threading.Event()
    loop, over = asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with replaying() as replay:
            replay.otherwise, found.url, found.until_closed = found.answer, replay.url, replay.until_closed
            ready.set()
            await over.wait()

    def run() -> None:
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(serve())

    thread = threading.Thread(target=run)
    thread.start()
    assert ready.wait(ANSWER_SECONDS)
    try:
        yield found
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join()

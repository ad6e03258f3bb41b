"""An API server as far as reading logs asks it, with kubelets behind it whose streams break as a test wants."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from aiohttp import web

from slipway.api.places import HEAD, Place, pod_name, worker
from slipway.client.cluster_client import AsyncClient
from slipway.client.logs.items import SECOND
from tests.serving import kubeconfig, served
from tests.waiting import passing

JOBS = "/apis/slipway.dev/v1alpha1/namespaces/x/slicejobs"
PODS = "/api/v1/namespaces/x/pods"
START = 1_700_000_000 * SECOND


def at(moment: int) -> str:
    seconds, rest = divmod(moment, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z"


def refused(code: int, message: str, reason: str = "") -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": message}, status=code)


@dataclass
class Log:
    """What one container wrote."""

    lines: list[tuple[int, bytes]] = field(default_factory=list)
    started: bool = True
    ended: bool = False
    exists: bool = True
    """Whether the kubelet still has it."""
    breaks: list[int] = field(default_factory=list)
    """After so many bytes the next streams break, one after the other."""
    answers: list[web.Response] = field(default_factory=list)
    """What the next requests are answered instead."""
    forever: web.Response | None = None
    asked: list[dict[str, str]] = field(default_factory=list)
    grown: asyncio.Event = field(default_factory=asyncio.Event)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    def write(self, *texts: bytes) -> None:
        """Lines, each a millisecond after the one before it."""
        for text in texts:
            self.lines.append((START + len(self.lines) * 1_000_000, text))
        self.changed()

    def changed(self) -> None:
        self.grown.set()
        self.grown = asyncio.Event()

    async def was_asked(self, times: int = 1) -> None:
        """Wait until it was asked for so often."""
        async with self.news:
            await self.news.wait_for(lambda: len(self.asked) >= times)

    def sent(self, query: dict[str, str], since: int) -> bytes:
        """What a kubelet sends of the lines from that one on."""
        oldest = 0
        if "sinceTime" in query:
            oldest = int(datetime.fromisoformat(query["sinceTime"]).timestamp()) * SECOND
        lines = self.lines[since:]
        return b"".join(at(moment).encode() + b" " + raw for moment, raw in lines if moment >= oldest)


class Server:
    """One namespace `x` with one job `train`."""

    def __init__(self, slices: int = 1, hosts: int = 1, *, ray: bool = False) -> None:
        self.logs: dict[str, Log] = {}
        self.version = 1
        self.changes: list[tuple[str, str, Any]] = []
        self.changed = asyncio.Condition()
        self.open = self.most_open = 0
        """Streams at this moment, and the most at once."""
        self.asked: list[str] = []
        self.behind: set[str] = set()
        """Paths of which watches are told nothing."""
        spec: dict[str, Any] = {"slices": slices, "hosts": hosts} | ({"ray": {}} if ray else {})
        self.job: Any = {"metadata": {"name": "train", "namespace": "x", "uid": "u"}, "spec": spec}
        self.job["status"] = {"phase": "Pending"}
        self.pods: dict[str, Any] = {}
        self.places = [worker(index, host) for index in range(slices) for host in range(hosts)]
        self.places = [HEAD, *self.places] if ray else self.places
        sizes = ("coordinatorPort", "scheduleSeconds", "startSeconds", "gracePeriodSeconds")
        resolved = {"hosts": hosts, "templateHash": "x"} | dict.fromkeys(sizes, 1)
        self.sizes = {"slices": {"requested": slices, "granted": slices}, "resolved": resolved}

    async def begin(self, attempt: int, phase: str = "Running", *, pods: bool = True) -> list[Log]:
        """An attempt begins, and its containers start."""
        record = {"number": attempt, "startTime": at(START)}
        attempts = [record, *self.job["status"].get("attempts", [])]
        self.job["status"] = self.sizes | {"phase": phase, "attempt": attempt, "attempts": attempts}
        await self.tell("MODIFIED", JOBS, self.job)
        return [await self.start(attempt, place) for place in self.places] if pods else []

    async def start(self, attempt: int, place: Place, log: Log | None = None) -> Log:
        name = pod_name("train", attempt, place)
        known = name in self.pods
        self.logs[name] = log = log or self.logs.get(name) or Log()
        self.pods[name] = {"metadata": {"name": name, "uid": name}, "status": {}}
        await self.tell("MODIFIED" if known else "ADDED", PODS, self.state(name, log))
        return log

    def state(self, name: str, log: Log) -> Any:
        since = {"startedAt": at(START)[:19] + "Z"}
        state: dict[str, Any] = {"waiting": {"reason": "ContainerCreating"}}
        if log.started:
            state = {"terminated": {**since, "exitCode": 0}} if log.ended else {"running": since}
        container = "driver" if name.endswith("-head") else "worker"
        self.pods[name]["status"] = {"containerStatuses": [{"name": container, "state": state}]}
        return self.pods[name]

    async def end(self, attempt: int, *places: Place) -> None:
        """Containers end."""
        for place in places or self.places:
            name = pod_name("train", attempt, place)
            self.logs[name].ended = True
            await self.tell("MODIFIED", PODS, self.state(name, self.logs[name]))
            self.logs[name].changed()

    async def remove(self, attempt: int, *places: Place) -> None:
        """Pods are deleted."""
        for place in places or self.places:
            name = pod_name("train", attempt, place)
            self.logs[name].exists = False
            await self.tell("DELETED", PODS, self.pods.pop(name))

    async def judge(self, phase: str, **record: Any) -> None:
        """The newest attempt has ended."""
        self.job["status"]["attempts"][0] |= {"endTime": at(START + 9 * SECOND)} | record
        self.job["status"]["phase"] = phase
        await self.tell("MODIFIED", JOBS, self.job)

    async def finish(self, attempt: int) -> None:
        """Everything ends well."""
        await self.end(attempt)
        await self.judge("Succeeded")

    async def tell(self, kind: str, path: str, body: Any) -> None:
        async with self.changed:
            self.version += 1
            body["metadata"]["resourceVersion"] = str(self.version)
            self.changes.append((kind, path, json.loads(json.dumps(body))))
            self.changed.notify_all()

    @asynccontextmanager
    async def client(self, folder: Path) -> AsyncIterator[AsyncClient]:
        """A client of it."""
        async with self.serve() as url, AsyncClient("x", kubeconfig(folder, url)) as client:
            yield client

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        application = web.Application()
        application.add_routes([
            web.get(JOBS, self.list_or_watch),
            web.get(JOBS + "/{name}", self.get),
            web.get(PODS, self.list_or_watch),
            web.get(PODS + "/{pod}/log", self.log),
        ])  # fmt: skip
        async with served(application) as url:
            yield url

    async def get(self, request: web.Request) -> web.Response:
        if request.match_info["name"] != "train":
            return refused(404, "slicejobs.slipway.dev not found", "NotFound")
        return web.json_response(self.job | {"metadata": {"resourceVersion": "1"} | self.job["metadata"]})

    async def list_or_watch(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        if "watch" not in request.query:
            items = [self.job] if request.path == JOBS else list(self.pods.values())
            items = [one | {"metadata": {"resourceVersion": "1"} | one["metadata"]} for one in items]
            return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": items})
        answer, seen = web.StreamResponse(), int(request.query["resourceVersion"]) - 1
        await answer.prepare(request)
        with suppress(ConnectionError):
            while True:
                async with self.changed:
                    while len(self.changes) <= seen:
                        await self.changed.wait()
                kind, path, body = self.changes[seen]
                seen += 1
                if path == request.path and path not in self.behind:
                    await answer.write(json.dumps({"type": kind, "object": body}).encode() + b"\n")
        return answer

    async def log(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        log = self.logs[request.match_info["pod"]]
        async with log.news:
            log.asked.append(dict(request.query))
            log.news.notify_all()
        assert request.query["timestamps"] == "true"
        if not log.exists:
            return refused(404, f'pods "{request.match_info["pod"]}" not found', "NotFound")
        if log.forever is not None or log.answers:
            answer = log.forever or log.answers.pop(0)
            return web.Response(body=answer.body, status=answer.status, content_type="application/json")
        self.open += 1
        self.most_open = max(self.open, self.most_open)
        try:
            return await self.stream(request, log)
        finally:
            self.open -= 1

    async def stream(self, request: web.Request, log: Log) -> web.StreamResponse:
        query, answer = dict(request.query), web.StreamResponse()
        answer.enable_chunked_encoding()
        await answer.prepare(request)
        sent = max(len(log.lines) - int(query.get("tailLines", len(log.lines))), 0)
        left = log.breaks.pop(0) if log.breaks else None
        with suppress(ConnectionError):
            while True:
                grown, over = log.grown, log.ended
                content, sent = log.sent(query, sent), len(log.lines)
                if left is not None and len(content) > left:
                    await answer.write(content[:left])
                    await passing(0.01)
                    assert request.transport is not None
                    request.transport.close()
                    return answer
                left = None if left is None else left - len(content)
                for begin in range(0, len(content), 50_000):
                    await answer.write(content[begin : begin + 50_000])
                if "follow" not in query or over:
                    return answer
                if not log.ended:
                    await grown.wait()
        return answer


def numbered(count: int, word: str = "line") -> list[bytes]:
    return [f"{word} {index}\n".encode() for index in range(count)]


def label(request_path: str) -> str:
    """The pod that a request for a log is about."""
    found = re.fullmatch(f"{PODS}/(.*)/log", request_path)
    return found[1] if found else ""


def joined(lines: Iterable[Any]) -> bytes:
    return b"".join(line.raw for line in lines)

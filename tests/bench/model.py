"""A model of a cluster that never keeps the operator waiting: its API server is idle, its machines start pods at once.

A real control plane shares the machine with the operator and limits it; thousands of jobs take it an hour. The model
keeps what it is sent, tells the watches, and gives pods the nodes of the node pools that they select, in order. What
jobs that only start do not ask for, it refuses with 501.
"""

import asyncio
from collections import Counter, defaultdict, deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any, Final

import msgspec
from aiohttp import web

from slipway.api import names
from slipway.apiserver.request_counts import verb_of
from slipway.apiserver.wire import JsonObject
from slipway.core.model.merge_patch import apply_merge_patch
from slipway.devcluster.native.simulated import node_object
from slipway.devcluster.spec import NodePlan
from tests.serving import served

SCHEDULED_PER_SECOND: Final = 300
"""Pods that the model of the scheduler gives nodes, about what the real one does where it has cores enough."""
_TURN: Final = 0.05
_REMEMBERED: Final = 10_000


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


class Model:
    """Objects by plural, namespace and name, and who watches them."""

    def __init__(self, nodes: Iterable[NodePlan]) -> None:
        self.objects: dict[str, dict[tuple[str, str], JsonObject]] = defaultdict(dict)
        self.requests: Counter[str] = Counter()
        """How many by `verb resource`, in the audit log's words."""
        self.running = 0
        """Pods that run."""
        self._on_running = asyncio.Event()
        self._versions = count(1000)
        self._watches: dict[str, list[asyncio.Queue[bytes]]] = defaultdict(list)
        self._told_lately: dict[str, deque[tuple[int, bytes]]] = defaultdict(lambda: deque(maxlen=_REMEMBERED))
        """What watches that begin have missed, with the versions."""
        self._waiting: deque[tuple[str, str]] = deque()
        self._free: dict[str, deque[str]] = defaultdict(deque)
        """Names of the nodes of each node pool that have no pod."""
        for plan in nodes:
            self._free[plan.pool].append(plan.name)
            self.put("nodes", node_object(plan, _now()))

    def put(self, plural: str, body: JsonObject) -> JsonObject:
        """Create an object."""
        version = next(self._versions)
        given = {"uid": f"uid-{version}", "creationTimestamp": _now(), "generation": 1}
        made = body | {"metadata": {"namespace": "", **body["metadata"], **given}}
        if plural == "pods":
            made |= {"status": {"phase": "Pending"}}
            self._waiting.append(_key(made))
        return self._told(plural, made, "ADDED", version)

    def change(self, plural: str, before: JsonObject, patch: JsonObject) -> JsonObject:
        """Merge into an object."""
        return self._told(plural, apply_merge_patch(before, patch), "MODIFIED", next(self._versions))

    def _told(self, plural: str, made: JsonObject, what: str, version: int) -> JsonObject:
        made = made | {"metadata": made["metadata"] | {"resourceVersion": str(version)}}
        self.objects[plural][_key(made)] = made
        line = msgspec.json.encode({"type": what, "object": made}) + b"\n"
        self._told_lately[plural].append((version, line))
        for watch in self._watches[plural]:
            watch.put_nowait(line)
        return made

    async def start_pods(self) -> None:
        """Schedule pods, and have them run, for ever."""
        while True:
            await asyncio.sleep(_TURN)
            turn = [self._waiting.popleft() for _ in range(min(len(self._waiting), int(SCHEDULED_PER_SECOND * _TURN)))]
            for key in turn:
                self._schedule(self.objects["pods"][key])
            await asyncio.sleep(0)
            for key in turn:
                self._run(self.objects["pods"][key])

    async def all_run(self, pods: int) -> None:
        """Wait until so many pods run."""
        while self.running < pods:
            self._on_running.clear()
            await self._on_running.wait()

    def _schedule(self, pod: JsonObject) -> None:
        node = self._free[pod["spec"]["nodeSelector"][names.NODE_POOL]].popleft()
        scheduled = {"type": "PodScheduled", "status": "True", "lastTransitionTime": _now()}
        self.change("pods", pod, {"spec": {"nodeName": node}, "status": {"conditions": [scheduled]}})

    def _run(self, pod: JsonObject) -> None:
        state = {"running": {"startedAt": _now()}}
        name = pod["spec"]["containers"][0]["name"]
        worker = {"name": name, "image": "", "imageID": "", "ready": True, "restartCount": 0, "state": state}
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": _now()}
        conditions = [*pod["status"]["conditions"], ready]
        status = {"phase": "Running", "podIP": "10.0.0.1", "startTime": _now(), "containerStatuses": [worker]}
        self.change("pods", pod, {"status": status | {"conditions": conditions}})
        self.running += 1
        self._on_running.set()

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """Any request to the API server."""
        where = request.path.split("/")
        where = where[4:] if where[1] == "apis" else where[3:]
        if not where:
            return _described(request.path)
        namespace = where[1] if where[0] == "namespaces" else ""
        plural, *named = where[2:] if namespace else where
        verb = verb_of(request.method, request.path, watch="watch" in request.query)
        tried = "try-" if "dryRun" in request.query else ""
        self.requests[f"{tried}{verb} {'/'.join([plural, *named[1:]])}"] += 1
        if request.method == "GET":
            return await self._shown(request, plural, namespace, named)
        body = msgspec.json.decode(await request.read() or b"{}")
        if "dryRun" in request.query:
            return _json(body)
        if request.method == "POST":
            body["metadata"]["namespace"] = namespace
            if _key(body) in self.objects[plural]:
                return _not_modelled("names that are taken")
            return _json(self.put(plural, body))
        known = self.objects[plural].get((namespace, named[0])) if named else None
        if known is None:
            return _missing()
        if request.method == "DELETE":
            return _not_modelled("deletions")
        return _json(self.change(plural, known, body))

    async def _shown(self, request: web.Request, plural: str, namespace: str, named: list[str]) -> web.StreamResponse:
        if named:
            known = self.objects[plural].get((namespace, named[0]))
            return _missing() if known is None else _json(known)
        if "watch" in request.query:
            return await self._watch(request, plural)
        label, _, value = request.query.get("labelSelector", "").partition("=")
        items = [one for one in self.objects[plural].values() if _has(one, label, value)]
        return _json({"metadata": {"resourceVersion": str(next(self._versions))}, "items": items})

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        lines: asyncio.Queue[bytes] = asyncio.Queue()
        for version, line in self._told_lately[plural]:
            if version > int(request.query.get("resourceVersion", 0)):
                lines.put_nowait(line)
        self._watches[plural].append(lines)
        try:
            while True:
                chunk = [await lines.get()]
                while not lines.empty():
                    chunk.append(lines.get_nowait())
                await response.write(b"".join(chunk))
        finally:
            self._watches[plural].remove(lines)


def _has(body: dict[str, Any], label: str, value: str) -> bool:
    """Whether an object has a label, with that value if one is given; without a label to look for, every one has."""
    found = body["metadata"].get("labels", {}).get(label)
    return not label or (found is not None and value in ("", found))


def _described(path: str) -> web.Response:
    """What the API server says of its APIs; kopf asks."""
    group, version = names.API_VERSION.split("/")
    served = {"groupVersion": names.API_VERSION, "version": version}
    told = {
        "/api": {"versions": ["v1"]},
        "/api/v1": {"resources": [_resource("namespaces", "Namespace", namespaced=False)]},
        "/apis": {"groups": [{"name": group, "versions": [served], "preferredVersion": served}]},
        f"/apis/{names.API_VERSION}": {"resources": [_resource(names.PLURAL, names.KIND, namespaced=True)]},
    }
    return _json(told[path]) if path in told else _missing()


def _resource(plural: str, kind: str, *, namespaced: bool) -> JsonObject:
    verbs = ["list", "watch", "patch"]
    return {"name": plural, "singularName": kind.lower(), "kind": kind, "namespaced": namespaced, "verbs": verbs}


def _key(made: JsonObject) -> tuple[str, str]:
    return made["metadata"]["namespace"], made["metadata"]["name"]


def _json(body: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(body), content_type="application/json")


def _not_modelled(what: str) -> web.Response:
    body = {"kind": "Status", "reason": "NotImplemented", "message": f"the model has no {what}", "code": 501}
    return web.json_response(body, status=501)


def _missing() -> web.Response:
    body = {"kind": "Status", "reason": "NotFound", "message": "the model has no such object", "code": 404}
    return web.json_response(body, status=404)


@asynccontextmanager
async def running(model: Model) -> AsyncIterator[str]:
    """The URL of the model's API server, for as long as the context lasts."""
    app = web.Application(client_max_size=2**24)
    app.router.add_route("*", "/{path:.*}", model.answer)
    pods = asyncio.ensure_future(model.start_pods())
    try:
        async with served(app) as url:
            yield url
        if pods.done():
            # It has failed: nothing else ends it.
            pods.result()
    finally:
        pods.cancel()

"""An API server as far as the SDK asks it, which runs a job's or a session's call as a process of this machine."""

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import WSMsgType, web

from slipway import Client
from slipway.api.status import SliceJobStatus
from tests import waiting
from tests.serving import served
from tests.waiting import passing

JOBS = "/apis/slipway.dev/v1alpha1/namespaces/x/slicejobs"
STATUS: dict[str, Any] = {"attempt": 0, "attempts": [{"number": 0}], "resolved": {"hosts": 1}}
"""Of a job that has begun."""
STARTED = "2026-01-01T00:00:00Z"
REQUIRED: dict[str, dict[str, Any]] = {
    "attempts": {"startTime": STARTED},
    "conditions": {"reason": "Said", "lastTransitionTime": STARTED, "observedGeneration": 1},
    "resolved": {
        "coordinatorPort": 8471,
        "scheduleSeconds": 3600,
        "startSeconds": 600,
        "gracePeriodSeconds": 30,
        "templateHash": "0",
    },
}
"""What the CRD requires of parts of a status, and tests leave out."""


def stored(body: Any) -> Any:
    """A copy of a job as an API server with Slipway's CRD would have it."""
    body = json.loads(json.dumps(body))
    body["metadata"].setdefault("generation", 1)
    if status := body.get("status"):
        status.setdefault("observedGeneration", 1)
        for field in ("attempts", "conditions"):
            status[field] = [REQUIRED[field] | part for part in status.get(field, ())]
        if "resolved" in status:
            status["resolved"] = REQUIRED["resolved"] | status["resolved"]
        SliceJobStatus.model_validate(status)
    return body


def pod_of(job: Any) -> dict[str, Any]:
    """The pod of a job of one host: it runs until the job is over."""
    name, over = job["metadata"]["name"], job.get("status", {}).get("phase") in ("Succeeded", "Failed")
    run: dict[str, Any] = {"startedAt": STARTED}
    state = {"terminated": run | {"exitCode": 0, "finishedAt": STARTED}} if over else {"running": run}
    phase = job["status"]["phase"] if over else "Running"
    return {
        "metadata": {"name": f"{name}-0-0-0", "uid": f"pod-{name}", "resourceVersion": "1"},
        "status": {"phase": phase, "containerStatuses": [{"name": "worker", "state": state}]},
    }


def refused(code: int, reason: str, message: str = "") -> web.Response:
    status = {"kind": "Status", "code": code, "reason": reason, "message": message}
    return web.json_response(status, status=code)


def broken_off(request: web.Request) -> web.Response:
    """No answer at all."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


class Server:
    """One namespace `x`; a job runs once its Secret is there, and ends as its process does or as it is told here."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.jobs: dict[str, Any] = {}
        self.version, self.changes = 1, asyncio.Condition()
        self.history: list[tuple[str, Any]] = []
        self.status: dict[str, Any] = {}
        """What the status of every job says as soon as it is made."""
        self.refusal = ""
        self.refuses = (422, "Invalid")
        """How a refusal is answered: code and reason."""
        self.refuses_nodes_network = ""
        """Why no job may have the network of the nodes."""
        self.networks: list[bool] = []
        """Whether the jobs that were to be created have the network of the nodes."""
        self.deaf = False
        """Whether nobody gets an answer who wants to create a job."""
        self.mute = False
        """Whether the server creates jobs and does not answer the requests."""
        self.breaks_off = False
        """Whether it creates jobs, and breaks the connection of everyone who wants to create one."""
        self.silent_about_jobs = False
        """Whether it breaks the connection of everyone who asks about a job by its name."""
        self.asked = 0
        """How often a job was to be created."""
        self.secrets = True
        """Whether Secrets are taken."""
        self.asked_for_secrets = 0
        """How often a Secret was to be created."""
        self.deaf_to_secrets = False
        """Whether nobody gets an answer who wants to create a Secret."""
        self.log: str | None = None
        """What the pod of every job wrote; None where there is no pod."""
        self.log_time = STARTED
        """When every line of it was written."""
        self.hides_pods = False
        """Whether nobody may list pods."""
        self.ready = True
        """Whether a session's cluster can be used as soon as it is made."""
        self.forgotten = 0
        self.watched = 0
        """How many watches were begun."""
        self.asked_again = 0
        """How often a name was asked for that is taken."""
        self.deletion: tuple[int, str, str] | None = None
        """How a deletion is refused: code, reason and message; code 0 breaks the connection."""
        self.lingers = False
        """Whether a job that is deleted in the foreground stands until `remove` is called."""
        self.end: dict[str, Any] = {}
        """What the status of a job that has ended says besides."""
        self.ended = False
        """Whether the attempt under a session's call has ended when its answer comes; `end` is told a while later."""
        self.stream = "runs"
        """What becomes of an exec: the program `runs`, or nothing is said, or it is `closed` at once."""
        self.exec_refusal: int | None = None
        """Code with which every exec is refused."""
        self.loop: asyncio.AbstractEventLoop | None = None
        self.background: set[asyncio.Task[None]] = set()

    @property
    def client(self) -> Client:
        """A client of its namespace."""
        return Client(kubeconfig=self.folder / "kubeconfig")

    @asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        self.loop, application = asyncio.get_running_loop(), web.Application()
        application.add_routes([
            web.get(JOBS, self.list_or_watch),
            web.post(JOBS, self.create),
            web.get(JOBS + "/{name}", self.get),
            web.put(JOBS + "/{name}", self.replace),
            web.delete(JOBS + "/{name}", self.delete),
            web.post("/api/v1/namespaces/x/secrets", self.secret),
            web.get("/api/v1/namespaces/x/pods", self.pods),
            web.get("/api/v1/namespaces/x/pods/{pod}/exec", self.exec),
            web.get("/api/v1/namespaces/x/pods/{pod}/log", self.read),
        ])  # fmt: skip
        async with served(application) as url:
            yield url

    async def change(self, kind: str, body: Any) -> None:
        async with self.changes:
            self.version += 1
            body["metadata"]["resourceVersion"] = str(self.version)
            self.history.append((kind, stored(body)))
            self.changes.notify_all()

    async def create(self, request: web.Request) -> web.Response:
        self.asked += 1
        if self.deaf:
            await passing(60)
        if self.refusal:
            return refused(*self.refuses, self.refusal)
        body = await request.json()
        self.networks.append(bool(body["spec"].get("hostNetwork")))
        if self.refuses_nodes_network and self.networks[-1]:
            return refused(*self.refuses, self.refuses_nodes_network)
        if self.breaks_off and self.asked > 1:
            return broken_off(request)
        if body["metadata"]["name"] in self.jobs:
            self.asked_again += 1
            return refused(409, "AlreadyExists")
        body["metadata"]["uid"] = f"uid-{len(self.history)}"
        self.jobs[body["metadata"]["name"]] = body
        if self.status:
            body["status"] = STATUS | self.status
        if body["spec"].get("ray", {}).get("keepAlive"):
            conditions = [{"type": "Ready", "status": str(self.ready)}]
            attempts = [{"number": 0, "runningTime": STARTED}]
            body["status"] = {"phase": "Running", "attempt": 0, "attempts": attempts, "conditions": conditions}
        await self.change("ADDED", body)
        if self.mute:
            await passing(60)
        return broken_off(request) if self.breaks_off else web.json_response(stored(body))

    async def get(self, request: web.Request) -> web.Response:
        if self.silent_about_jobs:
            return broken_off(request)
        found = self.jobs.get(request.match_info["name"])
        return refused(404, "NotFound") if found is None else web.json_response(stored(found))

    async def replace(self, request: web.Request) -> web.Response:
        body = self.jobs[request.match_info["name"]] = await request.json()
        await self.change("MODIFIED", body)
        return web.json_response(body)

    async def delete(self, request: web.Request) -> web.Response:
        if self.deletion is not None:
            return refused(*self.deletion) if self.deletion[0] else broken_off(request)
        body = self.jobs[request.match_info["name"]]
        if (await request.json())["propagationPolicy"] == "Foreground":
            body["metadata"]["deletionTimestamp"] = STARTED
            await self.change("MODIFIED", body)
        if "deletionTimestamp" not in body["metadata"] or not self.lingers:
            await self.remove(body)
        return web.json_response(body)

    async def remove(self, body: Any) -> None:
        del self.jobs[body["metadata"]["name"]]
        await self.change("DELETED", body)

    async def forget(self, name: str) -> None:
        """Lose a job while nobody looks: watches end, and cannot be taken up where they ended."""
        async with self.changes:
            del self.jobs[name]
            self.forgotten += 1
            self.changes.notify_all()

    async def list_or_watch(self, request: web.Request) -> web.StreamResponse:
        name = request.query["fieldSelector"].removeprefix("metadata.name=")
        if "watch" not in request.query:
            items = [stored(self.jobs[name])] if name in self.jobs else []
            return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": items})
        answer, place = web.StreamResponse(), int(request.query["resourceVersion"]) - 1
        await answer.prepare(request)
        self.watched += 1
        forgotten = self.forgotten
        while True:
            async with self.changes:
                while len(self.history) <= place and forgotten == self.forgotten:
                    await self.changes.wait()
            if forgotten != self.forgotten:
                status = {"kind": "Status", "code": 410, "reason": "Expired"}
                await answer.write(json.dumps({"type": "ERROR", "object": status}).encode() + b"\n")
                return answer
            kind, body = self.history[place]
            place += 1
            if body["metadata"]["name"] == name:
                await answer.write(json.dumps({"type": kind, "object": body}).encode() + b"\n")

    async def pods(self, request: web.Request) -> web.StreamResponse:
        if self.hides_pods:
            return refused(403, "Forbidden", "pods is forbidden: User u cannot list it")
        if "watch" not in request.query:
            pods = [pod_of(job) for job in self.jobs.values() if self.log is not None]
            return web.json_response({"metadata": {"resourceVersion": str(self.version)}, "items": pods})
        answer, place = web.StreamResponse(), int(request.query["resourceVersion"]) - 1
        await answer.prepare(request)
        while True:
            async with self.changes:
                while len(self.history) <= place:
                    await self.changes.wait()
            kind, body = self.history[place]
            place += 1
            if self.log is not None:
                await answer.write(json.dumps({"type": kind, "object": pod_of(body)}).encode() + b"\n")

    async def read(self, request: web.Request) -> web.Response:
        if self.log is None:
            return refused(404, "NotFound")
        stamp = f"{self.log_time} " if request.query.get("timestamps") == "true" else ""
        return web.Response(text="".join(stamp + line for line in self.log.splitlines(keepends=True)))

    def tell(self, name: str, **status: Any) -> None:
        """Change a job's status from the test's thread, as an operator would."""
        job = self.jobs[name]
        job["status"] = STATUS | status
        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(self.change("MODIFIED", job), self.loop).result()

    async def secret(self, request: web.Request) -> web.Response:
        self.asked_for_secrets += 1
        if self.deaf_to_secrets:
            await passing(60)
        if not self.secrets:
            return refused(403, "Forbidden", "secrets is forbidden: User u cannot create it")
        body = await request.json()
        for name, content in body["data"].items():
            text = base64.b64decode(content).replace(b"/tmp/ray", str(self.folder).encode())
            (self.folder / name).write_bytes(text)
        [owner] = body["metadata"]["ownerReferences"]
        task = asyncio.create_task(self.run(self.jobs[owner["name"]]))
        self.background.add(task)
        return web.json_response(body)

    async def run(self, job: Any) -> None:
        command = [sys.executable, str(self.folder / "program.py"), "run", str(self.folder)]
        process = await asyncio.create_subprocess_exec(*command, env=self.environment, stderr=asyncio.subprocess.PIPE)
        attempt: dict[str, Any] = {"number": 0, "runningTime": STARTED}
        job["status"] = {"phase": "Running", "attempt": 0, "attempts": [attempt], "resolved": {"hosts": 1}}
        await self.change("MODIFIED", job)
        try:
            _, said = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
                await process.communicate()
        code = process.returncode
        attempt["root"] = {"exitCode": code, "log": said.decode()}
        job["status"]["phase"] = "Failed" if code else "Succeeded"
        job["status"]["result"] = {"reason": "MaxFailures", "message": "maxFailures: 1 attempt failed"}
        job["status"] |= self.end
        await self.change("MODIFIED", job)

    async def fail(self, socket: web.WebSocketResponse, name: str) -> None:
        if self.stream == "closed":
            await socket.close()
        async for _ in socket:
            pass
        if self.end:
            self.jobs[name]["status"] |= self.end
            await self.change("MODIFIED", self.jobs[name])

    async def end_attempt(self, name: str) -> None:
        """First that it has ended, then why."""
        job = self.jobs[name]
        job["status"]["attempts"][0]["endTime"] = STARTED
        await self.change("MODIFIED", job)

        async def judge() -> None:
            await passing(0.5)
            job["status"] |= self.end
            await self.change("MODIFIED", job)

        task = asyncio.create_task(judge())
        self.background.add(task)

    async def exec(self, request: web.Request) -> web.StreamResponse:
        if self.exec_refusal is not None:
            return refused(self.exec_refusal, "")
        socket = web.WebSocketResponse(protocols=("v5.channel.k8s.io",), max_msg_size=0)
        await socket.prepare(request)
        if self.stream != "runs":
            await self.fail(socket, request.match_info["pod"].rpartition("-0-head")[0])
            return socket
        _, *words = request.query.getall("command")
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            sys.executable, *words, env=self.environment, stdin=pipe, stdout=pipe, stderr=asyncio.subprocess.DEVNULL
        )
        assert process.stdin is not None
        assert process.stdout is not None

        async def tell() -> None:
            while piece := await process.stdout.read(5000):  # type: ignore[union-attr]
                await socket.send_bytes(b"\x01" + piece)
            await socket.send_bytes(b"\x03" + json.dumps({"status": "Success"}).encode())
            await socket.close()

        if self.ended:
            await self.end_attempt(request.match_info["pod"].rpartition("-0-head")[0])
        telling = asyncio.create_task(tell())
        try:
            await self._feed(socket, process.stdin)
            await process.wait()
            await telling
        finally:
            # A client may close the connection in the middle; the process must not outlive the handler.
            telling.cancel()
            if process.returncode is None:
                process.kill()
                await process.wait()
        return socket

    async def _feed(self, socket: web.WebSocketResponse, stdin: asyncio.StreamWriter) -> None:
        first = True
        async for message in socket:
            if message.type is not WSMsgType.BINARY:
                break
            content = message.data[1:]
            if first:
                size, _, text = content.partition(b"\n")
                # What follows the program's text in a later piece is not looked at: paths stand in its beginning.
                moved = text.replace(b"/tmp/ray", str(self.folder).encode())
                grown = len(moved) - len(text)
                content, first = b"%d\n" % (int(size) + grown) + moved, False
            stdin.write(content)
            await stdin.drain()
        stdin.close()


def until(holds: Callable[[], Any]) -> None:
    """Wait for a state of the server or of a call."""
    waiting.until("the server, or a call, has got so far", holds, every=0.02)


def environment_with(ray: str, folder: Path) -> dict[str, str]:
    (folder / "ray.py").write_text(ray)
    return os.environ | {"PYTHONPATH": str(folder), "SLIPWAY_JOB": "train", "SLIPWAY_WORLD_SIZE": "2"}

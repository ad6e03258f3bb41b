"""Jobs that run nowhere: a client with the fewest lines that all verbs can stand on.

A job takes one step whenever somebody watches it. Its hosts understand `echo`, `exit` and `sleep`.
"""

from collections.abc import AsyncGenerator, Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Self

import msgspec

from slipway.api.base import rfc3339
from slipway.api.places import Place, pod_name, worker
from slipway.apiserver.watch import Applied, Deleted, Init, InitDone
from slipway.apiserver.watch import Event as Change
from slipway.client import errors
from slipway.client.description import Event
from slipway.client.host_states import PodSeen
from slipway.client.logs.interface import COMBINED, LogBroken, LogGone, LogQuery
from slipway.client.logs.items import SECOND, nanoseconds
from slipway.client.logs.log_pod import LogPod
from slipway.client.model import JobState, Stored
from slipway.client.target import Target
from slipway.client.verbs import Verbs
from tests.waiting import passing

Json = dict[str, Any]
PAUSE = 0.01


def now() -> str:
    return rfc3339(datetime.now(UTC))


@dataclass
class Memory:
    """The jobs, their pods, and what those have written."""

    jobs: dict[str, Json] = field(default_factory=dict)
    pods: dict[str, Json] = field(default_factory=dict)
    logs: dict[str, list[tuple[int, bytes]]] = field(default_factory=dict)
    version: int = 0

    def put(self, job: Json, **status: Any) -> None:
        self.version += 1
        job["metadata"]["resourceVersion"] = str(self.version)
        job["status"] = job.get("status", {}) | status
        self.jobs[job["metadata"]["name"]] = job

    def step(self, name: str) -> None:
        """What a job does next."""
        job = self.jobs.get(name)
        if job is None or "result" in job.get("status", {}):
            return
        script = [line.split() for line in job["spec"]["command"][-1].split("; ")]
        last = script.pop()
        if "attempt" not in job.get("status", {}):
            self._begin(job, b"".join(b" ".join(map(str.encode, words[1:])) + b"\n" for words in script))
        elif job["spec"].get("cancel"):
            self._end(job, "Cancelled", 143)
        elif last[0] == "exit":
            self._end(job, "Failed" if int(last[1]) else "Succeeded", int(last[1]))

    def _begin(self, job: Json, output: bytes) -> None:
        hosts = job["spec"].get("hosts", 1)
        sizes = ("coordinatorPort", "scheduleSeconds", "startSeconds", "gracePeriodSeconds")
        resolved = {"hosts": hosts, "templateHash": "x"} | dict.fromkeys(sizes, 1)
        slices, attempts = {"requested": 1, "granted": 1}, [{"number": 0, "startTime": now()}]
        for host in range(hosts):
            name = pod_name(job["metadata"]["name"], 0, worker(0, host))
            self.pods[name] = {
                "metadata": {"name": name, "uid": name},
                "spec": {"nodeName": "here"},
                "status": {"phase": "Running", "containerStatuses": [_container({"running": {"startedAt": now()}})]},
            }
            began = nanoseconds(datetime.now(UTC))
            self.logs[name] = [(began + at, line) for at, line in enumerate(output.splitlines(keepends=True))]
        self.put(job, phase="Running", attempt=0, attempts=attempts, slices=slices, resolved=resolved)

    def _end(self, job: Json, phase: str, code: int) -> None:
        name = job["metadata"]["name"]
        ended: Json = {"endTime": now(), "reason": phase, "message": f"{phase} with {code}"}
        for pod in self.of(name):
            pod["status"] = {
                "phase": "Failed" if code else "Succeeded",
                "containerStatuses": [_container({"terminated": {"startedAt": now(), "exitCode": code}})],
            }
        if phase == "Failed":
            pod_of_root = pod_name(name, 0, FIRST)
            tail = b"".join(line for _, line in self.logs[pod_of_root]).decode()
            root = {"slice": 0, "host": 0, "pod": pod_of_root, "exitCode": code, "log": tail}
            ended |= {"cause": "failure", "reason": "ExitCode", "root": root}
        result = {"reason": phase, "message": ended["message"], "exitCode": code}
        self.put(job, phase=phase, attempts=[job["status"]["attempts"][0] | ended], result=result)

    def of(self, name: str) -> list[Json]:
        """The pods of a job."""
        return [pod for pod in self.pods.values() if pod["metadata"]["name"].startswith(f"{name}-0-")]

    def remove(self, name: str) -> None:
        del self.jobs[name]
        for pod in self.of(name):
            del self.pods[pod["metadata"]["name"]]


FIRST: Place = worker(0, 0)


def _container(state: Json) -> Json:
    return {"name": "worker", "state": state}


@dataclass(frozen=True)
class MemoryTarget(Target):
    memory: Memory = field(default_factory=Memory)

    @property
    def resolved_namespace(self) -> str:
        return self.namespace or "memory"

    def client(self) -> "MemoryClient":
        return MemoryClient(self)


class MemoryClient(Verbs):
    def __init__(self, target: MemoryTarget) -> None:
        self._target, self._memory = target, target.memory

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    @property
    def resolved_namespace(self) -> str:
        return self._target.resolved_namespace

    async def manifest(self, name: str) -> Json:
        if name not in self._memory.jobs:
            raise errors.NotFound(f"there is no SliceJob {name}")
        return deepcopy(self._memory.jobs[name])

    async def list(self, *, all_namespaces: bool = False, label_selector: str = "") -> tuple[JobState, ...]:
        return tuple([await self.get(name) for name in sorted(self._memory.jobs)])

    async def watch(self, name: str) -> AsyncGenerator[JobState | None, None]:
        found: JobState | None = await self.get(name)
        while found is not None:
            yield found
            version = found.stored.metadata.resource_version
            while found is not None and found.stored.metadata.resource_version == version:
                await passing(PAUSE)
                self._memory.step(name)
                found = await self.find(name)
        yield None

    async def history(self, name: str) -> tuple[Json, ...]:
        return tuple((await self.manifest(name))["status"].get("attempts", ()))

    def log_source(self, job: JobState) -> "MemoryLogs":
        return MemoryLogs(self._memory, job.name)

    async def pods(self, name: str, *, attempt: int | None = None) -> tuple[Json, ...]:
        return tuple(deepcopy(self._memory.of(name)))

    async def watch_pods(self, name: str) -> AsyncGenerator[Change[PodSeen], None]:
        async for change in _changes(self._memory, name, PodSeen):
            yield change

    async def _read(self, name: str, namespace: str) -> Stored:
        return msgspec.convert(await self.manifest(name), Stored)

    async def _create(self, body: Mapping[str, Any], namespace: str, *, dry_run: bool) -> Stored:
        name = body["metadata"]["name"]
        if name in self._memory.jobs:
            raise errors.AlreadyExists(name)
        metadata = {"name": name, "namespace": namespace, "uid": f"uid of {name}", "creationTimestamp": now()}
        job = {**deepcopy(dict(body)), "metadata": metadata}
        if not dry_run:
            self._memory.put(job)
        return msgspec.convert(job, Stored)

    async def _patch(self, found: JobState, fields: Mapping[str, Any]) -> Stored:
        job = await self.manifest(found.name)
        if job["metadata"]["resourceVersion"] != found.stored.metadata.resource_version:
            raise errors.ChangedMeanwhile(found.name)
        job["spec"] |= fields
        self._memory.put(job)
        return await self._read(found.name, found.namespace)

    async def _remove(self, found: JobState) -> None:
        self._memory.remove(found.name)

    async def _events(self, found: JobState) -> Iterable[Event]:
        about = {"kind": "SliceJob", "name": found.name}
        created = Event(type="Normal", reason="Created", message="it was created", involved_object=about)
        created.event_time = found.created
        return [created]


async def _changes(memory: Memory, name: str, kind: type[Any]) -> AsyncGenerator[Change[Any], None]:
    """The pods of a job, then what becomes of them."""
    known: dict[str, Json] = {}
    yield Init()
    listed = False
    while True:
        pods = {pod["metadata"]["name"]: deepcopy(pod) for pod in memory.of(name)}
        for key, pod in pods.items():
            if known.get(key) != pod:
                yield Applied(msgspec.convert(pod, kind))
        for key in known.keys() - pods.keys():
            yield Deleted(msgspec.convert(known[key], kind))
        if not listed:
            yield InitDone("")
        known, listed = pods, True
        await passing(PAUSE)


class MemoryLogs:
    """The pods of a job and their logs."""

    streams = (COMBINED,)

    def __init__(self, memory: Memory, name: str) -> None:
        self._memory, self._name = memory, name

    async def pods(self) -> list[LogPod]:
        return [msgspec.convert(pod, LogPod) for pod in self._memory.of(self._name)]

    async def watch(self) -> AsyncGenerator[Change[LogPod], None]:
        async for change in _changes(self._memory, self._name, LogPod):
            yield change

    def stream(self, pod: str, query: LogQuery) -> "MemoryStream":
        return MemoryStream(self._memory, pod, query)


class MemoryStream:
    """What a host has written, and goes on writing."""

    def __init__(self, memory: Memory, pod: str, query: LogQuery) -> None:
        self._memory, self._pod, self._query = memory, pod, query
        self._cut = False

    def cut(self) -> None:
        self._cut = True

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        query, since = self._query, nanoseconds(self._query.since) if self._query.since else 0
        sent: int | None = None
        while True:
            pod, lines = self._memory.pods.get(self._pod), self._memory.logs.get(self._pod, [])
            if pod is None:
                raise LogGone(f"there is no pod {self._pod}")
            if sent is None:
                sent = 0 if query.tail is None else max(len(lines) - query.tail, 0)
            if new := b"".join(_stamp(moment) + raw for moment, raw in lines[sent:] if moment >= since):
                yield new
            sent = len(lines)
            if not query.follow or pod["status"]["phase"] != "Running":
                return
            await passing(PAUSE)
            if self._cut:
                raise LogBroken("it was cut")


def _stamp(moment: int) -> bytes:
    seconds, rest = divmod(moment, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z ".encode()

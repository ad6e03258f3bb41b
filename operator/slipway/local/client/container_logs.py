"""The logs of the containers of a job: from the engine while there is a container, afterwards from its file."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import closing, suppress
from datetime import UTC
from threading import Event as Flag
from threading import Lock, Thread
from typing import Any, Final, TypeVar

import msgspec

from slipway.api import names
from slipway.apiserver.watch import Applied, Deleted, Event, Init, InitDone
from slipway.client.logs.interface import COMBINED, STDERR, STDOUT, STREAMS, LogBroken, LogGone, LogQuery
from slipway.client.logs.log_pod import LogPod
from slipway.local.client.containers_as_pods import job_pods, kept_pods
from slipway.local.client.errors import as_client_errors
from slipway.local.containers.containers import Containers, EngineLost, EngineRefuses, Streams
from slipway.local.containers.kept_logs import kept_log, lines_of
from slipway.local.conversion.containers_of_pod import Kind, Part
from slipway.local.engine.address import connect
from slipway.local.engine.errors import EngineUnavailable
from slipway.local.jobs import file_watch
from slipway.local.jobs.job_files import JobFolder, NoSuchJob
from slipway.local.jobs.options import Options

T = TypeVar("T")
_MOST_WAITING: Final = 4 * 1024 * 1024
"""Bytes that a stream reads ahead."""
_AGAIN_SECONDS: Final = 1.0
"""Before the engine is asked again that did not answer."""


class ContainerLogs:
    """The containers of one job and their logs."""

    streams = STREAMS

    def __init__(self, job: JobFolder, uid: str) -> None:
        self._job = job
        self._uid = uid

    async def pods(self) -> list[LogPod]:
        """The containers that there are, and those of which a log is kept."""
        with as_client_errors():
            found = await asyncio.to_thread(self._all)
        return [msgspec.convert(one, LogPod, strict=False) for one in found]

    def watch(self) -> AsyncGenerator[Event[LogPod], None]:
        """The pods that there are, then what changes; for ever."""
        return self.changes(LogPod)

    async def changes(self, kind: type[T]) -> AsyncGenerator[Event[T], None]:
        """The same in the words of any picture of a pod."""
        yield Init()
        known: dict[str, Any] = {}
        first = True
        async for found in self._looks():
            for name, body in found.items():
                if _without_version(known.get(name)) != _without_version(body):
                    yield Applied(msgspec.convert(body, kind, strict=False))
            for name in known.keys() - found.keys():
                yield Deleted(msgspec.convert(known[name], kind, strict=False))
            known = found
            if first:
                yield InitDone("0")
                first = False

    async def _looks(self) -> AsyncGenerator[dict[str, Any], None]:
        """All pods by name, now and whenever the job has changed."""
        yield await self._look()
        async for _ in file_watch.news(self._job, logs=True):
            yield await self._look()

    async def _look(self) -> dict[str, Any]:
        while True:
            try:
                return {one["metadata"]["name"]: one for one in await asyncio.to_thread(self._all)}
            except (EngineLost, EngineUnavailable, EngineRefuses):
                await asyncio.sleep(_AGAIN_SECONDS)

    def _all(self) -> list[dict[str, Any]]:
        try:
            there = job_pods(self._job)
            names = {one["metadata"]["name"] for one in there}
            return there + [pod for pod in kept_pods(self._job) if pod["metadata"]["name"] not in names]
        except NoSuchJob:
            return []

    def stream(self, pod: str, query: LogQuery) -> "ContainerLogStream":
        """A stream of the log of a container."""
        return ContainerLogStream(self._job, self._uid, pod, query)


def _without_version(pod: dict[str, Any] | None) -> Any:
    if pod is None:
        return None
    about = {name: value for name, value in pod["metadata"].items() if name != "resourceVersion"}
    return pod | {"metadata": about}


class ContainerLogStream:
    """One stream of the log of a container, read by a thread of its own."""

    def __init__(self, job: JobFolder, uid: str, pod: str, query: LogQuery) -> None:
        self._job, self._uid, self._query = job, uid, query
        is_program = query.container in (names.WORKER_CONTAINER, names.DRIVER_CONTAINER)
        self._name = pod if is_program else Part(Kind.INIT, query.container).container(pod)
        self._close: Callable[[], None] = lambda: None
        self._cut = Flag()

    def cut(self) -> None:
        """Have who reads the chunks get LogBroken."""
        self._cut.set()
        self._close()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The lines in pieces. See `slipway.client.logs.interface.LogStream`."""
        pipe = _Pipe(asyncio.get_running_loop())
        Thread(target=pipe.fill, args=(self._pieces, self._cut), daemon=True, name=f"log of {self._name}").start()
        try:
            async for chunk in pipe.chunks():
                yield chunk
        except (EngineLost, EngineRefuses, EngineUnavailable) as error:
            raise LogBroken(str(error)) from error
        except NoSuchJob as error:
            raise LogGone(str(error)) from error
        finally:
            self.cut()
            pipe.close()

    def _pieces(self) -> Iterator[bytes]:
        if self._job.log(self._name).exists():
            yield from self._kept()
            return
        options = Options.from_json(self._job.read()["local"]["options"])
        api = connect(options.engine)
        try:
            containers = Containers(api, self._uid)
            if containers.inspect(self._name) is None:
                # It may have gone meanwhile.
                yield from self._kept()
                return
            query, streams = self._query, self._streams()
            if query.tail is not None and not all(streams):
                # The engine would count the lines of both streams.
                yield from self._chosen(lines_of(b"".join(containers.log(self._name, streams=streams))))
                return
            log = containers.log(self._name, follow=query.follow, since=query.since, tail=query.tail, streams=streams)
            self._close = log.cut
            with closing(log):
                # Who gave it up before it was open had nothing to close.
                if not self._cut.is_set():
                    yield from log
        finally:
            api.close()

    def _kept(self) -> Iterator[bytes]:
        """The same lines from the file."""
        try:
            lines = kept_log(self._job.log(self._name), self._streams())
        except FileNotFoundError:
            raise LogGone(f"container {self._name} is gone, and its log was not kept") from None
        yield from self._chosen(lines)

    def _streams(self) -> Streams:
        return Streams(*(self._query.stream in (COMBINED, one) for one in (STDOUT, STDERR)))

    def _chosen(self, lines: list[bytes]) -> Iterator[bytes]:
        if self._query.tail is not None:
            lines = lines[-self._query.tail :] if self._query.tail else []
        if self._query.since is not None:
            least = self._query.since.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S").encode()
            lines = [line for line in lines if line >= least]
        for start in range(0, len(lines), 1000):
            yield b"".join(lines[start : start + 1000])


class _Pipe:
    """Brings what a thread reads to a coroutine, and lets it not read too far ahead."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._lock = Lock()
        self._pieces: list[bytes] = []
        self._size = 0
        self._end: Exception | None = None
        self._ended = False
        self._room = Flag()
        self._room.set()
        self._news = asyncio.Event()

    def fill(self, pieces: Callable[[], Iterator[bytes]], cut: Flag) -> None:
        """Read everything, in a thread of its own."""
        try:
            for piece in pieces():
                self._put(piece)
                self._room.wait()
                if cut.is_set():
                    break
        except Exception as error:
            # Whatever it is, who waits for the pieces has to hear of it.
            self._end = error
        if cut.is_set():
            self._end = LogBroken("the stream was cut")
        self._ended = True
        self._tell()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """What was read, in pieces as large as they have become."""
        while True:
            await self._news.wait()
            self._news.clear()
            ended, chunk = self._ended, self._take()
            if chunk:
                yield chunk
            if ended:
                break
        if self._end is not None:
            raise self._end

    def close(self) -> None:
        """Let the thread go on to its end."""
        self._room.set()

    def _put(self, piece: bytes) -> None:
        with self._lock:
            self._pieces.append(piece)
            self._size += len(piece)
            if self._size > _MOST_WAITING:
                self._room.clear()
        self._tell()

    def _take(self) -> bytes:
        with self._lock:
            pieces, self._pieces, self._size = self._pieces, [], 0
            self._room.set()
        return b"".join(pieces)

    def _tell(self) -> None:
        # The coroutine may be gone, and its loop with it.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._news.set)

"""What is known of a job and its pods while its logs are read; once, or for as long as they are followed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from datetime import datetime
from typing import Final

import msgspec

from slipway.api import names
from slipway.api.places import Place, parse_pod_name, pod_name
from slipway.client.asynchronous import AsyncClient, answered
from slipway.client.model import JobState
from slipway.cluster import paths
from slipway.cluster.watch import Applied, Deleted, Init, InitDone, Watcher

_ENDED: Final = ("Succeeded", "Failed")
_JOB: Final = ""
"""What stands for the job where pods are named."""


class _Part(msgspec.Struct, frozen=True, rename="camel"):
    """Part of a pod, in camelCase outside."""


class _Metadata(_Part, frozen=True):
    name: str
    uid: str
    resource_version: str = ""


class _Run(_Part, frozen=True):
    started_at: datetime | None = None


class _Waiting(_Part, frozen=True):
    reason: str = ""


class _State(_Part, frozen=True):
    waiting: _Waiting | None = None
    running: _Run | None = None
    terminated: _Run | None = None


class _Container(_Part, frozen=True):
    name: str
    state: _State = _State()


class _Status(_Part, frozen=True):
    phase: str = ""
    reason: str = ""
    container_statuses: tuple[_Container, ...] = ()


class LogPod(_Part, frozen=True):
    """A pod, as far as its log is concerned."""

    metadata: _Metadata
    status: _Status = _Status()

    @property
    def container(self) -> str:
        """The container whose log is the program's."""
        found = {one.name for one in self.status.container_statuses}
        return names.DRIVER_CONTAINER if names.DRIVER_CONTAINER in found else names.WORKER_CONTAINER

    @property
    def started(self) -> bool:
        """Whether the container has started, so that there is a log."""
        return self._run is not None

    @property
    def started_at(self) -> datetime | None:
        """When the container started."""
        return self._run.started_at if self._run else None

    @property
    def ended(self) -> bool:
        """Whether nothing more will be written."""
        return self.status.phase in _ENDED or self._state.terminated is not None

    @property
    def reason(self) -> str:
        """Why it does not run, in one word."""
        waiting = self._state.waiting
        return self.status.reason or (waiting.reason if waiting else "") or self.status.phase or "Pending"

    @property
    def _run(self) -> _Run | None:
        return self._state.running or self._state.terminated

    @property
    def _state(self) -> _State:
        named = self.container
        return next((one.state for one in self.status.container_statuses if one.name == named), _State())


class Board:
    """A job and its pods."""

    def __init__(self, job: JobState) -> None:
        self.job = job
        self.deleted = False
        """Whether the job was deleted, or another has its name."""
        self.pods: dict[str, LogPod] = {}
        self._changes: dict[str, asyncio.Event] = {}
        self._error: BaseException | None = None

    def pod(self, attempt: int, place: Place) -> LogPod | None:
        """The pod of an attempt at a place, if there is one."""
        return self.pods.get(pod_name(self.job.name, attempt, place))

    def attempts(self) -> dict[int, set[Place]]:
        """The attempts that have pods, and where these are."""
        found: dict[int, set[Place]] = {}
        for name in self.pods:
            if (parsed := parse_pod_name(self.job.name, name)) is not None:
                found.setdefault(parsed[0], set()).add(parsed[1])
        return found

    def over(self, attempt: int) -> bool:
        """Whether an attempt has ended, or will never begin."""
        status = self.job.status
        ended = any(one.number == attempt and one.end_time is not None for one in status.attempts)
        return ended or self.deleted or self.job.over or (status.attempt is not None and status.attempt > attempt)

    async def changed(self, pod: str = _JOB) -> None:
        """Wait until that pod or the job changes."""
        if self._error is None:
            await self._changes.setdefault(pod, asyncio.Event()).wait()
        if self._error is not None:
            raise self._error

    def _wake(self, pod: str = _JOB) -> None:
        for name in [pod] if pod else list(self._changes):
            if event := self._changes.pop(name, None):
                event.set()

    async def list(self, client: AsyncClient) -> None:
        """Read the pods once."""
        with answered():
            found = await client.api.list(paths.pods(self.job.namespace), LogPod, label_selector=self._label)
        self.pods = {one.metadata.name: one for one in found.items}

    @asynccontextmanager
    async def watching(self, client: AsyncClient) -> AsyncIterator[None]:
        """Keep it up to date."""
        tasks = [asyncio.create_task(work) for work in (self._watch_job(client), self._watch_pods(client))]
        for task in tasks:
            task.add_done_callback(self._stopped)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    @property
    def _label(self) -> str:
        return f"{names.LABEL_JOB_UID}={self.job.uid}"

    def _stopped(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self._wake()

    async def _watch_job(self, client: AsyncClient) -> None:
        async with aclosing(client.watch(self.job.name)) as states:
            async for state in states:
                self.deleted = state is None or state.uid != self.job.uid
                if state is not None and not self.deleted:
                    self.job = state
                self._wake()
                if self.deleted:
                    return

    async def _watch_pods(self, client: AsyncClient) -> None:
        watcher = Watcher(client.api, paths.pods(self.job.namespace), LogPod, label_selector=self._label)
        listed: set[str] = set()
        with answered():
            async with aclosing(watcher.events()) as events:
                async for event in events:
                    match event:
                        case Init():
                            listed = set()
                        case Applied(pod):
                            listed.add(pod.metadata.name)
                            self._put(pod)
                        case Deleted(pod):
                            self._drop(pod.metadata.name)
                        case InitDone():
                            for name in self.pods.keys() - listed:
                                self._drop(name)

    def _put(self, pod: LogPod) -> None:
        self.pods[pod.metadata.name] = pod
        self._wake(pod.metadata.name)

    def _drop(self, name: str) -> None:
        self.pods.pop(name, None)
        self._wake(name)

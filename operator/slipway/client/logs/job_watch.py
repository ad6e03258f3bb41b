"""The job and its pods while its logs are read: listed once, or watched for as long as the logs are followed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Final

from slipway.api.places import Place, parse_pod_name, pod_name
from slipway.apiserver.watch import Applied, Deleted, Init, InitDone
from slipway.client.errors import ClusterError
from slipway.client.logs.interface import LogClient, LogSource
from slipway.client.logs.log_pod import LogPod
from slipway.client.model import JobState

_JOB: Final = ""
"""What stands for the job where pods are named."""


class JobWatch:
    """A job and its pods."""

    def __init__(self, job: JobState) -> None:
        self.job = job
        self.deleted = False
        """Whether the job was deleted, or another has its name."""
        self.pods: dict[str, LogPod] = {}
        self._listed: dict[int, asyncio.Task[None]] = {}
        """Lists of the pods that were made because an attempt was over, by its number."""
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

    async def list(self, source: LogSource) -> None:
        """Read the pods once."""
        self.pods = {pod.metadata.name: pod for pod in await source.pods()}

    async def list_over(self, source: LogSource, attempt: int) -> None:
        """Read the pods once, now that an attempt is over: the watch of the job may be ahead of that of the pods."""
        if attempt not in self._listed:
            self._listed[attempt] = asyncio.create_task(self._catch_up(source))
        await asyncio.shield(self._listed[attempt])

    async def _catch_up(self, source: LogSource) -> None:
        """Take from a list what the watch has not shown; without an answer the watch has to do."""
        with suppress(ClusterError):
            for pod in await source.pods():
                watched = self.pods.get(pod.metadata.name)
                if watched is None or (pod.ended and not watched.ended):
                    self._put(pod)

    @asynccontextmanager
    async def watching(self, client: LogClient, source: LogSource) -> AsyncIterator[None]:
        """Keep it up to date."""
        tasks = [asyncio.create_task(work) for work in (self._watch_job(client), self._watch_pods(source))]
        for task in tasks:
            task.add_done_callback(self._stopped)
        try:
            yield
        finally:
            tasks += self._listed.values()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _stopped(self, task: "asyncio.Task[None]") -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._error = error
            self._wake()

    async def _watch_job(self, client: LogClient) -> None:
        async with aclosing(client.watch(self.job.name)) as states:
            async for state in states:
                self.deleted = state is None or state.uid != self.job.uid
                if state is not None and not self.deleted:
                    self.job = state
                self._wake()
                if self.deleted:
                    return

    async def _watch_pods(self, source: LogSource) -> None:
        listed: set[str] = set()
        async with aclosing(source.watch()) as events:
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

"""SliceJobs without asyncio: every verb of `Verbs`, and a handle of one job."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, TypeVar

from slipway.api.status import Phase
from slipway.apiserver.wire import JsonObject
from slipway.client import background_loop
from slipway.client.cluster_client import ClusterTarget
from slipway.client.description import Description, Event
from slipway.client.errors import SlipwayError
from slipway.client.logs import Batch, Line, Note, Selection, Separator, follow_batches
from slipway.client.model import JobState
from slipway.client.outcome import failure
from slipway.client.target import Target
from slipway.client.verbs import FINISHED, Verbs

T = TypeVar("T")

log = logging.getLogger(__name__)


def _to_the_log(remark: Note | Separator) -> None:
    log.warning("%s", remark.message)


class BlockingVerbs(Target):
    """The verbs of a client without asyncio. Every method opens a client of its own.

    Methods raise the tree of `slipway.client.errors`. They work in a notebook and from any thread.
    """

    def submit(self, body: Mapping[str, Any], *, dry_run: bool = False) -> "Job":
        """Create a SliceJob; the same one again changes nothing. See `AsyncClient.submit`."""
        made = self._call(lambda client: client.submit(body, dry_run=dry_run))
        return Job(self.within(made.job.namespace), made.job.name, made.job.uid)

    def job(self, name: str) -> "Job":
        """A handle of a job that exists, whoever made it.

        Raises:
            NotFound: when there is none of that name.
        """
        job = self.get(name)
        return Job(self, job.name, job.uid)

    def get(self, name: str, *, uid: str | None = None) -> JobState:
        """One job. See `AsyncClient.get`."""
        return self._call(lambda client: client.get(name, uid=uid))

    def find(self, name: str) -> JobState | None:
        """One job, or None."""
        return self._call(lambda client: client.find(name))

    def exists(self, name: str) -> bool:
        """Whether there is such a job."""
        return self.find(name) is not None

    def list(self, *, all_namespaces: bool = False, label_selector: str = "") -> tuple[JobState, ...]:
        """The jobs of the namespace, or of all."""
        return self._call(lambda client: client.list(all_namespaces=all_namespaces, label_selector=label_selector))

    def wait(
        self, name: str, *, for_: Collection[str] = (FINISHED,), timeout: float | None = None, uid: str | None = None
    ) -> JobState:
        """Wait until a job has ended or is in one of these phases. See `AsyncClient.wait`."""
        return self._call(lambda client: client.wait(name, for_=for_, seconds=timeout, uid=uid))

    def show(self, name: str, *, timeout: float | None = None, uid: str | None = None) -> JobState:
        """Wait until a job has ended, and show it meanwhile. See `Job.wait`."""
        # They need rich, which takes time to import.
        from slipway.client.pictures.console import console
        from slipway.client.pictures.live import LiveView
        from slipway.client.show import follow

        progress = LiveView(console(stderr=True), [name])
        with progress.open():
            return self._call(lambda client: follow(client, name, progress, timeout, uid))

    def watch(self, name: str) -> Iterator[JobState]:
        """The job now and after each change, until it has ended or is deleted."""
        return background_loop.iterate(self._states(name))

    async def _states(self, name: str) -> AsyncGenerator[JobState, None]:
        client = self.client()
        async with client, aclosing(client.watch(name)) as states:
            async for state in states:
                if state is not None:
                    yield state
                if state is None or state.over:
                    return

    def cancel(self, name: str, *, now: bool = False, uid: str | None = None) -> JobState:
        """End a job for good, and keep its record. See `AsyncClient.cancel`."""
        return self._call(lambda client: client.cancel(name, now=now, uid=uid))

    def suspend(self, name: str) -> JobState:
        """Have its pods deleted and its nodes released."""
        return self._call(lambda client: client.suspend(name))

    def resume(self, name: str) -> JobState:
        """Let a suspended job begin another attempt."""
        return self._call(lambda client: client.resume(name))

    def delete(self, name: str, *, uid: str | None = None) -> JobState:
        """Delete a job with everything that belongs to it. See `AsyncClient.delete`."""
        return self._call(lambda client: client.delete(name, uid=uid))

    def events(self, name: str) -> tuple[Event, ...]:
        """The Events of a job and of its pods, oldest first."""
        return self._call(lambda client: client.events(name))

    def describe(self, name: str, *, history: bool = False, uid: str | None = None) -> Description:
        """One job in full. See `AsyncClient.describe`."""
        return self._call(lambda client: client.describe(name, history=history, uid=uid))

    def history(self, name: str) -> tuple[JsonObject, ...]:
        """Every attempt that is recorded, oldest first."""
        return self._call(lambda client: client.history(name))

    def logs(
        self,
        name: str,
        selection: Selection = Selection(),  # noqa: B008  it is immutable
        *,
        remark: Callable[[Note | Separator], None] = _to_the_log,
    ) -> Iterator[Line]:
        """The lines that a job's hosts wrote. See `slipway.client.logs.follow`.

        Args:
            remark: told where lines may be missing, and where an attempt ends; by default a warning is logged.
        """
        for batch in background_loop.iterate(self._log_batches(name, selection)):
            for item in batch:
                if isinstance(item, Line):
                    yield item
                elif isinstance(item, Note | Separator):
                    remark(item)

    async def _log_batches(self, name: str, selection: Selection) -> AsyncGenerator[Batch, None]:
        client = self.client()
        async with client, aclosing(follow_batches(client, name, selection)) as batches:
            async for batch in batches:
                yield batch

    def why(self, name: str) -> str:
        """Why a job does not run, or how it ended, in a sentence."""
        return self.get(name).message

    def _call(self, work: Callable[[Verbs], Awaitable[T]]) -> T:
        async def whole() -> T:
            async with self.client() as client:
                return await work(client)

        return background_loop.run(whole())


@dataclass(frozen=True)
class Client(BlockingVerbs, ClusterTarget):
    """SliceJobs of one namespace of a cluster; made without any call."""


@dataclass(frozen=True)
class Job:
    """One job, by its UID. Once it is deleted, its methods raise NotFound, also when a later job has its name."""

    client: BlockingVerbs
    name: str
    uid: str
    """UID of the job: a later one of the same name is another job."""

    @property
    def state(self) -> JobState:
        """The job at this moment."""
        return self.client.get(self.name, uid=self.uid)

    def _repr_mimebundle_(self, include: Sequence[str], exclude: Sequence[str]) -> dict[str, str]:
        """What a notebook shows at the end of a cell."""
        try:
            return self.state._repr_mimebundle_(include, exclude)
        except SlipwayError as error:
            return {"text/plain": f"SliceJob {self.name}: {error}"}

    def describe(self, *, history: bool = False) -> Description:
        """Its attempts, hosts and Events at this moment. See `AsyncClient.describe`."""
        return self.client.describe(self.name, history=history, uid=self.uid)

    def poll(self) -> int | None:
        """The exit code, as `subprocess.Popen.poll` tells it; None while the job has not ended (F-71)."""
        state = self.state
        return _code(state) if state.over else None

    def wait(self, timeout: float | None = None, *, progress: bool = False) -> JobState:
        """Wait for the end.

        Args:
            timeout: how many seconds to wait; None waits for ever.
            progress: show the job meanwhile: as a picture on a terminal and in a notebook, elsewhere as a line for
                each change. It is written to standard error.

        Returns:
            The job, which has succeeded.

        Raises:
            WaitTimeout: after that many seconds; the job goes on.
            JobError: when it did not succeed; `.host` says where, `.log` has the last lines.
        """
        state = (self.client.show if progress else self.client.wait)(self.name, timeout=timeout, uid=self.uid)
        if (error := failure(state)) is not None:
            raise error
        return state

    def until(self, *phases: str, timeout: float | None = None) -> JobState:
        """Wait until it is in one of these phases, or has ended (F-77)."""
        return self.client.wait(self.name, for_=phases, timeout=timeout, uid=self.uid)

    def cancel(self, *, now: bool = False) -> JobState:
        """End it for good, and keep its record."""
        return self.client.cancel(self.name, now=now, uid=self.uid)

    terminate = cancel

    def delete(self) -> JobState:
        """Delete it with everything that belongs to it."""
        return self.client.delete(self.name, uid=self.uid)


def _code(state: JobState) -> int:
    """The exit code of the program, or 1 where no program decided the end."""
    if state.phase == Phase.SUCCEEDED:
        return 0
    return state.exit_code or 1

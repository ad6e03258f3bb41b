"""One SliceJob of the SDK: made, watched to its end, cancelled, deleted."""

import asyncio
import logging
import secrets
import shlex
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Final, Literal, TypeVar, get_args

import aiohttp

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Conflict,
    ConnectionLost,
    Garbled,
    Invalid,
    NotFound,
    ServerError,
    SlipwayClusterError,
    from_response,
)
from slipway.apiserver.watch import Applied, Deleted, Init, InitDone, Watcher
from slipway.client import background_loop, errors
from slipway.client.api_errors import typed
from slipway.client.blocking import Client
from slipway.client.errors import (
    CapacityUnavailable,
    ClusterError,
    InvalidJob,
    JobCancelled,
    JobInfo,
    ResultMissing,
    SlipwayError,
    WaitTimeout,
)
from slipway.client.model import JobState, Stored
from slipway.sdk.progress import StoryPrinter

T = TypeVar("T")

OnInterrupt = Literal["cancel", "detach"]
"""What Ctrl-C and SIGTERM do to a job that is waited for: cancel it, or leave it running."""

CALL_ANNOTATION: Final = "slipway.dev/sdk-call"
"""Tells an answer that was lost on the way from a name that somebody else took."""
_LOG_SECONDS: Final = 300
_LOOK_SECONDS: Final = 15.0
"""How long a call tries to find out whether its job was made."""
_CANCEL_SECONDS: Final = 15.0
"""How long an interrupted call tries to cancel its job."""

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Run:
    """One job and where it is."""

    client: Client
    name: str
    kind: str
    """TPU, GPU or CPU."""
    progress: StoryPrinter = field(default_factory=StoryPrinter)
    call: str = field(default_factory=lambda: secrets.token_hex(8))

    def __post_init__(self) -> None:
        # The API server would say so of a body, but in a URL `lab?` is the job lab.
        if problem := names.name_problem(self.name):
            raise InvalidJob(problem, self.info)

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return self.client.resolved_namespace

    @property
    def place(self) -> str:
        """The job and its namespace, for messages."""
        return f"SliceJob {self.name} in {self.namespace}"

    @property
    def commands(self) -> str:
        """What one can do about it on the command line, for those who wait no longer."""
        if self.progress.last is None:
            return "whether it was created is not known"
        return (
            f"it goes on by itself. Follow it with {self._command('logs', '-f')}, wait for its end with "
            f"{self._command('wait')}, end it with {self._command('cancel')}"
        )

    def _command(self, verb: str, *options: str) -> str:
        """A command about it, which leads to the same place whatever the context is by then."""
        where = self.client.within(self.namespace).options
        return f"`{shlex.join(('slipway', verb, self.name, *options, *where))}`"

    @property
    def path(self) -> str:
        """Where it is in the API."""
        return paths.job(self.namespace, self.name)

    def body(self, spec: Mapping[str, Any]) -> dict[str, Any]:
        """The SliceJob."""
        metadata = {"name": self.name, "namespace": self.namespace, "annotations": {CALL_ANNOTATION: self.call}}
        return {"apiVersion": names.API_VERSION, "kind": names.KIND, "metadata": metadata, "spec": spec}

    async def read(self, api: ApiConnection) -> JobState:
        """The job as the API server has it; raises the connection's NotFound."""
        return JobState(await api.get(self.path, Stored))

    async def create(self, api: ApiConnection, spec: Mapping[str, Any]) -> JobState:
        """Make it, once: an answer that was lost on the way makes no second one.

        Raises:
            InvalidJob: when the API server refuses it.
            AlreadyExists: the client's, when its name is taken.
        """
        try:
            return await self.post(api, spec)
        except AlreadyExists as error:
            job = await self.read(api)
            if job.annotations.get(CALL_ANNOTATION) != self.call:
                raise errors.AlreadyExists(f"{self.place} exists already: choose another name") from error
            return job

    async def post(self, api: ApiConnection, spec: Mapping[str, Any]) -> JobState:
        """Ask the API server to make it.

        Raises:
            InvalidJob: when the API server refuses it.
            AlreadyExists: the connection's, when its name is taken.
        """
        try:
            made = JobState(await api.create(paths.jobs(self.namespace), self.body(spec), Stored, strict=True))
        except (BadRequest, Invalid) as error:
            raise InvalidJob(str(error), self.info) from error
        except (ConnectionLost, Garbled, ServerError) as error:
            made = await self._unanswered(api, error)
        self.progress.see(made)
        return made

    async def _unanswered(self, api: ApiConnection, error: SlipwayClusterError) -> JobState:
        """The job, if it was made although nobody said so; otherwise raises the error, or that nobody can tell."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                job = await self.read(api)
        except NotFound:
            raise error from None
        except (SlipwayClusterError, TimeoutError):
            words = f"so it is not known whether {self.place} was created: find out with {self._command('describe')}"
            raise type(typed(error))(f"{error}; {words}") from error
        if job.annotations.get(CALL_ANNOTATION) != self.call:
            raise error
        return job

    def late(self, seconds: float, ended: str) -> SlipwayError:
        """The error when it was not done after that time."""
        last = self.progress.last
        words = f"{ended} after timeout={seconds:g} s: {last.story if last else ''}".rstrip(": ")
        if last is not None and last.waits_for_capacity:
            return CapacityUnavailable(words, self.info)
        return WaitTimeout(f"{self.place}: {words}")

    @property
    def info(self) -> JobInfo:
        """Which job, for errors of the SDK's own."""
        return JobInfo(self.name, "error", self.kind)

    async def states(self, api: ApiConnection, uid: str) -> AsyncGenerator[JobState, None]:
        """The job now, and whenever it changes.

        Raises:
            JobCancelled: when it is deleted, or another took its name.
        """
        watcher = Watcher(api, paths.jobs(self.namespace), Stored, field_selector=f"metadata.name={self.name}")
        listed = False
        async with aclosing(watcher.events()) as events:
            async for event in events:
                match event:
                    case Init():
                        listed = False
                    case Applied(stored) if stored.metadata.uid == uid:
                        listed, job = True, JobState(stored)
                        self.progress.see(job)
                        yield job
                    case InitDone() if not listed:
                        raise JobCancelled("it was deleted", self.info)
                    case Deleted() | Applied():
                        raise JobCancelled("it was deleted", self.info)

    async def until(self, api: ApiConnection, uid: str, holds: Callable[[JobState], bool]) -> JobState:
        """Wait until that holds, or until the job is over."""
        async with aclosing(self.states(api, uid)) as states:
            async for job in states:
                if job.over or holds(job):
                    return job
        raise AssertionError("a watch never ends by itself")

    async def log(self, api: ApiConnection, pod: str, container: str, whose: str) -> str:
        """All that a container wrote; what is no UTF-8 is replaced.

        Args:
            whose: the host, for the error's words.

        Raises:
            ResultMissing: when it cannot be read any more.
        """
        url, limit = f"{api.server}{paths.pods(self.namespace)}/{pod}/log", aiohttp.ClientTimeout(total=_LOG_SECONDS)
        try:
            async with (
                api.new_session() as session,
                session.get(url, params={"container": container}, timeout=limit) as answer,
            ):
                content = await answer.read()
                if answer.status >= 400:
                    raise from_response(answer.status, content)
        except (ApiError, aiohttp.ClientError, TimeoutError) as error:
            raise ResultMissing(f"the output of {whose} (pod {pod}) cannot be read: {error}", self.info) from error
        return content.decode(errors="replace")

    async def cancel(self) -> str:
        """Ask the operator to stop it for good, and say what came of it; another's job of the name goes on."""
        async with self.client.connect() as api:
            return "it was cancelled" if await self.change(api, {"cancel": True}) else "it is not there"

    async def change(self, api: ApiConnection, fields: Mapping[str, Any]) -> bool:
        """Set fields of its spec; False when it is not there, also where another's job has its name."""
        while True:
            try:
                found = await api.get(self.path, dict[str, Any])
                if found["metadata"].get("annotations", {}).get(CALL_ANNOTATION) != self.call:
                    return False
                found["spec"] |= fields
                await api.replace(self.path, found, dict[str, Any])
                return True
            except Conflict:
                continue
            except NotFound:
                return False

    async def delete(self, api: ApiConnection, uid: str, *, foreground: bool = False) -> None:
        """Remove it with everything that belongs to it; one that is gone stays so.

        Args:
            foreground: let it stand until all that belongs to it is gone.
        """
        with suppress(NotFound, Conflict):
            await api.delete(self.path, uid=uid, propagation="Foreground" if foreground else "Background")

    async def discard(self, api: ApiConnection) -> None:
        """Delete it once its results are here: they are not lost when that fails."""
        try:
            if self.progress.last is not None:
                await self.delete(api, self.progress.last.uid)
        except (ClusterError, SlipwayClusterError) as error:
            log.warning("SliceJob %s has succeeded, and could not be deleted: %s", self.name, error)

    async def until_gone(self, api: ApiConnection, uid: str, seconds: float) -> None:
        """Wait until it is deleted, at most that long."""
        with suppress(JobCancelled, TimeoutError):
            async with asyncio.timeout(seconds), aclosing(self.states(api, uid)) as states:
                async for _ in states:
                    pass


def check(on_interrupt: OnInterrupt, timeout: float | None) -> None:
    """Refuse words other than cancel and detach, and times that are over already."""
    if on_interrupt not in get_args(OnInterrupt):
        raise ValueError(f"on_interrupt must be 'cancel' or 'detach', not {on_interrupt!r}")
    if timeout is not None and not (isinstance(timeout, Real) and timeout > 0):
        raise ValueError(f"timeout must be more than 0 s, not {timeout!r}")


@asynccontextmanager
async def limited(run: Run, seconds: float | None, end: Callable[[], Awaitable[str]]) -> AsyncGenerator[None, None]:
    """After that time `end` ends the job, and says how.

    Raises:
        CapacityUnavailable: when it waited for nodes then.
        WaitTimeout: when it waited for something else, or ran.
    """
    timer = asyncio.timeout(seconds)
    try:
        async with timer:
            yield
    except TimeoutError:
        if seconds is None or not timer.expired():
            raise
        raise run.late(seconds, await end()) from None


def wait(
    run: Run,
    work: Callable[[ApiConnection], Awaitable[T]],
    on_interrupt: OnInterrupt,
    timeout: float | None = None,
    *,
    remove: bool = False,
    complete: Callable[[], bool] = lambda: True,
) -> T:
    """Wait for work about a job; after `timeout` seconds the job is cancelled.

    An interrupt cancels the job or leaves it running, and says which.

    Args:
        complete: whether the job has all that it needs by now, so that it can be left; otherwise it is cancelled.
        remove: delete the job after the work, which is not limited by `timeout`: the results are here.
    """
    check(on_interrupt, timeout)

    async def whole() -> T:
        async with AsyncExitStack() as stack:
            async with limited(run, timeout, run.cancel):
                api = await stack.enter_async_context(run.client.connect())
                done = await work(api)
            if remove:
                await run.discard(api)
            return done

    try:
        return background_loop.run(whole())
    except KeyboardInterrupt:
        can_go_on = complete()
        if on_interrupt == "detach" and can_go_on:
            raise KeyboardInterrupt(f"detached from {run.place}: {run.commands}") from None
        why = "" if can_go_on else "its call was not stored yet: "
        raise KeyboardInterrupt(f"{run.place}: {why}{_cancelled(run)}") from None


def _cancelled(run: Run) -> str:
    """Cancel it and say what came of it; an interrupt stays one though the API server is gone."""

    async def cancel() -> str:
        async with asyncio.timeout(_CANCEL_SECONDS):
            return await run.cancel()

    try:
        return background_loop.run(cancel())
    except ClusterError as error:
        return f"it could not be cancelled: {error}"
    except TimeoutError:
        return f"it could not be cancelled within {_CANCEL_SECONDS:g} s"

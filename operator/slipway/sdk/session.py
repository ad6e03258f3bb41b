"""A Ray cluster that stays, for calls one after the other."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from slipway.api.places import HEAD, pod_name
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import AlreadyExists, NotFound, SlipwayClusterError
from slipway.apiserver.exec_stream import StreamBroken, StreamForbidden
from slipway.client import background_loop, errors
from slipway.client.errors import JobError, JobFailed, SessionClosed
from slipway.client.manifests.reading import new_name
from slipway.client.model import JobState
from slipway.client.outcome import error_of, loss
from slipway.sdk.accelerators import checked, differences
from slipway.sdk.functions import RayExecutor
from slipway.sdk.jobs import CALL_ANNOTATION, Run, limited
from slipway.sdk.payload import Call, check_runtime_env, pack, pack_method, unpack
from slipway.sdk.progress import StoryPrinter
from slipway.sdk.ray_call import ask, refused

CLOSE_SECONDS: Final = 10.0
"""What running calls get when the session is closed."""
GONE_SECONDS: Final = 60.0
"""How long a cluster that was removed may take to go before nobody waits for it any more."""
LOSS_SECONDS: Final = 30.0
"""How long the operator may take to tell why a cluster was lost."""
CRASH_SECONDS: Final = 10.0
"""The same where only a process crashed, which says little about its cluster."""


class Session:
    """A kept Ray cluster; making one calls nothing, the first call makes the cluster.

    Calls run side by side as long as their hosts are free, each in new processes. None is tried again: when the
    cluster is lost under a call the call says so, the operator makes a new cluster, and the next call finds it.
    """

    def __init__(self, executor: RayExecutor, *, name: str | None = None) -> None:
        """With a name, sessions of several processes share one cluster; any of them closes it for all.

        They must agree on its image and shape.

        Raises:
            ValueError: when the executor's fields contradict the schema of a SliceJob, or its `runtime_env` is no JSON.
            InvalidJob: when no SliceJob can have that name.
        """
        check_runtime_env(executor.runtime_env)
        self._shared = name is not None
        self._executor = executor
        self._spec = checked(executor.ray_spec({"keepAlive": True}, executor.retries))
        progress = StoryPrinter(quiet=executor.quiet)
        self._run = Run(executor.client, name or new_name("session"), executor.accelerator.kind, progress)
        self._uid: str | None = None
        self._own: set[str] = set()
        """UIDs of clusters that were made here, not found."""
        self._asked = False
        """Whether a cluster was asked for; one whose making was not answered may be there, and has no UID here."""
        self._calls: set[asyncio.Task[Any]] = set()

    @property
    def name(self) -> str:
        """Name of the SliceJob."""
        return self._run.name

    def __enter__(self) -> Self:
        try:
            self.ensure()
        except KeyboardInterrupt:
            # Nobody has the session yet, so nobody else could close it.
            if self._executor.on_interrupt == "detach":
                raise
            self.close()
            raise KeyboardInterrupt(f"session {self.name} in {self._run.namespace} was closed") from None
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ensure(self) -> None:
        """Wait until the cluster can be used, and make it if it is not there; once there, nothing happens.

        Raises:
            AlreadyExists: when the name is another job's, or the cluster has another image or shape.
            JobError: when there will be no cluster; CapacityUnavailable when its slices did not come in time.
            WaitTimeout: after the executor's `timeout`; a cluster that was made here is deleted.
        """

        async def work() -> None:
            async with self._run.client.connect() as api:
                await self._ready(api)

        try:
            background_loop.run(work())
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"detached while session {self.name} starts: {self._run.commands}") from None

    def run_function(
        self, function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
        *, flatten: bool = True, capture_output: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Run a function on every host and wait for the results: slice-major, or with `flatten` false by slice.

        Raises:
            NotPicklable: before anything starts.
            JobFailed: when it raised on a host; what it raised is the cause.
            SessionClosed: when the session was closed meanwhile.
            JobPreempted: when a machine was taken meanwhile.
            NotAllowed: when the caller may not exec into the pods.
            JobError: when the cluster was lost otherwise.
        """
        return self._wait(self.start_function(function, args, kwargs, flatten=flatten, capture_output=capture_output))

    def start_function(
        self, function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
        *, flatten: bool = True, capture_output: bool = False,
    ) -> "Future[list[Any]]":  # fmt: skip
        """Like `run_function`, without waiting; cancelling the future ends the call."""
        return self._start(pack(function, args, kwargs or {}, capture=capture_output), flatten)

    def run_class_method(
        self, cls: type, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
        *, init_args: Sequence[Any] = (), init_kwargs: Mapping[str, Any] | None = None,
        flatten: bool = True, capture_output: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Make an object of the class on every host, call the method, wait; no state stays between calls.

        Raises:
            AttributeError: when the class has no such method.
        """
        init = (init_args, init_kwargs or {})
        return self._wait(
            self.start_class_method(
                cls, method, args, kwargs, init=init, flatten=flatten, capture_output=capture_output
            )
        )

    def start_class_method(
        self, cls: type, method: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
        *, init: tuple[Sequence[Any], Mapping[str, Any]] = ((), {}), flatten: bool = True, capture_output: bool = False,
    ) -> "Future[list[Any]]":  # fmt: skip
        """Like `run_class_method`, without waiting; `init` holds the constructor's arguments."""
        return self._start(pack_method(cls, init, method, args, kwargs or {}, capture=capture_output), flatten)

    def close(self) -> None:
        """Give running calls 10 s, end them, remove the cluster and wait until its pods are gone, at most 60 s.

        With a name this closes a cluster that another process made, too. May be repeated, and after an interrupt or an
        error must be; a later call starts afresh.

        Raises:
            ClusterError: when the cluster could not be deleted.
        """
        background_loop.run(self._close())

    def _start(self, call: Call, flatten: bool) -> "Future[list[Any]]":
        return background_loop.start(self._call(call, flatten))

    def _wait(self, call: "Future[list[Any]]") -> list[Any]:
        try:
            return background_loop.result(call)
        except KeyboardInterrupt:
            raise KeyboardInterrupt(f"the call was cancelled; session {self.name} stays") from None

    async def _call(self, call: Call, flatten: bool) -> list[Any]:
        work = asyncio.create_task(self._ask(call, flatten))
        self._calls.add(work)
        try:
            return await work
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if own is None or own.cancelling():
                work.cancel()
                raise
            raise SessionClosed(f"session {self.name} was closed before {call.name} had its results") from None
        finally:
            self._calls.discard(work)

    async def _ask(self, call: Call, flatten: bool) -> list[Any]:
        async with self._run.client.connect() as api:
            job = await self._ready(api)
            number = job.status.attempts[0].number
            pod = pod_name(self.name, number, HEAD)
            try:
                document = await ask(api, self._run.namespace, pod, call, self._executor.runtime_env)
                return await asyncio.to_thread(unpack, document, self._run.info, flatten=flatten)
            except StreamForbidden as error:
                # The cluster is well, so nobody will ever say why it was lost.
                raise refused(error, f"{call.name} could not begin in session {self.name}") from error
            except StreamBroken as error:
                told = JobError(f"the cluster was lost under {call.name}: {error}", self._run.info)
            except JobError as error:
                if error.host is None:
                    raise
                told = error
            judged = await self._judgement(api, job.uid, number, told)
            raise judged from (told.__cause__ if judged is told else told)

    async def _judgement(self, api: ApiConnection, uid: str, number: int, told: JobError) -> JobError:
        """Why the cluster was lost, in the operator's words; what the call was told where nothing ended the attempt.

        A machine that is taken shows first in its peers, so what Ray and the hosts say is half of the truth. What a
        host says counts at once while the attempt goes on; what Ray says may be earlier than the operator's news.
        """
        by_host = told.host is not None and told.host.slice is not None
        patience = CRASH_SECONDS if isinstance(told, JobFailed) and not by_host else LOSS_SECONDS
        try:
            async with asyncio.timeout(patience):
                job = await self._run.until(
                    api, uid, lambda one: one.charged(number) or (by_host and not one.ended(number))
                )
        except TimeoutError:
            return told
        return loss(job, number) or told

    async def _ready(self, api: ApiConnection) -> JobState:
        async with limited(self._run, self._executor.timeout, lambda: self._give_up(api)):
            made = await self._made(api)
            self._uid = uid = made.uid
            job = await self._run.until(api, uid, lambda one: one.is_ready)
        if job.over:
            raise error_of(job)
        return job

    async def _give_up(self, api: ApiConnection) -> str:
        uid, self._uid = self._uid, None
        if uid is None:
            uid = await self._unanswered(api)
        if uid is None or uid not in self._own:
            return "it is not ready"
        await self._run.delete(api, uid)
        return "it was deleted"

    async def _unanswered(self, api: ApiConnection) -> str | None:
        """The cluster that was made here and nobody told us of; None where none was, or nobody can tell."""
        with suppress(SlipwayClusterError):
            if self._asked and (job := await self._found(api)) is not None:
                self._claim(job)
                return job.uid
        return None

    def _claim(self, job: JobState) -> None:
        if job.annotations.get(CALL_ANNOTATION) == self._run.call:
            self._own.add(job.uid)

    async def _made(self, api: ApiConnection) -> JobState:
        while True:
            job = await self._found(api) if self._uid is not None else await self._create(api)
            if job is not None and not job.terminating:
                return job
            self._uid = None
            if job is not None:
                await self._run.until_gone(api, job.uid, GONE_SECONDS)

    async def _found(self, api: ApiConnection) -> JobState | None:
        with suppress(NotFound):
            return await self._run.read(api)
        return None

    async def _create(self, api: ApiConnection) -> JobState | None:
        """The cluster's job, ours or one of the same name; None where that one went meanwhile."""
        self._asked = True
        try:
            made = await self._run.post(api, self._spec)
        except AlreadyExists:
            return await self._adopted(api)
        self._own.add(made.uid)
        return made

    async def _adopted(self, api: ApiConnection) -> JobState | None:
        try:
            job = await self._run.read(api)
        except NotFound:
            return None
        self._check_kept(job)
        # A first answer that was lost on the way made it.
        self._claim(job)
        if not job.terminating and (other := differences(self._spec, job.stored.spec)):
            words = f"session {self.name} in {self._run.namespace} exists with {', '.join(other)}"
            raise errors.AlreadyExists(f"{words}: choose another name, or close it first")
        return job

    def _check_kept(self, job: JobState) -> None:
        if not job.keeps_ray:
            raise errors.AlreadyExists(f"{self._run.place} is no kept Ray cluster: choose another name")

    async def _close(self) -> None:
        if running := set(self._calls):
            _, late = await asyncio.wait(running, timeout=CLOSE_SECONDS)
            for call in late:
                call.cancel()
            if late:
                await asyncio.wait(late, timeout=CLOSE_SECONDS)
        # Only now it is known what the calls have asked for: the first one makes the cluster.
        if self._uid is not None or self._shared or self._asked:
            await self._remove(self._uid)

    async def _remove(self, uid: str | None) -> None:
        """The job stands until the pods are gone, so its slices are free when this returns."""
        async with self._run.client.connect() as api:
            if uid is None:
                if (job := await self._found(api)) is None:
                    return
                self._check_kept(job)
                uid = job.uid
            await self._run.delete(api, uid, foreground=True)
            self._forget(uid)
            await self._run.until_gone(api, uid, GONE_SECONDS)

    def _forget(self, uid: str) -> None:
        """Forget a cluster that is deleted, and no sooner: a `close` that was interrupted or failed can be repeated."""
        if self._uid in (None, uid):
            # Otherwise a call has made another one meanwhile.
            self._uid, self._asked = None, False

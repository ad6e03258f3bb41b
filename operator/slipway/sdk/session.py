"""A Ray cluster that stays, for calls one after the other."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Any, Final, Self

from slipway.api import names
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import ConditionType
from slipway.cluster import paths
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import AlreadyExists, ApiError, SlipwayClusterError
from slipway.sdk import portal
from slipway.sdk.errors import InvalidJob, JobError, SessionClosed
from slipway.sdk.functions import RayExecutor
from slipway.sdk.jobs import Run, new_name
from slipway.sdk.payload import Call, pack, pack_method, unpack
from slipway.sdk.stream import StreamBroken, ask
from slipway.sdk.view import JobView

CLOSE_SECONDS: Final = 10.0
"""What running calls get when the session is closed."""


class Session:
    """A kept Ray cluster; making one calls nothing, the first call makes the cluster.

    Calls run side by side as long as their hosts are free, each in new processes. None is tried again: when the
    cluster is lost under a call the call says so, the operator makes a new cluster, and the next call finds it.
    """

    def __init__(self, executor: RayExecutor, *, name: str | None = None) -> None:
        """With a name, sessions of several processes share one cluster; any of them closes it for all."""
        self._executor = executor
        self._run = Run(executor.client, name or new_name("session"), executor.accelerator.kind)
        self._uid: str | None = None
        self._calls: set[asyncio.Task[Any]] = set()

    @property
    def name(self) -> str:
        """Name of the SliceJob."""
        return self._run.name

    def __enter__(self) -> Self:
        self.ensure()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def ensure(self) -> None:
        """Wait until the cluster can be used, and make it if it is not there; once there, nothing happens.

        Raises:
            JobError: when there will be no cluster; CapacityUnavailable when its slices did not come in time.
        """

        async def work() -> None:
            async with self._run.client.connect() as api:
                await self._ready(api)

        portal.run(work())

    def run_function(
        self, function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
        *, flatten: bool = True, capture_output: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Run a function on every host and wait for the results: slice-major, or with `flatten` false by slice.

        Raises:
            NotPicklable: before anything starts.
            JobFailed: when it raised on a host; what it raised is the cause.
            SessionClosed: when the session was closed meanwhile.
            JobError: when the cluster was lost meanwhile.
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
        """Give running calls 10 s, end them, remove the cluster; may be repeated, and a later call starts afresh."""
        portal.run(self._close())

    def _start(self, call: Call, flatten: bool) -> "Future[list[Any]]":
        return portal.start(self._call(call, flatten))

    def _wait(self, call: "Future[list[Any]]") -> list[Any]:
        try:
            return call.result()
        except KeyboardInterrupt:
            call.cancel()
            raise KeyboardInterrupt(f"the call was cancelled; session {self.name} stays") from None

    async def _call(self, call: Call, flatten: bool) -> list[Any]:
        work = asyncio.create_task(self._ask(call))
        self._calls.add(work)
        try:
            document = await work
        except asyncio.CancelledError:
            own = asyncio.current_task()
            if own is None or own.cancelling():
                work.cancel()
                raise
            raise SessionClosed(f"session {self.name} was closed before {call.name} had its results") from None
        finally:
            self._calls.discard(work)
        return unpack(document, self._run.info, flatten=flatten)

    async def _ask(self, call: Call) -> bytes:
        async with self._run.client.connect() as api:
            view = await self._ready(api)
            pod = names.head_pod_name(self.name, view.status.attempts[0].number)
            try:
                return await ask(api, self._run.namespace, pod, call, self._executor.runtime_env)
            except StreamBroken as error:
                raise JobError(
                    f"the cluster was lost under {call.name}, and a session's calls are not tried again: {error}",
                    self._run.info,
                ) from error

    async def _ready(self, api: ApiConnection) -> JobView:
        made = await self._made(api)
        self._uid = made.metadata.uid
        view = await self._run.until(api, self._uid, lambda one: one.condition(ConditionType.READY))
        if view.over:
            raise view.error(self._run.kind)
        return view

    async def _made(self, api: ApiConnection) -> JobView:
        if self._uid is not None:
            return await api.get(self._run.path, JobView)
        spec = self._executor.ray_spec({"keepAlive": True}) | {"retries": dict(self._executor.retries)}
        SliceJobSpec.model_validate(spec)
        try:
            return await api.create(paths.jobs(self._run.namespace), self._run.body(spec), JobView)
        except AlreadyExists:
            found = await api.get(self._run.path, dict[str, Any])
            if not found["spec"].get("ray", {}).get("keepAlive"):
                raise InvalidJob("it exists and is no kept cluster: choose another name", self._run.info) from None
            return await api.get(self._run.path, JobView)
        except ApiError as error:
            raise InvalidJob(str(error), self._run.info) from error

    async def _close(self) -> None:
        running, uid = set(self._calls), self._uid
        self._uid = None
        if running:
            _, late = await asyncio.wait(running, timeout=CLOSE_SECONDS)
            for call in late:
                call.cancel()
        if uid is not None:
            with suppress(SlipwayClusterError):
                await self._remove(uid)

    async def _remove(self, uid: str) -> None:
        async with self._run.client.connect() as api:
            await self._run.delete(api, uid)

"""Functions on every host of TPU slices: a SliceJob with Ray for each call."""

import asyncio
import base64
from collections.abc import Callable, Mapping, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Any, Final

from slipway.api import names
from slipway.api.places import HEAD, pod_name
from slipway.api.status import Phase
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import AlreadyExists, SlipwayClusterError
from slipway.apiserver.exec_stream import StreamBroken, StreamForbidden
from slipway.client.api_errors import typed
from slipway.client.blocking import Client
from slipway.client.errors import (
    JobError,
    JobFailed,
    JobInfo,
    JobSucceeded,
    PayloadTooLarge,
    ResultMissing,
    VersionMismatch,
)
from slipway.client.manifests.reading import new_name
from slipway.client.model import JobState
from slipway.client.outcome import error_of
from slipway.sdk.accelerators import CPU, GPU, TPU, AcceleratorConfig, checked, merged
from slipway.sdk.arguments import need
from slipway.sdk.environment import Environment, variables
from slipway.sdk.host_program import REFUSED
from slipway.sdk.jobs import OnInterrupt, Run, check, wait
from slipway.sdk.payload import MAX_BYTES, Call, pack, unpack
from slipway.sdk.progress import StoryPrinter
from slipway.sdk.ray_call import PROGRAM, ask

CALL_FOLDER: Final = "/var/run/slipway/call"
_VOLUME: Final = "slipway-call"
_PAUSE: Final = 1.0
"""Seconds before the answer of a running attempt is asked for again."""
_LAST_SECONDS: Final = 15.0
"""How long after the job's end the answer may still be on its way."""


@dataclass(frozen=True)
class RayExecutor:
    """What functions run on; making one calls nothing.

    `execute` and `autoscale_execute` try once, the resumable ones as often as `retries` says. The first of each pair
    is for one slice, `autoscale_` for any number. The function runs in a new process on every host.
    """

    accelerator: AcceleratorConfig
    """How many slices of what."""
    image: str
    """An image with Ray, and the Python of this process."""
    env: Environment = field(default_factory=dict)
    """Environment of every host: a map, whose values become text, and None leaves a name out; or a list of
    NAME=VALUE."""
    runtime_env: Mapping[str, Any] = field(default_factory=dict)
    """Ray's runtime environment."""
    retries: Mapping[str, Any] = field(default_factory=dict)
    """`spec.retries` of the resumable calls, such as {"maxFailures": 3}."""
    spec: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the SliceJob's spec, in Kubernetes' words: maps are merged and lists of objects joined."""
    client: Client = field(default_factory=Client)
    """Which cluster and namespace."""
    remove: bool = True
    """Delete the SliceJob once its result was read; a job that failed is kept."""
    on_interrupt: OnInterrupt = "detach"
    """Whether Ctrl-C or SIGTERM cancels the job, or leaves it running and says how to follow it."""
    timeout: float | None = None
    """Seconds after which the job of a call is cancelled, and after which a session no longer waits for its cluster."""
    quiet: bool = False
    """Do not print to stderr what a job waits for."""

    def __post_init__(self) -> None:
        check(self.on_interrupt, self.timeout)
        need((TPU, CPU, GPU), "a TPU, CPU or GPU", accelerator=self.accelerator)
        need(Mapping, "a map", runtime_env=self.runtime_env or {}, retries=self.retries, spec=self.spec)
        need(Client, "a Client", client=self.client)

    def execute(
        self, function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
        *, capture_output: bool = False,
    ) -> JobSucceeded[list[Any]]:  # fmt: skip
        """Run a function once on every host of one slice.

        Args:
            capture_output: return for each host a `Captured` with the value and what was printed.

        Returns:
            The results in the order of the hosts, with the job's name and kind.

        Raises:
            ValueError: with more than one slice.
            NotPicklable, PayloadTooLarge: before anything starts.
            JobError: when the attempt does not succeed.
            CapacityUnavailable, WaitTimeout: after `timeout`, when the job waited for nodes and when not.
        """
        self._one_slice("execute", "autoscale_execute")
        return self._run(pack(function, args, kwargs or {}, capture=capture_output), True, {"enabled": False})

    def execute_resumable(
        self, function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
        *, capture_output: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Run a function on every host of one slice until it succeeds; like `execute`, with retries."""
        self._one_slice("execute_resumable", "autoscale_execute_resumable")
        return self._run(pack(function, args, kwargs or {}, capture=capture_output), True, self.retries).result

    def autoscale_execute(
        self, function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
        *, flatten: bool = True, capture_output: bool = False,
    ) -> JobSucceeded[list[Any]]:  # fmt: skip
        """Run a function once on every host of every slice; like `execute`.

        Args:
            flatten: one list, slice-major; otherwise a list for each slice.
        """
        return self._run(pack(function, args, kwargs or {}, capture=capture_output), flatten, {"enabled": False})

    def autoscale_execute_resumable(
        self, function: Callable[..., Any], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None,
        *, flatten: bool = True, capture_output: bool = False,
    ) -> list[Any]:  # fmt: skip
        """Run a function on every host of every slice until it succeeds on all in one attempt."""
        return self._run(pack(function, args, kwargs or {}, capture=capture_output), flatten, self.retries).result

    def _one_slice(self, name: str, other: str) -> None:
        if self.accelerator.slices != 1:
            raise ValueError(f"{name} runs on 1 slice, not {self.accelerator.slices}: use {other} for several")

    def _run(self, call: Call, flatten: bool, retries: Mapping[str, Any]) -> JobSucceeded[list[Any]]:
        run = Run(self.client, new_name(call.name), self.accelerator.kind, StoryPrinter(quiet=self.quiet))
        fields, secret = checked(self.call_spec(run.name, retries)), _secret(run, call)

        stored = False

        async def work(api: ApiConnection) -> JobSucceeded[list[Any]]:
            nonlocal stored
            made = await run.create(api, fields)
            await _give(api, run, made, secret)
            stored = True
            document = await _document(api, run, made.uid, flatten)
            info = JobInfo(run.name, "succeeded", run.kind)
            return JobSucceeded(info, await asyncio.to_thread(unpack, document, info, flatten=flatten))

        return wait(run, work, self.on_interrupt, self.timeout, remove=self.remove, complete=lambda: stored)

    def ray_spec(self, ray: Mapping[str, Any], retries: Mapping[str, Any]) -> dict[str, Any]:
        """The spec of a Ray job on these slices; what a call needs goes before `spec`."""
        own = {**self.accelerator.fields(), "image": self.image, "env": variables(self.env)}
        return merged(merged(own, self.spec), {"ray": ray, "retries": retries})

    def call_spec(self, name: str, retries: Mapping[str, Any]) -> dict[str, Any]:
        """The spec of the job for one call."""
        ray: dict[str, Any] = {"entrypoint": f"python3 {CALL_FOLDER}/program.py run {CALL_FOLDER}"}
        if self.runtime_env:
            ray["runtimeEnv"] = dict(self.runtime_env)
        spec = checked(self.ray_spec(ray, retries))
        volume = {"name": _VOLUME, "secret": {"secretName": secret_name(name)}}
        mount = {"name": _VOLUME, "mountPath": CALL_FOLDER, "readOnly": True}
        codes = spec["retries"].get("onExitCodes", {})
        fail = [*codes.get("fail", ())]
        return spec | {
            "volumes": [*spec.get("volumes", ()), volume],
            "volumeMounts": [*spec.get("volumeMounts", ()), mount],
            # Versions that differ once differ always. The list is a set, in which no code may stand twice.
            "retries": {
                **spec["retries"],
                "onExitCodes": {**codes, "fail": fail if REFUSED in fail else [*fail, REFUSED]},
            },
        }


def secret_name(job: str) -> str:
    """Name of the Secret with a job's call."""
    return f"{job}-call"


def _secret(run: Run, call: Call) -> dict[str, Any]:
    if len(call.content) > MAX_BYTES:
        raise PayloadTooLarge(
            f"{call.name} and its arguments are {len(call.content)} bytes pickled, more than {MAX_BYTES}: "
            "put the data where the hosts can read it, and pass its address"
        )
    files = {"program.py": PROGRAM, "call.json": call.header(), "call.pickle": call.content}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": secret_name(run.name), "namespace": run.namespace},
        "immutable": True,
        "data": {name: base64.b64encode(content).decode() for name, content in files.items()},
    }


async def _give(api: ApiConnection, run: Run, made: JobState, secret: dict[str, Any]) -> None:
    """Put the call where the pods look for it; it goes with the job."""
    owner = {"apiVersion": names.API_VERSION, "kind": names.KIND, "name": run.name, "uid": made.uid}
    secret["metadata"]["ownerReferences"] = [owner]
    try:
        with suppress(AlreadyExists):
            await api.create(paths.secrets(run.namespace), secret, dict[str, Any], seconds=30)
    except SlipwayClusterError as error:
        became = "was deleted"
        try:
            await run.delete(api, made.uid)
        except SlipwayClusterError as second:
            became = f"can never start and has to be deleted, which failed here ({second})"
        kind, name = type(typed(error)), secret["metadata"]["name"]
        raise kind(f"{run.place} {became}, for its call could not be stored in Secret {name}: {error}") from error


async def _document(api: ApiConnection, run: Run, uid: str, flatten: bool) -> bytes:
    """Follow the job to its end; every attempt is asked for its answer, the last one counts."""
    asked: _Asked | None = None
    try:
        async with aclosing(run.states(api, uid)) as states:
            async for job in states:
                number = job.running_attempt
                if number is not None and (asked is None or number != asked.attempt):
                    if asked is not None:
                        asked.forget()
                    asked = _Asked(api, run, number)
                if job.over:
                    break
        # An attempt that was never seen to run has told nothing; what an earlier one told is not its answer.
        last = asked if asked is not None and job.status.attempt == asked.attempt else None
        document = await last.words() if last is not None else None
        if job.status.phase == Phase.SUCCEEDED and document is not None:
            return document
        if job.status.phase == Phase.SUCCEEDED:
            trouble = last.trouble if last is not None else None
            why = f": {trouble}" if trouble is not None else ""
            raise ResultMissing(f"it succeeded, and its result could not be read{why}", run.info) from trouble
        raise await asyncio.to_thread(_with_cause, error_of(job), document)
    finally:
        if asked is not None:
            asked.forget()


class _Asked:
    """An attempt that is asked for its answer, again and again until it gives it or is forgotten."""

    def __init__(self, api: ApiConnection, run: Run, attempt: int) -> None:
        self.attempt: Final = attempt
        self.trouble: StreamBroken | None = None
        """Why it could not be asked, or broke off, the last time."""
        self._task = asyncio.create_task(self._ask(api, run))

    async def _ask(self, api: ApiConnection, run: Run) -> bytes:
        told = False
        while True:
            try:
                return await ask(api, run.namespace, pod_name(run.name, self.attempt, HEAD))
            except StreamBroken as error:
                self.trouble = error
                # The job may take hours to find its results unread, and a role can be granted meanwhile.
                if isinstance(error, StreamForbidden) and not told:
                    told = True
                    run.progress.say(run.name, f"its result cannot be read yet: {error}")
            await asyncio.sleep(_PAUSE)

    async def words(self) -> bytes | None:
        """The answer, which may still be on its way; None where none comes."""
        done, _ = await asyncio.wait({self._task}, timeout=_LAST_SECONDS)
        return self._task.result() if done else None

    def forget(self) -> None:
        """Ask no more."""
        self._task.cancel()


def _with_cause(error: JobError, document: bytes | None) -> JobError:
    """The job's error; what the hosts told of it is the better half, and what the function raised its cause."""
    if document is None:
        return error
    try:
        unpack(document, error.info, flatten=True)
    except VersionMismatch as told:
        return told
    except JobFailed as told:
        # What ended the attempt is the operator's to say: hosts also fail because another one was taken.
        if isinstance(error, JobFailed) and told.host is not None:
            error.__cause__ = told.__cause__
            error.host = replace(told.host, exit_code=error.exit_code)
    except ResultMissing:
        pass  # All hosts returned, and the attempt was lost all the same; what they returned is no part of the reason.
    return error

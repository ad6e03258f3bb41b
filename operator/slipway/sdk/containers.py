"""`docker run`, on every host of TPU slices."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from typing import Any

from slipway.api import names
from slipway.api.places import pod_name, worker
from slipway.api.slicejob import SliceJobSpec
from slipway.api.status import Phase
from slipway.apiserver.connection import ApiConnection
from slipway.client import background_loop
from slipway.client.blocking import Client
from slipway.client.errors import ClusterError, JobError, JobFailed, ResultMissing
from slipway.client.manifests.reading import last_word, new_name
from slipway.client.model import JobState
from slipway.client.outcome import error_of
from slipway.sdk import network
from slipway.sdk.accelerators import CPU, GPU, TPU, AcceleratorConfig, checked, merged, shape_of
from slipway.sdk.arguments import need
from slipway.sdk.docker import AUTO, DockerConfig
from slipway.sdk.jobs import OnInterrupt, Run, wait
from slipway.sdk.outputs import Outputs
from slipway.sdk.progress import StoryPrinter

_PARALLEL_LOGS = 16

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CompletedRun:
    """What a container did."""

    exit_code: int
    stdout: str
    """All it wrote: pods keep one stream for both. A warning is logged where a part of it may be missing."""
    stderr: str = ""


def run_docker_on_pod(
    config: DockerConfig,
    accelerator: AcceleratorConfig,
    *,
    capture_output: bool = True,
    name: str | None = None,
    retries: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    client: Client | None = None,
    on_interrupt: OnInterrupt = "detach",
    timeout: float | None = None,
    quiet: bool = False,
) -> str | list[str | None] | None:
    """Run a container on every host of one slice and wait.

    Args:
        capture_output: whether to read what the hosts wrote.
        retries: `spec.retries`, such as {"maxFailures": 3}.
        spec: further fields of the SliceJob's spec, in Kubernetes' words; they win, and lists of objects are joined.
        on_interrupt: whether Ctrl-C or SIGTERM cancels the job, or leaves it running and says how to follow it.
        timeout: seconds after which the job is cancelled.
        quiet: do not print to stderr what the job waits for.

    Returns:
        The output (None without capture) of the host; with several hosts a list in their order.

    Raises:
        ValueError: with more than one slice, or a word that Kubernetes cannot do.
        ClusterError: when the job could not be created, or the API server was lost.
        JobError: when the job does not succeed; `.outputs` holds what the hosts wrote all the same.
        CapacityUnavailable, WaitTimeout: after `timeout`, when it waited for nodes and when not.
    """
    need((TPU, CPU, GPU), "a TPU, CPU or GPU", accelerator=accelerator)
    if accelerator.slices != 1:
        raise ValueError(
            f"run_docker_on_pod runs on 1 slice, not {accelerator.slices}: use run_docker_multislice for several"
        )
    outputs = run_docker_multislice(
        config, accelerator, capture_output=capture_output, name=name, retries=retries, spec=spec, client=client,
        on_interrupt=on_interrupt, timeout=timeout, quiet=quiet,
    )  # fmt: skip
    return outputs[0] if len(outputs) == 1 else outputs


def run_docker_multislice(
    config: DockerConfig,
    accelerator: AcceleratorConfig,
    *,
    capture_output: bool = True,
    name: str | None = None,
    retries: Mapping[str, Any] | None = None,
    spec: Mapping[str, Any] | None = None,
    client: Client | None = None,
    on_interrupt: OnInterrupt = "detach",
    timeout: float | None = None,
    quiet: bool = False,
) -> list[str | None]:
    """Run a container on every host of every slice and wait; arguments as for `run_docker_on_pod`.

    Returns:
        One output (None without capture) for each host: slice-major, then by host.

    Raises:
        ValueError: for a word that Kubernetes cannot do.
        JobError: when the job does not succeed.
    """
    fields = _fields(config, accelerator, retries, spec)
    run = Run(client or Client(), name or _name(config), accelerator.kind, StoryPrinter(quiet=quiet))
    on_accelerators = config.gpus is not None or not isinstance(accelerator, CPU)

    async def create(api: ApiConnection) -> JobState:
        if config.network == AUTO and "hostNetwork" not in {*fields, *fields.get("podTemplate", {}).get("spec", {})}:
            return await network.create(run, api, fields, on_accelerators=on_accelerators)
        return await run.create(api, fields)

    async def work(api: ApiConnection) -> list[str | None]:
        made = await create(api)
        outputs = Outputs(run) if capture_output else None
        async with outputs.followed() if outputs is not None else nullcontext():
            end = await run.until(api, made.uid, lambda job: job.over)
            if end.status.phase != Phase.SUCCEEDED:
                raise await _failure(run, api, end, outputs)
            return await _all_of(run, api, end, outputs) if outputs is not None else [None] * len(_places(end))

    return wait(run, work, on_interrupt, timeout, remove=config.remove)


def run_docker_async(
    config: DockerConfig,
    *,
    name: str | None = None,
    spec: Mapping[str, Any] | None = None,
    client: Client | None = None,
) -> "Future[CompletedRun]":
    """Start a container once on a CPU node, without retries, and return as soon as the API server has the job.

    The job goes on when this process ends.

    Returns:
        A future with the exit code and the output; an exit code other than 0 is no exception. Cancelling the future
        cancels the job.

    Raises:
        ValueError: with more than one host, or a word that Kubernetes cannot do.
        InvalidJob: when the API server refuses the job.
    """
    fields = _on_one_host(_fields(config, CPU(), {"enabled": False}, spec))
    run = Run(client or Client(), name or _name(config), "CPU", StoryPrinter(quiet=True))

    async def create(api: ApiConnection) -> str:
        return (await run.create(api, fields)).uid

    async def cancel() -> None:
        try:
            await run.cancel()
        except ClusterError as error:
            log.warning("SliceJob %s could not be cancelled: %s", run.name, error)

    def ended(future: "Future[CompletedRun]") -> None:
        if future.cancelled():
            cancelling = background_loop.start(cancel())
            # In the callback of another future it cannot be waited for; elsewhere the script may end after this.
            if not background_loop.here():
                background_loop.result(cancelling)

    started = background_loop.start(_completed(run, wait(run, create, "detach"), config.remove))
    started.add_done_callback(ended)
    return started


async def _completed(run: Run, uid: str, remove: bool) -> CompletedRun:
    outputs = Outputs(run)
    async with run.client.connect() as api, outputs.followed():
        end = await run.until(api, uid, lambda job: job.over)
        code = 0
        if end.status.phase != Phase.SUCCEEDED:
            error = error_of(end)
            if not isinstance(error, JobFailed) or error.exit_code is None:
                raise error
            code = error.exit_code
        [output] = await _all_of(run, api, end, outputs)
        if remove and code == 0:
            await run.discard(api)
        return CompletedRun(code, output or "")


def _name(config: DockerConfig) -> str:
    return new_name(last_word(config.image) or "docker")


def _fields(
    config: DockerConfig,
    accelerator: AcceleratorConfig,
    retries: Mapping[str, Any] | None,
    spec: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The spec; what the schema can tell is told before any call."""
    need(DockerConfig, "a DockerConfig", config=config)
    need((TPU, CPU, GPU), "a TPU, CPU or GPU", accelerator=accelerator)
    need(Mapping, "a map", retries=retries or {}, spec=spec or {})
    if isinstance(accelerator, GPU) and config.gpus and str(config.gpus) != str(accelerator.count):
        raise ValueError(f"gpus={config.gpus} and GPU(count={accelerator.count}) contradict each other: say it once")
    base = merged(config.to_spec(), accelerator.fields()) | {"retries": dict(retries or {})}
    return checked(merged(base, spec or {}))


def _on_one_host(fields: dict[str, Any]) -> dict[str, Any]:
    asked = SliceJobSpec.model_validate(fields)
    hosts = asked.hosts or 1
    if asked.accelerator is not None and asked.accelerator.gpu is None:
        hosts = shape_of(asked.accelerator).hosts
    slices = max(asked.acceptable_slices, default=asked.slices)
    if (hosts, slices) != (1, 1):
        raise ValueError(
            f"run_docker_async runs on 1 host, not {slices * hosts} (slices: {slices}, hosts of each: {hosts}): use "
            "run_docker_multislice for several"
        )
    return fields


def _places(job: JobState) -> list[tuple[int, int]]:
    return [(index, host) for index in range(job.slices) for host in range(job.hosts)]


async def _failure(run: Run, api: ApiConnection, job: JobState, outputs: Outputs | None) -> JobError:
    """The job's error, with what its hosts wrote: those that never started have nothing."""
    error = error_of(job)
    if outputs is not None and job.status.attempts:
        await outputs.settle()

        async def left(place: tuple[int, int]) -> str | None:
            with suppress(ResultMissing):
                return await _output(run, api, job, place, outputs)
            return None

        error.outputs = await _of_all_hosts(job, left)
    return error


async def _all_of(run: Run, api: ApiConnection, job: JobState, outputs: Outputs) -> list[str | None]:
    """What every host of the last attempt wrote, in order."""
    await outputs.settle()
    return await _of_all_hosts(job, lambda place: _output(run, api, job, place, outputs))


async def _output(run: Run, api: ApiConnection, job: JobState, place: tuple[int, int], outputs: Outputs) -> str:
    """What a host wrote: as it was followed, or what is there now where nothing came."""
    attempt = job.status.attempt or 0
    if (written := outputs.of(attempt, worker(*place))) is not None:
        return written
    pod = pod_name(run.name, attempt, worker(*place))
    whose = f"host {place[1]} of slice {place[0]} (index {_places(job).index(place)})"
    return await run.log(api, pod, names.WORKER_CONTAINER, whose)


async def _of_all_hosts(job: JobState, read: Callable[[tuple[int, int]], Awaitable[str | None]]) -> list[str | None]:
    gate = asyncio.Semaphore(_PARALLEL_LOGS)

    async def one(place: tuple[int, int]) -> str | None:
        async with gate:
            return await read(place)

    return list(await asyncio.gather(*map(one, _places(job))))

"""Jobs on this machine's engine, with the verbs of the client for a cluster."""

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from threading import Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from slipway.api import names
from slipway.apiserver.watch import Event as Change
from slipway.apiserver.wire import JsonObject
from slipway.client import errors
from slipway.client.description import Event
from slipway.client.host_states import PodSeen
from slipway.client.model import JobState, Stored
from slipway.client.verbs import Verbs
from slipway.local import pruning, submission
from slipway.local.cancellation import Waiting
from slipway.local.client.container_logs import ContainerLogs
from slipway.local.client.containers_as_pods import job_pods, unanswered
from slipway.local.client.errors import as_client_errors
from slipway.local.client.label_selectors import selecting
from slipway.local.images.progress import Silent, shown_on
from slipway.local.jobs import file_watch
from slipway.local.jobs.job_files import NAMESPACE, JobFolder, NoSuchJob, Unreadable, folder, folders
from slipway.local.submission import NO_WISHES, Wishes
from slipway.local.supervisor import supervisor
from slipway.local.supervisor.supervisor import Started

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")

log = logging.getLogger(__name__)


class AsyncLocalClient(Verbs):
    """SliceJobs on the Docker engine that the docker command would use.

    Use it as `async with AsyncLocalClient() as client`. Every method raises the tree of `slipway.client.errors`.
    """

    def __init__(self, wishes: Wishes = NO_WISHES, console: "Console | None" = None) -> None:
        """`wishes` is what jobs get beside their manifest; `console` shows how far images are that are pulled."""
        self._wishes = wishes
        self._console = console

    async def __aenter__(self) -> Self:
        # Whoever comes first after a reboot, or after a supervisor was killed, has every job looked after again.
        with as_client_errors():
            await asyncio.to_thread(supervisor.adopt_all)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass

    @property
    def resolved_namespace(self) -> str:
        """The one namespace that there is."""
        return NAMESPACE

    async def manifest(self, name: str) -> JsonObject:
        """One job with every field, as it is stored."""
        with as_client_errors():
            return JsonObject(folder(name).read())

    async def list(self, *, all_namespaces: bool = False, label_selector: str = "") -> tuple[JobState, ...]:
        """The jobs of this machine, by name. A file that cannot be read is named in a warning, and hides no other."""
        jobs = []
        try:
            selects = selecting(label_selector)
        except ValueError as error:
            raise errors.Refused(str(error)) from error
        with as_client_errors():
            for one in folders():
                try:
                    jobs.append(JobState(_stored(one)))
                except NoSuchJob:
                    # It has gone since.
                    continue
                except Unreadable as error:
                    log.warning("%s", error)
        return tuple(job for job in jobs if selects(job.stored.metadata.labels))

    async def watch(self, name: str) -> AsyncGenerator[JobState | None, None]:
        """The job now and after each change; ends with None when it is deleted."""
        last = await self.get(name)
        job = folder(name)
        yield last
        started: Started | None = None
        async for changed in file_watch.news(job):
            try:
                # A supervisor that is killed tells nobody. Where one cannot even start, nor can another.
                if not changed:
                    if started is not None and (trouble := started.trouble):
                        raise errors.ServerFailed(trouble)
                    started = await asyncio.to_thread(supervisor.ensure_supervisor, job) or started
                state = JobState(_stored(job))
            except NoSuchJob:
                state = None
            if state is None or state.uid != last.uid:
                yield None
                return
            if state.stored.metadata.resource_version != last.stored.metadata.resource_version:
                yield state
            last = state

    async def history(self, name: str) -> tuple[JsonObject, ...]:
        """Every attempt that is recorded, oldest first."""
        body = await self.manifest(name)
        newest = (body.get("status") or {}).get("attempts", [])
        known = {one["number"]: one for one in (*body["local"]["history"], *newest)}
        return tuple(known[number] for number in sorted(known))

    def log_source(self, job: JobState) -> ContainerLogs:
        """The logs of one job."""
        return ContainerLogs(folder(job.name), job.uid)

    async def pods(self, name: str, *, attempt: int | None = None) -> tuple[JsonObject, ...]:
        """The containers of a job, or of one attempt, as pods."""
        with as_client_errors():
            found = await asyncio.to_thread(job_pods, folder(name))
        number = names.LABEL_ATTEMPT
        return tuple(one for one in found if attempt is None or one["metadata"]["labels"].get(number) == str(attempt))

    async def watch_pods(self, name: str) -> AsyncGenerator[Change[PodSeen], None]:
        """The containers of a job as pods, then what changes; for ever."""
        async for change in self.log_source(await self.get(name)).changes(PodSeen):
            yield change

    async def prune(self, names: Collection[str] = ()) -> Sequence[tuple[str, str | errors.SlipwayError]]:
        """Delete the jobs that have ended, and what is left of jobs that are gone.

        Args:
            names: of the jobs; all when there are none.

        Returns:
            What was to be removed, and what became of it: `deleted`, or why it is still there.
        """
        with as_client_errors():
            found = await asyncio.to_thread(pruning.prune, names)
        return [(what, errors.SlipwayError(trouble) if trouble else "deleted") for what, trouble in found]

    async def out_of_reach(self, jobs: Iterable[JobState]) -> Mapping[str, str]:
        """Why the engine of a job cannot be asked, by the job's name."""
        with as_client_errors():
            return await asyncio.to_thread(unanswered, [folder(job.name) for job in jobs])

    async def _read(self, name: str, namespace: str) -> Stored:
        with as_client_errors():
            return _stored(folder(name))

    async def _create(self, body: Mapping[str, Any], namespace: str, *, dry_run: bool) -> Stored:
        with as_client_errors():
            if dry_run:
                await asyncio.to_thread(submission.check, body, self._wishes)
                about = {"uid": "", "namespace": NAMESPACE} | dict(body["metadata"])
                return msgspec.convert(dict(body) | {"metadata": about}, Stored)
            showing = shown_on(self._console) if self._console is not None else nullcontext(Silent())
            with showing as progress:
                made = await _given_up_with(submission.submit, body, self._wishes, Waiting(progress))
        return msgspec.convert(made, Stored, strict=False)

    async def _differences(self, body: Mapping[str, Any], job: JobState) -> Sequence[str]:
        with as_client_errors():
            options = await _given_up_with(submission.other_options, body, self._wishes, Waiting())
        return [*await super()._differences(body, job), *options]

    async def _patch(self, found: JobState, fields: Mapping[str, Any]) -> Stored:
        job = folder(found.name)
        with as_client_errors():
            with job.changing(found.stored.metadata.resource_version) as body:
                body["spec"] |= fields
            await asyncio.to_thread(supervisor.ensure_supervisor, job)
            return _stored(job)

    async def _remove(self, found: JobState) -> None:
        job = folder(found.name)
        with as_client_errors():
            if _stored(job).metadata.uid != found.uid:
                raise errors.ChangedMeanwhile(f"another job is named {found.name} by now")
            await asyncio.to_thread(supervisor.delete, job)

    async def _events(self, job: JobState) -> Iterable[Event]:
        body = await self.manifest(job.name)
        about = {"kind": names.KIND, "name": job.name, "uid": job.uid}
        told = [event | {"involvedObject": about} for event in body["local"]["events"]]
        return msgspec.convert(told, list[Event], strict=False)


async def _given_up_with(
    work: Callable[[Mapping[str, Any], Wishes, Waiting], T], body: Mapping[str, Any], wishes: Wishes, waiting: Waiting
) -> T:
    """Do it in a thread, and give it up where the caller does, as at Ctrl-C."""
    # Of a thread of its own nobody waits for the end, which asyncio.run does for those of its pool: an engine may be
    # silent for long.
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()

    def work_on() -> None:
        try:
            done.set_result(work(body, wishes, waiting))
        except BaseException as error:
            done.set_exception(error)

    Thread(target=work_on, daemon=True, name=f"submission of {body['metadata']['name']}").start()
    try:
        return await asyncio.wrap_future(done)
    except asyncio.CancelledError:
        waiting.give_up()
        raise


def _stored(job: JobFolder) -> Stored:
    return msgspec.convert(job.read(), Stored, strict=False)

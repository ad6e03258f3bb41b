"""Every verb for jobs, on the few calls that a cluster and this machine's engine each make in their own way."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from slipway.api.status import Attempt, Phase
from slipway.apiserver.watch import Event as Change
from slipway.apiserver.wire import JsonObject
from slipway.client import errors
from slipway.client.description import Description, Event, ProfileOfJob
from slipway.client.host_states import PodSeen, hosts
from slipway.client.logs import Item, Selection, follow
from slipway.client.logs.interface import LogSource
from slipway.client.manifests.differences import differences
from slipway.client.model import JobState, Stored

T = TypeVar("T")

FINISHED: Final = "Finished"
"""What `wait` waits for unless told otherwise: the job has ended, however."""
WAITED_FOR: Final = (FINISHED, "Deleted", *(phase.value for phase in Phase))
"""What one can wait for: that a job has ended, is gone, or is in a phase."""
_EVERYTHING: Final = Selection()
_TRIES: Final = 5
"""How often a change is tried again that somebody else's change got in the way of."""


def ends_wait(state: JobState, for_: Collection[str]) -> bool:
    """Whether a job that is still there ends the wait for `Finished`, `Deleted` or phases."""
    return state.phase in for_ or (state.over and ("Deleted" not in for_ or FINISHED in for_))


@dataclass(frozen=True)
class Submitted:
    """What became of a submitted job."""

    job: JobState
    created: bool
    """False when an equal job was there already."""


async def _allowed(asked: Awaitable[Sequence[T]], hidden: list[str]) -> Sequence[T]:
    """What was asked for; nothing where the caller may not read it, and then the refusal is among `hidden`."""
    try:
        return await asked
    except errors.NotAllowed as error:
        hidden.append(str(error))
        return ()


class Verbs(ABC):
    """The jobs of one namespace. Every method raises the tree of `slipway.client.errors`."""

    @abstractmethod
    async def __aenter__(self) -> Self:
        """Open it."""

    @abstractmethod
    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""

    @property
    @abstractmethod
    def resolved_namespace(self) -> str:
        """The namespace of the jobs."""

    async def submit(self, body: Mapping[str, Any], *, dry_run: bool = False) -> Submitted:
        """Create a SliceJob; the same one again changes nothing (N-07).

        Args:
            body: the manifest; its namespace wins over the client's.
            dry_run: have it checked, and store nothing.

        Raises:
            Refused: when it is not taken.
            AlreadyExists: when another job has the name.
        """
        namespace = body["metadata"].get("namespace") or self.resolved_namespace
        try:
            made = await self._create(body, namespace, dry_run=dry_run)
        except errors.AlreadyExists:
            return Submitted(await self.made(body), created=False)
        return Submitted(JobState(made), created=True)

    async def made(self, body: Mapping[str, Any]) -> JobState:
        """The job that is there because this manifest was submitted before.

        Raises:
            NotFound: when no job has its name.
            AlreadyExists: when another job has.
        """
        namespace = body["metadata"].get("namespace") or self.resolved_namespace
        job = await self.get(body["metadata"]["name"], namespace=namespace)
        if different := await self._differences(body, job):
            words = f"SliceJob {job.name} in {namespace} exists with another {', '.join(different)}"
            raise errors.AlreadyExists(f"{words}: choose another name, or delete it") from None
        return job

    async def _differences(self, body: Mapping[str, Any], job: JobState) -> Sequence[str]:
        """In what a manifest is another job than the one that has its name."""
        return differences(body["spec"], job.stored.spec)

    async def get(self, name: str, *, namespace: str | None = None, uid: str | None = None) -> JobState:
        """One job.

        Args:
            namespace: another than the client's.
            uid: the UID of the job that is meant, where a later one of its name must not be taken for it.

        Raises:
            NotFound: when there is none of that name, or another job has it.
        """
        where = namespace or self.resolved_namespace
        job = JobState(await self._read(name, where))
        if uid is not None and job.uid != uid:
            raise errors.NotFound(f"SliceJob {name} in {where} was deleted, and a later job has its name")
        return job

    @abstractmethod
    async def manifest(self, name: str) -> JsonObject:
        """One job with every field, as it is stored."""

    async def find(self, name: str) -> JobState | None:
        """One job, or None where there is none of that name (T-21)."""
        try:
            return await self.get(name)
        except errors.NotFound:
            return None

    @abstractmethod
    async def list(self, *, all_namespaces: bool = False, label_selector: str = "") -> tuple[JobState, ...]:
        """The jobs of the namespace, or of all; by namespace and name."""

    @abstractmethod
    def watch(self, name: str) -> AsyncGenerator[JobState | None, None]:
        """The job now and after each change; ends with None when it is deleted.

        Connections that break are made again.

        Raises:
            NotFound: when there is no such job at the beginning.
        """

    async def wait(
        self,
        name: str,
        *,
        for_: Collection[str] = (FINISHED,),
        seconds: float | None = None,
        seen: Callable[[JobState], None] = lambda state: None,
        uid: str | None = None,
    ) -> JobState:
        """Wait until a job has ended or is in one of these phases.

        Args:
            for_: `Finished`, `Deleted` or phases; a job that has ended ends the wait in any case.
            seconds: how long to wait; None waits for ever, and 0 looks once.
            seen: told the job now and after each change.
            uid: see `get`.

        Returns:
            The job as it was then.

        Raises:
            NotFound: when there is no such job, or when it is deleted while it is waited for.
            WaitTimeout: after that time; the job goes on.
        """
        last: JobState | None = None
        try:
            async with asyncio.timeout(seconds or None), aclosing(self.watch(name)) as states:
                async for state in states:
                    if state is None or uid not in (None, state.uid):
                        break
                    last = state
                    seen(state)
                    if ends_wait(state, for_):
                        return state
                    if seconds == 0:
                        raise TimeoutError
        except TimeoutError:
            phase = last.phase if last else "not seen yet"
            words = f"SliceJob {name} is {phase} after {seconds:g} s: {last.message if last else ''}".rstrip(": ")
            raise errors.WaitTimeout(words) from None
        if last is not None and "Deleted" in for_:
            return last
        raise errors.NotFound(f"SliceJob {name} in {self.resolved_namespace} was deleted")

    async def cancel(self, name: str, *, now: bool = False, uid: str | None = None) -> JobState:
        """End a job for good, and keep its record.

        Args:
            now: give the containers 1 s between SIGTERM and SIGKILL instead of their grace period.
            uid: see `get`.

        Raises:
            AlreadyFinished: when it has ended (N-18).
        """
        return await self._change(name, {"cancel": True} | ({"cancelGracePeriodSeconds": 1} if now else {}), uid)

    async def suspend(self, name: str) -> JobState:
        """Have its pods deleted and its nodes released; the job keeps its budgets."""
        return await self._change(name, {"suspend": True})

    async def resume(self, name: str) -> JobState:
        """Let a suspended job begin another attempt."""
        return await self._change(name, {"suspend": False})

    async def delete(self, name: str, *, uid: str | None = None) -> JobState:
        """Delete a job with everything that belongs to it; returns it as it was. For `uid` see `get`."""
        job = await self.get(name, uid=uid)
        await self._remove(job)
        return job

    async def events(self, name: str) -> tuple[Event, ...]:
        """The Events of a job and of its pods, oldest first."""
        return await self._told_of(await self.get(name))

    async def describe(self, name: str, *, history: bool = False, uid: str | None = None) -> Description:
        """One job in full: its attempts, its hosts, its Events.

        Args:
            history: read the pages of attempts that the status holds no more, too.
            uid: see `get`.
        """
        job = await self.get(name, uid=uid)
        number, attempts = job.status.attempt, tuple(reversed(job.status.attempts))
        if history:
            attempts = tuple(Attempt.model_validate(one) for one in await self.history(name))
        away = (await self.out_of_reach([job])).get(name, "")
        hidden: list[str] = []
        pods: Sequence[JsonObject] = ()
        if number is not None and not away:
            pods = await _allowed(self.pods(name, attempt=number), hidden)
        return Description(
            job=job,
            attempts=attempts,
            hosts=hosts(name, pods),
            events=tuple(await _allowed(self._told_of(job), hidden)),
            profile=await self._profile(job),
            out_of_reach=away,
            position=await self.position(job),
            hidden=tuple(hidden),
        )

    async def _profile(self, job: JobState) -> ProfileOfJob | None:
        """The profile of a job, as far as the caller may read it; None where there is none."""
        return None

    @abstractmethod
    async def history(self, name: str) -> tuple[JsonObject, ...]:
        """Every attempt that is recorded, oldest first, those in the pages of the history too."""

    def logs(self, name: str, selection: Selection = _EVERYTHING) -> AsyncGenerator[Item, None]:
        """The lines that a job's hosts wrote, and what is to be said about them. See `slipway.client.logs.follow`."""
        return follow(self, name, selection)

    @abstractmethod
    def log_source(self, job: JobState) -> LogSource:
        """The logs of one job."""

    @abstractmethod
    async def pods(self, name: str, *, attempt: int | None = None) -> tuple[JsonObject, ...]:
        """The pods of a job, or of one attempt."""

    @abstractmethod
    def watch_pods(self, name: str) -> AsyncGenerator[Change[PodSeen], None]:
        """The pods of a job, then what changes; for ever."""

    async def unserved(self, namespace: str, now: datetime, operator_id: str = "") -> str:
        """Why nothing looks after the jobs of a namespace that name this operator; empty where something does."""
        return ""

    async def out_of_reach(self, jobs: Iterable[JobState]) -> Mapping[str, str]:
        """Why what runs a job cannot be asked, by the job's name, where only its record can be read."""
        return {}

    async def position(self, job: JobState) -> str:
        """Where a job stands in its queue, in words; empty where it does not wait, or nobody tells."""
        return ""

    @abstractmethod
    async def _read(self, name: str, namespace: str) -> Stored:
        """One job; raises NotFound when there is none of that name."""

    @abstractmethod
    async def _create(self, body: Mapping[str, Any], namespace: str, *, dry_run: bool) -> Stored:
        """Store a job.

        Raises:
            Refused: when it is not taken.
            AlreadyExists: when a job has the name, whatever it is like.
        """

    @abstractmethod
    async def _patch(self, found: JobState, fields: Mapping[str, Any]) -> Stored:
        """Set these fields of the spec of a job.

        Raises:
            ChangedMeanwhile: when the job is another by now than the one that was found; nothing was changed.
        """

    @abstractmethod
    async def _remove(self, found: JobState) -> None:
        """Delete a job with everything that belongs to it; raises ChangedMeanwhile when another has its name."""

    @abstractmethod
    async def _events(self, found: JobState) -> Iterable[Event]:
        """The Events of a job and of its pods."""

    async def _told_of(self, job: JobState) -> tuple[Event, ...]:
        dated = [event for event in await self._events(job) if event.time is not None]
        return tuple(sorted(dated, key=lambda event: (event.time, event.reason)))

    async def _change(self, name: str, fields: Mapping[str, Any], uid: str | None = None) -> JobState:
        for _ in range(_TRIES):
            job = await self.get(name, uid=uid)
            if job.status.final:
                raise errors.AlreadyFinished(f"SliceJob {name} is {job.phase} already")
            try:
                return JobState(await self._patch(job, fields))
            except errors.ChangedMeanwhile:
                continue
        raise errors.ChangedMeanwhile(f"SliceJob {name} changes all the time; it was not changed")

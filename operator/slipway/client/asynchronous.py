"""SliceJobs over asyncio: one connection, one method for each verb."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, contextmanager, suppress
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from slipway.api import names
from slipway.api.profile import DEFAULT_PROFILE
from slipway.api.status import Attempt, Phase
from slipway.client import errors
from slipway.client.hosts import hosts
from slipway.client.model import Description, Event, JobState, ProfileOfJob, Stored
from slipway.client.target import NO_SLICEJOBS, Target, typed
from slipway.cluster import history, paths
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import AlreadyExists, Conflict, SlipwayClusterError
from slipway.cluster.watch import Applied, Deleted, Init, InitDone, Watcher
from slipway.cluster.wire import JsonObject

if TYPE_CHECKING:
    from slipway.client.logs import Item, Selection

FINISHED: Final = "Finished"
"""What `wait` waits for unless told otherwise: the job has ended, however."""
WAITED_FOR: Final = (FINISHED, "Deleted", *(phase.value for phase in Phase))
"""What one can wait for: that a job has ended, is gone, or is in a phase."""
_LAST_TURNS: Final = 5
_GOODBYE_SECONDS: Final = 0.25
_TRIES: Final = 5
"""How often a change is tried again that somebody else's change got in the way of."""


@dataclass(frozen=True)
class Submitted:
    """What became of a submitted job."""

    job: JobState
    created: bool
    """False when an equal job was there already."""


@dataclass(frozen=True)
class AsyncClient(Target):
    """SliceJobs of one namespace of a cluster.

    Use it as `async with AsyncClient() as client`. Every method raises the tree of `slipway.client.errors`.
    """

    _connections: list[ApiConnection] = field(default_factory=list, init=False, repr=False, compare=False)
    _open: AsyncExitStack = field(default_factory=AsyncExitStack, init=False, repr=False, compare=False)

    async def __aenter__(self) -> Self:
        self._connections.append(await self._open.enter_async_context(self.connect()))
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._connections.clear()
        await self._open.aclose()
        # A connection that is broken off is closed in the next turns of the loop, which may be its last.
        for _ in range(_LAST_TURNS):
            await asyncio.sleep(0)
        if error is not None:
            # TLS waits for the server to close it, too, where a request was broken off in the middle.
            await asyncio.sleep(_GOODBYE_SECONDS)

    @property
    def api(self) -> ApiConnection:
        """The open connection."""
        if not self._connections:
            raise RuntimeError("open the client first: async with AsyncClient() as client")
        return self._connections[0]

    async def submit(self, body: Mapping[str, Any], *, dry_run: bool = False) -> Submitted:
        """Create a SliceJob; the same one again changes nothing (N-07).

        Args:
            body: the manifest; its namespace wins over the client's.
            dry_run: have the API server check it and store nothing.

        Raises:
            Refused: when the API server does not take it.
            AlreadyExists: when another job has the name.
        """
        namespace = body["metadata"].get("namespace") or self.resolved_namespace
        with answered():
            try:
                made = await self.api.create(paths.jobs(namespace), body, Stored, check=dry_run)
            except AlreadyExists:
                found = await self.get(body["metadata"]["name"], namespace=namespace)
                if difference := _differences(body["spec"], found.stored.spec):
                    words = f"SliceJob {found.name} in {namespace} exists with another {', '.join(difference)}"
                    raise errors.AlreadyExists(f"{words}: choose another name, or delete it") from None
                return Submitted(found, created=False)
        return Submitted(JobState(made), created=True)

    async def get(self, name: str, *, namespace: str | None = None) -> JobState:
        """One job.

        Raises:
            NotFound: when there is none of that name.
        """
        return JobState(await self._get(name, Stored, namespace))

    async def manifest(self, name: str) -> JsonObject:
        """One job with every field, as the API server stores it."""
        found: JsonObject = await self._get(name, JsonObject)
        return found

    async def find(self, name: str) -> JobState | None:
        """One job, or None where there is none of that name (T-21)."""
        try:
            return await self.get(name)
        except errors.NotFound:
            return None

    async def list(self, *, all_namespaces: bool = False, label_selector: str = "") -> tuple[JobState, ...]:
        """The jobs of the namespace, or of all; by namespace and name."""
        path = paths.jobs("" if all_namespaces else self.resolved_namespace)
        with answered():
            listing = await self.api.list(path, Stored, label_selector=label_selector)
        return tuple(sorted(map(JobState, listing.items), key=lambda job: (job.namespace, job.name)))

    async def watch(self, name: str) -> AsyncGenerator[JobState | None, None]:
        """The job now and after each change; ends with None when it is deleted.

        Connections that break are made again.

        Raises:
            NotFound: when there is no such job at the beginning.
        """
        watched = (await self.get(name)).uid
        watcher = Watcher(self.api, paths.jobs(self.resolved_namespace), Stored, field_selector=f"metadata.name={name}")
        listed = False
        with answered():
            async with aclosing(watcher.events()) as events:
                async for event in events:
                    match event:
                        case Init():
                            listed = False
                        case Applied(stored) if stored.metadata.uid == watched:
                            listed = True
                            yield JobState(stored)
                        case InitDone() if listed:
                            pass
                        case InitDone() | Deleted() | Applied():
                            yield None
                            return

    async def wait(
        self,
        name: str,
        *,
        for_: Collection[str] = (FINISHED,),
        seconds: float | None = None,
        seen: Callable[[JobState], None] = lambda state: None,
    ) -> JobState:
        """Wait until a job has ended or is in one of these phases.

        Args:
            for_: `Finished`, `Deleted` or phases; a job that has ended ends the wait in any case.
            seconds: how long to wait; None waits for ever.
            seen: told the job now and after each change.

        Returns:
            The job as it was then.

        Raises:
            NotFound: when there is no such job, or when it is deleted while it is waited for.
            WaitTimeout: after that time; the job goes on.
        """
        last: JobState | None = None
        try:
            async with asyncio.timeout(seconds), aclosing(self.watch(name)) as states:
                async for state in states:
                    if state is None:
                        break
                    last = state
                    seen(state)
                    if (state.over and "Deleted" not in for_) or state.phase in for_:
                        return state
        except TimeoutError:
            phase = last.phase if last else "not seen yet"
            words = f"SliceJob {name} is {phase} after {seconds:g} s: {last.message if last else ''}".rstrip(": ")
            raise errors.WaitTimeout(words) from None
        if last is not None and "Deleted" in for_:
            return last
        raise errors.NotFound(f"SliceJob {name} in {self.resolved_namespace} was deleted")

    async def cancel(self, name: str, *, now: bool = False) -> JobState:
        """End a job for good, and keep its record.

        Args:
            now: give the containers 1 s between SIGTERM and SIGKILL instead of their grace period.

        Raises:
            AlreadyFinished: when it has ended (N-18).
        """
        return await self._change(name, {"cancel": True} | ({"cancelGracePeriodSeconds": 1} if now else {}))

    async def suspend(self, name: str) -> JobState:
        """Have its pods deleted and its nodes released; the job keeps its budgets."""
        return await self._change(name, {"suspend": True})

    async def resume(self, name: str) -> JobState:
        """Let a suspended job begin another attempt."""
        return await self._change(name, {"suspend": False})

    async def delete(self, name: str) -> JobState:
        """Delete a job with everything that belongs to it; returns it as it was."""
        found = await self.get(name)
        with answered():
            await self.api.delete(paths.job(found.namespace, name), uid=found.uid, propagation="Background")
        return found

    async def events(self, name: str) -> tuple[Event, ...]:
        """The Events of a job and of its pods, oldest first."""
        found = await self.get(name)
        with answered():
            listing = await self.api.list(paths.events(found.namespace), Event)
        pod = f"{name}-"
        mine = [
            one
            for one in listing.items
            if one.involved_object.get("uid") == found.uid
            or (one.involved_object.get("kind") == "Pod" and one.involved_object.get("name", "").startswith(pod))
        ]
        dated = (one for one in mine if one.time is not None)
        return tuple(sorted(dated, key=lambda one: (one.time, one.reason)))

    async def describe(self, name: str, *, history: bool = False) -> Description:
        """One job in full: its attempts, its hosts, its Events.

        Args:
            history: read the pages of attempts that the status holds no more, too.
        """
        job = await self.get(name)
        number, attempts = job.status.attempt, tuple(reversed(job.status.attempts))
        if history:
            attempts = tuple(Attempt.model_validate(one) for one in await self.history(name))
        pods = await self.pods(name, attempt=number) if number is not None else ()
        return Description(job, attempts, hosts(name, pods), await self.events(name), await self._profile(job))

    async def check_profile(self, body: Mapping[str, Any]) -> None:
        """Have the API server check a SliceJobProfile strictly, whether one of its name exists or not; store nothing.

        Raises:
            Refused: when the API server does not take it.
        """
        namespace = body["metadata"].get("namespace") or self.resolved_namespace
        # The API server looks last of all whether the name is taken.
        with answered(), suppress(AlreadyExists):
            await self.api.create(paths.profiles(namespace), body, JsonObject, check=True)

    async def _profile(self, job: JobState) -> ProfileOfJob | None:
        """The profile of a job, as far as the caller may read it."""
        named, newest = job.stored.spec.get("profile"), next(iter(job.status.attempts), None)
        name = str(named or DEFAULT_PROFILE)
        attempt = newest.number if newest is not None else None
        defaults = newest.defaults if newest is not None else None
        began = defaults.generation if defaults is not None and defaults.profile == name else None
        try:
            with answered():
                found = await self.api.get(f"{paths.profiles(job.namespace)}/{name}", Stored)
        except (errors.NotFound, errors.NotAllowed) as error:
            if named is None and began is None:
                return None
            there = isinstance(error, errors.NotAllowed)
            problem = "you may not read it" if there else "there is none of that name"
            return ProfileOfJob(name, None, problem, attempt, began)
        return ProfileOfJob(name, found.metadata.generation, "", attempt, began)

    async def history(self, name: str) -> tuple[JsonObject, ...]:
        """Every attempt that is recorded, oldest first, those in the pages of the history too."""
        with answered():
            return tuple(await history.read(self.api, self.resolved_namespace, name))

    def logs(self, name: str, selection: "Selection | None" = None) -> "AsyncGenerator[Item, None]":
        """The lines that a job's hosts wrote, and what is to be said about them. See `slipway.client.logs.follow`."""
        # It needs this module.
        from slipway.client.logs import Selection, follow

        return follow(self, name, selection or Selection())

    async def pods(self, name: str, *, attempt: int | None = None) -> tuple[JsonObject, ...]:
        """The pods of a job, or of one attempt."""
        selector = f"{names.LABEL_JOB_NAME}={name}"
        selector += f",{names.LABEL_ATTEMPT}={attempt}" if attempt is not None else ""
        with answered():
            listing = await self.api.list(paths.pods(self.resolved_namespace), JsonObject, label_selector=selector)
        return tuple(listing.items)

    async def _get(self, name: str, kind: Any, namespace: str | None = None) -> Any:
        where = namespace or self.resolved_namespace
        try:
            with answered():
                return await self.api.get(paths.job(where, name), kind)
        except errors.NotFound as error:
            if str(error) == NO_SLICEJOBS:
                raise
            raise errors.NotFound(f"there is no SliceJob {name} in namespace {where}") from None

    async def _change(self, name: str, fields: Mapping[str, Any]) -> JobState:
        for _ in range(_TRIES):
            found = await self.get(name)
            if found.status.final:
                raise errors.AlreadyFinished(f"SliceJob {name} is {found.phase} already")
            version = {"resourceVersion": found.stored.metadata.resource_version}
            try:
                path = paths.job(found.namespace, name)
                return JobState(await self.api.patch(path, {"metadata": version, "spec": fields}, Stored))
            except Conflict:
                continue
            except SlipwayClusterError as error:
                raise typed(error) from error
        raise errors.ChangedMeanwhile(f"SliceJob {name} changes all the time; it was not changed")


@contextmanager
def answered() -> Iterator[None]:
    """Raises what the API server answers as the errors of the client."""
    try:
        yield
    except SlipwayClusterError as error:
        raise typed(error) from error


def _differences(wanted: Mapping[str, Any], stored: Mapping[str, Any]) -> list[str]:
    """Fields that are given and stored otherwise; what the API server has added to them counts for nothing."""
    return [name for name, value in wanted.items() if not _contains(stored.get(name), value)]


def _contains(stored: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if not isinstance(stored, Mapping):
            return not wanted
        return all(_contains(stored.get(name), value) for name, value in wanted.items())
    if isinstance(wanted, Sequence) and not isinstance(wanted, str):
        if not isinstance(stored, Sequence) or len(stored) != len(wanted):
            return not wanted and not stored
        return all(_contains(one, other) for one, other in zip(stored, wanted, strict=True))
    return bool(stored == wanted) or wanted is None

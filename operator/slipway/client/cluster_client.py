"""SliceJobs of a cluster over asyncio: one connection, one method for each verb."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from slipway.api import names
from slipway.api.places import parse_pod_name
from slipway.api.profile import DEFAULT_PROFILE, PROFILE_KIND
from slipway.apiserver import paths
from slipway.apiserver.access import AccessError, configured_namespace, load_access
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import SlipwayClusterError
from slipway.apiserver.history_pages import read
from slipway.apiserver.watch import Applied, Deleted, Init, InitDone, Watcher
from slipway.apiserver.watch import Event as Change
from slipway.apiserver.wire import JsonObject
from slipway.client import errors, operator_leases, queue_position
from slipway.client.api_errors import NO_SLICEJOBS, as_client_errors, typed
from slipway.client.description import Event, ProfileOfJob
from slipway.client.host_states import PodSeen
from slipway.client.logs.kubelet_logs import PodLogs
from slipway.client.manifests.differences import differences
from slipway.client.model import JobState, Stored
from slipway.client.target import Target, possible_namespace
from slipway.client.verbs import Verbs


@dataclass(frozen=True)
class ClusterTarget(Target):
    """A cluster and a namespace in it. By default those that kubectl would use, or the pod's own."""

    kubeconfig: Path | None = None
    """Kubeconfig to read."""
    context: str | None = None
    """Context of the kubeconfig."""

    def client(self) -> "AsyncClient":
        """A client of its own for each call, to be opened with `async with`."""
        return AsyncClient(self.namespace, self.kubeconfig, self.context)

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[ApiConnection]:
        """A connection of this call's own.

        Raises:
            ClusterError: whatever goes wrong between here and the API server, and is not said more precisely.
        """
        try:
            async with ApiConnection(await load_access(self.kubeconfig, self.context)) as api:
                yield api
        except (AccessError, SlipwayClusterError) as error:
            raise typed(error) from error

    @property
    def options(self) -> tuple[str, ...]:
        """The options with which a command leads to the same place, whatever the context is by then."""
        where = {"-n": self.namespace, "--context": self.context, "--kubeconfig": self.kubeconfig}
        return tuple(word for name, value in where.items() if value for word in (name, str(value)))

    @property
    def resolved_namespace(self) -> str:
        """The namespace given, the context's, the pod's, or `default`.

        Raises:
            ClusterError: when there is a kubeconfig that cannot be read.
            Refused: when no namespace can have that name.
        """
        try:
            return possible_namespace(
                self.namespace or configured_namespace(self.kubeconfig, self.context) or "default"
            )
        except AccessError as error:
            raise typed(error) from error


@dataclass(frozen=True)
class AsyncClient(ClusterTarget, Verbs):
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

    @property
    def api(self) -> ApiConnection:
        """The open connection."""
        if not self._connections:
            raise RuntimeError("open the client first: async with AsyncClient() as client")
        return self._connections[0]

    async def manifest(self, name: str) -> JsonObject:
        """One job with every field, as the API server stores it."""
        found: JsonObject = await self._get(name, JsonObject, self.resolved_namespace)
        return found

    async def list(self, *, all_namespaces: bool = False, label_selector: str = "") -> tuple[JobState, ...]:
        """The jobs of the namespace, or of all; by namespace and name."""
        path = paths.jobs("" if all_namespaces else self.resolved_namespace)
        with as_client_errors():
            listing = await self.api.list(path, Stored, label_selector=label_selector)
        return tuple(sorted(map(JobState, listing.items), key=lambda job: (job.namespace, job.name)))

    async def watch(self, name: str) -> AsyncGenerator[JobState | None, None]:
        """The job now and after each change; ends with None when it is deleted.

        Connections that break are made again.

        Raises:
            NotFound: when there is no such job at the beginning.
        """
        first = await self.get(name)
        # The job may be deleted before the list: a caller that waits for the deletion must learn that the job existed.
        yield first
        watcher = Watcher(self.api, paths.jobs(self.resolved_namespace), Stored, field_selector=f"metadata.name={name}")
        listed = False
        with as_client_errors():
            async with aclosing(watcher.events()) as events:
                async for event in events:
                    match event:
                        case Init():
                            listed = False
                        case Applied(stored) if stored.metadata.uid == first.uid:
                            listed = True
                            # Each change has a version of its own, so none is left out.
                            if stored != first.stored:
                                yield JobState(stored)
                        case InitDone() if listed:
                            pass
                        case InitDone() | Deleted() | Applied():
                            yield None
                            return

    async def check_profile(self, body: Mapping[str, Any]) -> None:
        """Have the API server check a SliceJobProfile strictly, whether one of its name exists or not; store nothing.

        Raises:
            Refused: when the API server does not take it.
        """
        namespace = possible_namespace(body["metadata"].get("namespace") or self.resolved_namespace)
        # The API server looks last of all whether the name is taken.
        with suppress(errors.AlreadyExists), as_client_errors():
            await self.api.create(paths.profiles(namespace), body, JsonObject, check=True)

    async def _profile(self, job: JobState) -> ProfileOfJob | None:
        """The profile of a job, as far as the caller may read it."""
        named, newest = job.stored.spec.get("profile"), next(iter(job.status.attempts), None)
        name = str(named or DEFAULT_PROFILE)
        attempt = newest.number if newest is not None else None
        defaults = newest.defaults if newest is not None else None
        began = defaults.generation if defaults is not None and defaults.profile == name else None
        try:
            if not names.is_dns_subdomain(name):
                raise errors.NotFound(f"no {PROFILE_KIND} can have the name {name!r}")
            with as_client_errors():
                stored = await self.api.get(f"{paths.profiles(job.namespace)}/{name}", Stored)
        except (errors.NotFound, errors.NotAllowed) as error:
            if named is None and began is None:
                return None
            there = isinstance(error, errors.NotAllowed)
            problem = "you may not read it" if there else "there is none of that name"
            return ProfileOfJob(name, None, problem, attempt, began)
        return ProfileOfJob(name, stored.metadata.generation, "", attempt, began)

    async def history(self, name: str) -> tuple[JsonObject, ...]:
        """Every attempt that is recorded, oldest first, those in the pages of the history too."""
        with as_client_errors():
            return tuple(await read(self.api, self.resolved_namespace, self._possible(name)))

    def log_source(self, job: JobState) -> PodLogs:
        """The logs of one job."""
        return PodLogs(self.api, job)

    async def pods(self, name: str, *, attempt: int | None = None) -> tuple[JsonObject, ...]:
        """The pods of a job, or of one attempt."""
        selector = f"{names.LABEL_JOB_NAME}={self._possible(name)}"
        selector += f",{names.LABEL_ATTEMPT}={attempt}" if attempt is not None else ""
        with as_client_errors():
            listing = await self.api.list(paths.pods(self.resolved_namespace), JsonObject, label_selector=selector)
        return tuple(listing.items)

    async def watch_pods(self, name: str) -> AsyncGenerator[Change[PodSeen], None]:
        """The pods of a job, then what changes; for ever."""
        selector = f"{names.LABEL_JOB_NAME}={self._possible(name)}"
        watcher = Watcher(self.api, paths.pods(self.resolved_namespace), PodSeen, label_selector=selector)
        with as_client_errors():
            async with aclosing(watcher.events()) as events:
                async for event in events:
                    yield event

    async def unserved(self, namespace: str, now: datetime, operator_id: str = "") -> str:
        """Why no operator looks after such jobs of a namespace; empty where one does, or this user may not know."""
        with as_client_errors():
            return await operator_leases.unserved(self.api, namespace, now, operator_id)

    async def position(self, job: JobState) -> str:
        """Where a job stands in its queue, in words; empty where it does not wait, or Kueue does not tell this user."""
        return await queue_position.position(self.api, job)

    async def _read(self, name: str, namespace: str) -> Stored:
        stored: Stored = await self._get(name, Stored, namespace)
        return stored

    async def _create(self, body: Mapping[str, Any], namespace: str, *, dry_run: bool) -> Stored:
        # Few calls need it, and it takes time to import.
        from slipway.client.manifests.reading import InvalidManifest, check

        path = paths.jobs(possible_namespace(namespace))
        try:
            check(dict(body))
        except InvalidManifest as error:
            raise errors.Refused(str(error)) from error
        with as_client_errors():
            return await self.api.create(path, body, Stored, check=dry_run, strict=True)

    async def _differences(self, body: Mapping[str, Any], job: JobState) -> Sequence[str]:
        """In what the API server would store the manifest otherwise: with its defaults, and what webhooks add."""
        # Few calls need it, and it takes time to import.
        from slipway.client.manifests.reading import new_name

        unused = dict(body) | {"metadata": dict(body["metadata"]) | {"name": new_name(job.name)}}
        made = await self._create(unused, job.namespace, dry_run=True)
        return differences(made.spec, job.stored.spec)

    async def _patch(self, job: JobState, fields: Mapping[str, Any]) -> Stored:
        version = {"resourceVersion": job.stored.metadata.resource_version}
        with as_client_errors():
            path = paths.job(job.namespace, job.name)
            return await self.api.patch(path, {"metadata": version, "spec": fields}, Stored)

    async def _remove(self, job: JobState) -> None:
        path, again = paths.job(job.namespace, job.name), asyncio.Event()
        try:
            with as_client_errors():
                await self.api.delete(path, uid=job.uid, propagation="Background", on_retry=again.set)
        except (errors.NotFound, errors.ChangedMeanwhile):
            # The first request was carried out, and its answer was lost.
            if not again.is_set():
                raise

    async def _events(self, job: JobState) -> tuple[Event, ...]:
        with as_client_errors():
            listing = await self.api.list(paths.events(job.namespace), Event)
        return tuple(item for item in listing.items if _is_about(item.involved_object, job))

    async def _get(self, name: str, kind: Any, namespace: str) -> Any:
        path = paths.job(possible_namespace(namespace), self._possible(name, namespace))
        try:
            with as_client_errors():
                return await self.api.get(path, kind)
        except errors.NotFound as error:
            if str(error) == NO_SLICEJOBS:
                raise
            raise errors.NotFound(f"there is no SliceJob {name} in namespace {namespace}") from None

    def _possible(self, name: str, namespace: str = "") -> str:
        """The name, where a job can have it.

        Any other would mean something else in a URL or in a selector: `train?` the job train, and nothing all jobs.
        """
        if names.is_job_name(name):
            return name
        where = namespace or self.resolved_namespace
        raise errors.NotFound(f"there is no SliceJob {name!r} in namespace {where}: no job can have that name")


def _is_about(thing: Mapping[str, Any], job: JobState) -> bool:
    """Whether it is a job or one of its pods; those of the job `train-2` are none of `train`."""
    if thing.get("uid") == job.uid:
        return True
    return thing.get("kind") == "Pod" and parse_pod_name(job.name, thing.get("name", "")) is not None

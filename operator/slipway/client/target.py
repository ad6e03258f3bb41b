"""Where calls go to: which cluster and which namespace."""

import os
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import yaml

from slipway.client import errors
from slipway.client.errors import ClusterError
from slipway.cluster import errors as answers
from slipway.cluster.access import DEFAULT_KUBECONFIG, AccessError, load_access
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import SlipwayClusterError
from slipway.planner.snapshot import Settings

if TYPE_CHECKING:
    from slipway.client.asynchronous import AsyncClient
    from slipway.client.verbs import Verbs

_IN_CLUSTER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Target(ABC):
    """Where jobs are, and how they are reached; made without any call."""

    namespace: str | None = None
    """Namespace of the jobs."""

    @property
    @abstractmethod
    def resolved_namespace(self) -> str:
        """The namespace given, or the one that takes its place."""

    @property
    def folder(self) -> Path | None:
        """Where relative sources of mounts begin; None where the jobs run on other machines."""
        return None

    @property
    def settings(self) -> Settings:
        """With which manifests are checked before they are sent."""
        return Settings()

    @abstractmethod
    def client(self) -> "Verbs":
        """A client of its own for each call, to be opened with `async with`."""

    def within(self, namespace: str) -> Self:
        """The same place with another namespace."""
        return replace(self, namespace=namespace)


@dataclass(frozen=True)
class ClusterTarget(Target):
    """A cluster and a namespace in it. By default those that kubectl would use, or the pod's own."""

    kubeconfig: Path | None = None
    """Kubeconfig to read."""
    context: str | None = None
    """Context of the kubeconfig."""

    def client(self) -> "AsyncClient":
        """A client of its own for each call, to be opened with `async with`."""
        # It needs this module.
        from slipway.client.asynchronous import AsyncClient

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
    def resolved_namespace(self) -> str:
        """The namespace given, the context's, the pod's, or `default`."""
        return self.namespace or self._configured() or "default"

    def _configured(self) -> str:
        for name in (str(self.kubeconfig or os.environ.get("KUBECONFIG") or DEFAULT_KUBECONFIG)).split(os.pathsep):
            path = Path(name).expanduser()
            if path.exists():
                return _namespace_in(yaml.safe_load(path.read_text()) or {}, self.context)
        return _IN_CLUSTER.read_text().strip() if _IN_CLUSTER.exists() else ""


NO_SLICEJOBS: Final = "this cluster has no SliceJobs: Slipway's CRD is not installed"
_UNKNOWN: Final = "the server could not find the requested resource"
"""What the API server says of a kind that it does not know; other kinds than ours every cluster has."""
_KINDS: Final[dict[type[Exception], type[ClusterError]]] = {
    AccessError: errors.Unreachable,
    answers.ConnectionLost: errors.Unreachable,
    answers.Unauthorized: errors.NotAuthenticated,
    answers.Forbidden: errors.NotAllowed,
    answers.NotFound: errors.NotFound,
    answers.AlreadyExists: errors.AlreadyExists,
    answers.Conflict: errors.ChangedMeanwhile,
    answers.BadRequest: errors.Refused,
    answers.Invalid: errors.Refused,
    answers.TooManyRequests: errors.TooManyRequests,
    answers.ServerError: errors.ServerFailed,
}


def typed(error: Exception) -> ClusterError:
    """The error that callers see for one of the connection's."""
    words = str(error)
    return _KINDS.get(type(error), ClusterError)(NO_SLICEJOBS if _UNKNOWN in words else words)


@contextmanager
def answered() -> Iterator[None]:
    """Raises what the API server answers as the errors of the client."""
    try:
        yield
    except SlipwayClusterError as error:
        raise typed(error) from error


def _namespace_in(kubeconfig: dict[str, Any], context: str | None) -> str:
    wanted = context or kubeconfig.get("current-context")
    for entry in kubeconfig.get("contexts") or ():
        if entry["name"] == wanted:
            return str(entry["context"].get("namespace") or "")
    return ""

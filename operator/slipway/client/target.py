"""Which cluster and which namespace calls go to."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from slipway.client import errors
from slipway.client.errors import ClusterError
from slipway.cluster import errors as answers
from slipway.cluster.access import DEFAULT_KUBECONFIG, AccessError, load_access
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import SlipwayClusterError

_IN_CLUSTER: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@dataclass(frozen=True)
class Target:
    """A cluster and a namespace in it; made without any call. By default those that kubectl would use, or the pod's
    own."""

    namespace: str | None = None
    """Namespace of the jobs."""
    kubeconfig: Path | None = None
    """Kubeconfig to read."""
    context: str | None = None
    """Context of the kubeconfig."""

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


def _namespace_in(kubeconfig: dict[str, Any], context: str | None) -> str:
    wanted = context or kubeconfig.get("current-context")
    for entry in kubeconfig.get("contexts") or ():
        if entry["name"] == wanted:
            return str(entry["context"].get("namespace") or "")
    return ""

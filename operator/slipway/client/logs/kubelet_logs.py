"""The logs of a job in a cluster: the API server passes on what the kubelets keep."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import ApiError, ConnectionLost, Forbidden, NotFound, Unauthorized
from slipway.apiserver.pod_logs import LogStream, log_query
from slipway.apiserver.watch import Event, Watcher
from slipway.client.api_errors import as_client_errors, typed
from slipway.client.logs.interface import COMBINED, LogBroken, LogGone, LogQuery, means_gone
from slipway.client.logs.log_pod import LogPod
from slipway.client.model import JobState


class PodLogs:
    """The pods of one job and their logs; of a container there is one log for both streams."""

    streams = (COMBINED,)

    def __init__(self, api: ApiConnection, job: JobState) -> None:
        self._api = api
        self._path = paths.pods(job.namespace)
        self._label = f"{names.LABEL_JOB_UID}={job.uid}"

    async def pods(self) -> list[LogPod]:
        """The pods that there are."""
        with as_client_errors():
            return (await self._api.list(self._path, LogPod, label_selector=self._label)).items

    async def watch(self) -> AsyncGenerator[Event[LogPod], None]:
        """The pods that there are, then what changes; for ever."""
        watcher = Watcher(self._api, self._path, LogPod, label_selector=self._label)
        with as_client_errors():
            async with aclosing(watcher.events()) as events:
                async for event in events:
                    yield event

    def stream(self, pod: str, query: LogQuery) -> "PodLogStream":
        """A stream of the log of a pod."""
        return PodLogStream(self._api, f"{self._path}/{pod}", query)


class PodLogStream:
    """One stream of the log of a container."""

    def __init__(self, api: ApiConnection, pod: str, query: LogQuery) -> None:
        self._stream = LogStream(
            api, pod, log_query(query.container, follow=query.follow, since=query.since, tail=query.tail)
        )

    def cut(self) -> None:
        """Break it."""
        self._stream.cut()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """What the kubelet sends. See `slipway.client.logs.interface.LogStream`."""
        try:
            async with aclosing(self._stream.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        except ApiError as error:
            raise _judged(error) from error
        except ConnectionLost as error:
            raise LogBroken(str(error)) from error


def _judged(error: ApiError) -> Exception:
    if isinstance(error, Unauthorized | Forbidden):
        return typed(error)
    if isinstance(error, NotFound) or (means_gone(str(error)) and "waiting to start" not in str(error)):
        return LogGone(str(error))
    return LogBroken(str(error))

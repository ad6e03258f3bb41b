"""The logs of a job in a cluster: the API server passes on what the kubelets keep."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from datetime import UTC
from typing import Final

import aiohttp

from slipway.api import names
from slipway.client.logs.pods import LogPod
from slipway.client.logs.source import LogBroken, LogGone, LogQuery
from slipway.client.logs.words import means_gone
from slipway.client.model import JobState
from slipway.client.target import answered, typed
from slipway.cluster import paths
from slipway.cluster.connection import ApiConnection
from slipway.cluster.errors import ApiError, Forbidden, NotFound, Unauthorized, from_response
from slipway.cluster.watch import Event, Watcher

SILENCE_SECONDS: Final = 300
"""A stream that brings nothing for this long is asked for again: its connection may be dead."""


class PodLogs:
    """The pods of one job and their logs."""

    def __init__(self, api: ApiConnection, job: JobState) -> None:
        self._api = api
        self._path = paths.pods(job.namespace)
        self._label = f"{names.LABEL_JOB_UID}={job.uid}"

    async def pods(self) -> list[LogPod]:
        """The pods that there are."""
        with answered():
            return (await self._api.list(self._path, LogPod, label_selector=self._label)).items

    async def watch(self) -> AsyncGenerator[Event[LogPod], None]:
        """The pods that there are, then what changes; for ever."""
        watcher = Watcher(self._api, self._path, LogPod, label_selector=self._label)
        with answered():
            async with aclosing(watcher.events()) as events:
                async for event in events:
                    yield event

    def stream(self, pod: str, query: LogQuery) -> "PodLogStream":
        """A stream of the log of a pod."""
        return PodLogStream(self._api, f"{self._path}/{pod}/log", query)


class PodLogStream:
    """One stream of the log of a container."""

    def __init__(self, api: ApiConnection, path: str, query: LogQuery) -> None:
        self._api = api
        self._url = f"{api.server}{path}"
        self._query = query
        self._answer: aiohttp.ClientResponse | None = None

    def cut(self) -> None:
        """Break it."""
        if self._answer is not None:
            self._answer.close()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """What the kubelet sends. See `slipway.client.logs.source.LogStream`."""
        limits, query = (
            aiohttp.ClientTimeout(total=None, sock_connect=10, sock_read=SILENCE_SECONDS),
            _worded(self._query),
        )
        try:
            async with (
                self._api.new_session() as session,
                session.get(self._url, params=query, timeout=limits) as answer,
            ):
                if answer.status >= 400:
                    raise from_response(answer.status, await answer.read())
                self._answer = answer
                async for chunk in answer.content.iter_any():
                    yield chunk
        except ApiError as error:
            raise _judged(error) from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise LogBroken(str(error) or type(error).__name__) from error


def _worded(query: LogQuery) -> dict[str, str]:
    """The query in the words of the API."""
    words = {"container": query.container, "timestamps": "true"}
    if query.follow:
        words["follow"] = "true"
    if query.since is not None:
        words["sinceTime"] = query.since.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if query.tail is not None:
        words["tailLines"] = str(query.tail)
    return words


def _judged(error: ApiError) -> Exception:
    if isinstance(error, Unauthorized | Forbidden):
        return typed(error)
    if isinstance(error, NotFound) or (means_gone(str(error)) and "waiting to start" not in str(error)):
        return LogGone(str(error))
    return LogBroken(str(error))

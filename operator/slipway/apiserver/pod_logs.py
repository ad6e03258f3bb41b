"""Streams of the logs of pods, as the API server passes them on from the kubelets."""

from collections.abc import AsyncGenerator, Mapping
from datetime import UTC, datetime
from typing import Final

import aiohttp

from slipway.apiserver.connection import CONNECT_SECONDS, ApiConnection
from slipway.apiserver.errors import ConnectionLost, from_response

SILENCE_SECONDS: Final = 300
"""A stream that brings nothing for this long is asked for again: its connection may be dead."""


class LogStream:
    """One stream of the log of a container."""

    def __init__(self, api: ApiConnection, pod: str, query: Mapping[str, str]) -> None:
        """`pod` is the path of the pod, `query` what the API calls PodLogOptions."""
        self._api = api
        self._url = f"{api.server}{pod}/log"
        self._query = query
        self._answer: aiohttp.ClientResponse | None = None

    def cut(self) -> None:
        """Break it."""
        if self._answer is not None:
            self._answer.close()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """What the kubelet sends, in pieces of any length.

        Raises:
            ApiError: when the API server or the kubelet refuses.
            ConnectionLost: when the stream breaks or falls silent.
        """
        limits = aiohttp.ClientTimeout(total=None, connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS)
        try:
            async with (
                self._api.new_session() as session,
                session.get(self._url, params=self._query, timeout=limits) as answer,
            ):
                if answer.status >= 400:
                    raise from_response(answer.status, await answer.read())
                self._answer = answer
                async for chunk in answer.content.iter_any():
                    yield chunk
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            raise ConnectionLost(str(error) or type(error).__name__) from error


def log_query(
    container: str, *, follow: bool, since: datetime | None = None, tail: int | None = None
) -> dict[str, str]:
    """The parameters of a request for a log whose lines begin with their timestamps."""
    query = {"container": container, "timestamps": "true"}
    if follow:
        query["follow"] = "true"
    if since is not None:
        query["sinceTime"] = since.astimezone(UTC).isoformat().replace("+00:00", "Z")
    if tail is not None:
        query["tailLines"] = str(tail)
    return query

"""A program that the API server starts in a container, and its standard streams over one websocket."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

import aiohttp

from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection

_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _END = range(4)
"""Channels: the first byte of each message of these protocols."""
_PIECE: Final = 1 << 16
_SILENCE_SECONDS: Final = 60.0
_KEPT_ERRORS: Final = 4096


class StreamBroken(Exception):
    """The stream ended before its reader had everything; the message says how."""


class StreamForbidden(StreamBroken):
    """The API server refused to begin it, and will until a role or the credentials change."""

    def __init__(self, pod: str, status: HTTPStatus) -> None:
        words = f"{status} {status.phrase}; calls need get and create on pods/exec"
        super().__init__(f"exec into pod {pod} was refused: {words}")
        self.status: Final = status
        """401 or 403."""


class ExecStream:
    """Standard input and output of the program; the end of standard error is kept for errors."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._stdout = bytearray()
        self._stderr = b""

    async def write(self, content: bytes) -> None:
        """Send it to standard input."""
        for start in range(0, len(content), _PIECE):
            await self._socket.send_bytes(bytes([_STDIN]) + content[start : start + _PIECE])

    async def line(self) -> bytes:
        """The next line of standard output, without its newline.

        Raises:
            StreamBroken: when it does not come.
        """
        while b"\n" not in self._stdout:
            await self._receive()
        line, _, self._stdout = self._stdout.partition(b"\n")
        return bytes(line)

    async def exactly(self, size: int) -> bytes:
        """The next bytes of standard output.

        Raises:
            StreamBroken: when they do not come.
        """
        while len(self._stdout) < size:
            await self._receive()
        content, self._stdout = self._stdout[:size], self._stdout[size:]
        return bytes(content)

    async def _receive(self) -> None:
        try:
            message = await self._socket.receive(timeout=_SILENCE_SECONDS)
        except TimeoutError as error:
            raise StreamBroken(f"nothing was heard for {_SILENCE_SECONDS:g} s") from error
        if message.type is not aiohttp.WSMsgType.BINARY:
            raise StreamBroken(f"the stream was closed {self._errors}".rstrip())
        channel, content = message.data[0], message.data[1:]
        if channel == _STDOUT:
            self._stdout += content
        elif channel == _STDERR:
            self._stderr = (self._stderr + content)[-_KEPT_ERRORS:]
        elif channel == _END:
            raise StreamBroken(f"the program ended: {content.decode(errors='replace')} {self._errors}".rstrip())

    @property
    def _errors(self) -> str:
        return self._stderr.decode(errors="replace").strip()


@asynccontextmanager
async def open_exec(
    api: ApiConnection, namespace: str, pod: str, container: str, command: Sequence[str]
) -> AsyncIterator[ExecStream]:
    """Start a program in a container of a pod.

    Raises:
        StreamForbidden: when the API server does not allow it.
        StreamBroken: when it cannot be started, or its stream breaks.
    """
    query = [("container", container), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    query += [("command", word) for word in command]
    url = f"{api.server}{paths.pods(namespace)}/{pod}/exec"
    try:
        async with (
            api.new_session() as session,
            session.ws_connect(url, params=query, protocols=_PROTOCOLS, max_msg_size=0) as socket,
        ):
            yield ExecStream(socket)
    except aiohttp.WSServerHandshakeError as error:
        if error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise StreamForbidden(pod, HTTPStatus(error.status)) from error
        raise StreamBroken(f"exec into pod {pod} was refused: {error.status} {error.message}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise StreamBroken(f"exec into pod {pod}: {error}") from error

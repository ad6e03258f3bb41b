"""A program on the Ray head, and a conversation with it through the API server.

It needs no port and no route to the cluster: whoever may `exec` into the pod may call, from a laptop as well as from
a pod.
"""

import asyncio
import hashlib
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from http import HTTPStatus
from importlib import resources
from typing import Any, Final

import aiohttp

from slipway.api import names
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.client.errors import ClusterError, NotAllowed, NotAuthenticated
from slipway.sdk.payload import Call

PROGRAM: Final = resources.files("slipway.sdk").joinpath("host_program.py").read_bytes()
_BEGIN: Final = (
    "import sys; i = sys.stdin.buffer; exec(compile(i.read(int(i.readline())), 'slipway', 'exec'), globals())"
)
_PROTOCOLS: Final = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_STDIN, _STDOUT, _STDERR, _END = range(4)
_PIECE: Final = 1 << 16
_HERE_SECONDS: Final = 10.0
_SILENCE_SECONDS: Final = 60.0
_KEPT_ERRORS: Final = 4096


class StreamBroken(Exception):
    """The conversation ended before the answer was there; the message says how."""


class StreamForbidden(StreamBroken):
    """The API server did not let us begin it, and will not unless a role or the credentials change."""

    def __init__(self, pod: str, status: HTTPStatus) -> None:
        words = f"{status} {status.phrase}; calls need get and create on pods/exec"
        super().__init__(f"exec into pod {pod} was refused: {words}")
        self._kind = NotAuthenticated if status == HTTPStatus.UNAUTHORIZED else NotAllowed

    def typed(self, what: str) -> ClusterError:
        """The error that callers see, of what could not be done."""
        return self._kind(f"{what}: {self}")


class _Talk:
    """Standard input and output of the program."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._got = bytearray()
        self._errors = b""

    async def say(self, content: bytes) -> None:
        for start in range(0, len(content), _PIECE):
            await self._socket.send_bytes(bytes([_STDIN]) + content[start : start + _PIECE])

    async def stay(self) -> None:
        """Say that we are here, until cancelled."""
        while True:
            await asyncio.sleep(_HERE_SECONDS)
            await self.say(b"here\n")

    async def line(self) -> bytes:
        while b"\n" not in self._got:
            await self._more()
        found, _, rest = self._got.partition(b"\n")
        self._got = rest
        return bytes(found)

    async def exactly(self, size: int) -> bytes:
        while len(self._got) < size:
            await self._more()
        found, self._got = self._got[:size], self._got[size:]
        return bytes(found)

    async def _more(self) -> None:
        try:
            message = await self._socket.receive(timeout=_SILENCE_SECONDS)
        except TimeoutError as error:
            raise StreamBroken(f"nothing was heard for {_SILENCE_SECONDS:g} s") from error
        if message.type is not aiohttp.WSMsgType.BINARY:
            raise StreamBroken(f"the stream was closed {self._said()}".rstrip())
        channel, content = message.data[0], message.data[1:]
        if channel == _STDOUT:
            self._got += content
        elif channel == _STDERR:
            self._errors = (self._errors + content)[-_KEPT_ERRORS:]
        elif channel == _END:
            raise StreamBroken(f"the program ended: {content.decode(errors='replace')} {self._said()}".rstrip())

    def _said(self) -> str:
        return self._errors.decode(errors="replace").strip()


@asynccontextmanager
async def _talk(api: ApiConnection, namespace: str, pod: str, mode: str) -> AsyncIterator[_Talk]:
    query = [("container", names.RAY_CONTAINER), ("stdin", "true"), ("stdout", "true"), ("stderr", "true")]
    query += [("command", word) for word in ("python3", "-c", _BEGIN, mode)]
    url = f"{api.server}{paths.pods(namespace)}/{pod}/exec"
    try:
        async with (
            api.new_session() as session,
            session.ws_connect(url, params=query, protocols=_PROTOCOLS, max_msg_size=0) as socket,
        ):
            yield _Talk(socket)
    except aiohttp.WSServerHandshakeError as error:
        if error.status in (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN):
            raise StreamForbidden(pod, HTTPStatus(error.status)) from error
        raise StreamBroken(f"exec into pod {pod} was refused: {error.status} {error.message}") from error
    except (aiohttp.ClientError, OSError) as error:
        raise StreamBroken(f"exec into pod {pod}: {error}") from error


async def ask(
    api: ApiConnection,
    namespace: str,
    pod: str,
    call: Call | None = None,
    runtime_env: Mapping[str, Any] | None = None,
) -> bytes:
    """The document with the hosts' answers: to that call, or without one to the job's own.

    Raises:
        StreamBroken: when it did not come; a job's own may be asked for again.
    """
    async with _talk(api, namespace, pod, "fetch" if call is None else "call") as talk:
        await talk.say(b"%d\n" % len(PROGRAM) + PROGRAM)
        if call is not None:
            await talk.say(call.header(runtime_env) + b"\n" + call.content)
        staying = asyncio.create_task(talk.stay())
        try:
            # Besides heartbeats: what the image's Python prints before the program can keep it out of the stream.
            while not (line := await talk.line()).startswith(b"{"):
                pass
            told = json.loads(line)
            document = await talk.exactly(told["size"])
            if hashlib.sha256(document).hexdigest() != told["sha256"]:
                raise StreamBroken("the answer was damaged on the way")
            await talk.say(b"taken\n")
            with suppress(StreamBroken):
                while True:
                    await talk.line()
        finally:
            staying.cancel()
        return document

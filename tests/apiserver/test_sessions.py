"""Connections to a server that has no time to close them, too."""

import asyncio
import gc
import socket
import ssl
import threading
import warnings
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import uvloop
from aiohttp.client_proto import ResponseHandler
from kubernetes.aio.client import Configuration

from slipway.apiserver.access import Access
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.pod_logs import LogStream
from slipway.apiserver.wire import JsonObject
from slipway.devcluster.native import pki
from tests.waiting import ANSWER_SECONDS, pause

POD = "/api/v1/namespaces/ns/pods/train-0-0-0"
LOOPS = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = "x" * 5_000
EVENTS = 800


class Busy:
    """A server behind TLS that answers once on each connection and never looks at it again."""

    def __init__(self, folder: Path, answer: bytes) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "apiserver.crt", folder / "apiserver.key")
        self.asked = threading.Event()
        self._answer, self._context, self._open = answer, context, list[ssl.SSLSocket]()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"https://127.0.0.1:{self._socket.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        for one in (self._socket, *self._open):
            one.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection = self._context.wrap_socket(self._socket.accept()[0], server_side=True)
                self._open.append(connection)
                connection.recv(1 << 16)
                connection.sendall(self._answer)
                self.asked.set()


@pytest.fixture(params=["", f"{CHUNKED}5\r\ntick\n\r\n"], ids=["silent", "begun"])
def busy(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Busy]:
    pki.create(tmp_path, ["127.0.0.1"])
    server = Busy(tmp_path, request.param.encode())
    yield server
    server.close()


def access(busy: Busy, folder: Path) -> Access:
    configuration = Configuration(host=busy.url)
    configuration.ssl_ca_cert = str(folder / "ca.crt")
    return Access(configuration)


async def cancel_a_request(api: ApiConnection, busy: Busy) -> None:
    await cancelled(api.get(POD, JsonObject), busy)


async def cancel_a_watch(api: ApiConnection, busy: Busy) -> None:
    await cancelled(anext(api.watch(POD, resource_version="1")), busy)


async def leave_a_log(api: ApiConnection, busy: Busy) -> None:
    async with aclosing(LogStream(api, POD, {"follow": "true"}).chunks()) as chunks:
        await cancelled(anext(chunks), busy)


async def cut_a_log(api: ApiConnection, busy: Busy) -> None:
    stream = LogStream(api, POD, {"follow": "true"})
    async with aclosing(stream.chunks()) as chunks:
        await cancelled(anext(chunks), busy)
        stream.cut()


async def cancelled(work: Awaitable[object], busy: Busy) -> None:
    task = asyncio.ensure_future(work)
    await asyncio.to_thread(busy.asked.wait, ANSWER_SECONDS)
    await asyncio.wait((task,), timeout=0.05)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


async def cancel_at_the_end_of_the_handshake(api: ApiConnection, busy: Busy) -> None:
    task = asyncio.ensure_future(api.get(POD, JsonObject))
    made = ResponseHandler.connection_made

    def connection_made(self: ResponseHandler, transport: asyncio.BaseTransport) -> None:
        made(self, transport)
        task.cancel()

    with patch.object(ResponseHandler, "connection_made", connection_made), suppress(asyncio.CancelledError):
        await task


LEAVES = (cancel_a_request, cancel_a_watch, cancel_at_the_end_of_the_handshake, leave_a_log, cut_a_log)


@LOOPS
@pytest.mark.parametrize("leave", LEAVES)
def test_nothing_is_open_when_the_loop_ends(
    leave: Callable[[ApiConnection, Busy], Awaitable[None]],
    run: Callable[[Coroutine[None, None, None]], None],
    busy: Busy,
    tmp_path: Path,
) -> None:
    async def program() -> None:
        async with ApiConnection(access(busy, tmp_path)) as api:
            await leave(api, busy)

    # What other tests have left open is not told here.
    gc.collect()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        run(program())
        gc.collect()
    assert [str(one.message) for one in told if one.category is ResourceWarning] == []


@pytest.mark.parametrize("busy", [""], indirect=True, ids=["silent"])
def test_a_connection_that_is_gone_is_no_obstacle_at_the_end(
    busy: Busy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def abort(self: Any) -> None:
        """As in Debian's Python."""
        self._closed = True
        self._ssl_protocol._abort()

    monkeypatch.setattr("asyncio.sslproto._SSLProtocolTransport.abort", abort)

    async def program() -> None:
        async with ApiConnection(access(busy, tmp_path)) as api:
            await cancel_a_request(api, busy)
            [gone] = api._sessions._bounded._open
            gone.abort()
            gone.close()

    asyncio.run(program())


@LOOPS
@pytest.mark.parametrize(
    "busy", [CHUNKED + f"{len(EVENT) + 1:x}\r\n{EVENT}\n\r\n" * EVENTS], indirect=True, ids=["many events"]
)
def test_a_loop_whose_turns_take_long_reads_more_than_ten_events_of_a_watch_in_each(
    run: Callable[[Coroutine[None, None, int]], int], busy: Busy, tmp_path: Path
) -> None:
    async def program() -> int:
        loop, turns = asyncio.get_running_loop(), 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            pause(0.02)
            loop.call_soon(turn)

        async with (
            ApiConnection(access(busy, tmp_path)) as api,
            aclosing(api.watch(POD, resource_version="1")) as lines,
        ):
            assert await anext(lines) == EVENT.encode()
            turn()
            for _ in range(EVENTS - 1):
                await anext(lines)
            return turns

    assert run(program()) < EVENTS / 10

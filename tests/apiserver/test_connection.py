import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any

import aiohttp
import msgspec
import pytest
from aiohttp import web
from kubernetes.aio.client import Configuration

from slipway.apiserver import errors, sessions
from slipway.apiserver.access import Access
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.pod_logs import LogStream
from slipway.apiserver.wire import JsonObject
from slipway.core.model.pods import Pod
from tests.apiserver.replay import Handler, Replay, answer, broken, listing, open_access, raw, refusal
from tests.waiting import ANSWER_SECONDS, holds, passing, pause

PATH = "/api/v1/namespaces/ns/pods"

REFUSALS: list[tuple[int, str, type[errors.ApiError]]] = [
    (400, "BadRequest", errors.BadRequest),
    (401, "Unauthorized", errors.Unauthorized),
    (403, "Forbidden", errors.Forbidden),
    (404, "NotFound", errors.NotFound),
    (404, "", errors.NoSuchPath),
    (409, "Conflict", errors.Conflict),
    (409, "AlreadyExists", errors.AlreadyExists),
    (410, "Gone", errors.Gone),
    (410, "Expired", errors.Gone),
    (422, "Invalid", errors.Invalid),
    (418, "", errors.ApiError),
]


@pytest.mark.parametrize(("status", "reason", "kind"), REFUSALS)
async def test_every_refusal_has_its_error(
    replay: Replay, api: ApiConnection, status: int, reason: str, kind: type[errors.ApiError]
) -> None:
    replay.then(refusal(status, reason, "because"))
    with pytest.raises(errors.ApiError, match="because") as caught:
        await api.get(PATH, JsonObject)
    assert type(caught.value) is kind
    assert (caught.value.status, caught.value.reason) == (status, reason)


NESTED = b'{"message":"bad gateway","details":' + b'{"of":' * 100_000 + b"1" + b"}" * 100_001
"""No parser of bounded depth reads it."""

PAGES = {
    "no JSON": b"<html>bad gateway</html>",
    "JSON of another form": b'["bad gateway"]',
    "JSON in Latin-1": b'{"message":"bad gateway: r\xe9essayez"}',
    "JSON that is nested too deeply": NESTED,
}


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
async def test_an_answer_of_a_proxy_is_an_error_too(replay: Replay, api: ApiConnection, page: bytes) -> None:
    replay.then(*[raw(page, 502)] * 3)
    with pytest.raises(errors.ServerError, match="bad gateway"):
        await api.get(PATH, JsonObject)


NEW_YEAR = "Tue, 01 Jan 2030 00:00:00 GMT"


@pytest.mark.parametrize(
    ("said", "counts"),
    [
        pytest.param(answer({}, Date=NEW_YEAR), True, id="what was asked for"),
        pytest.param(answer({}, Date=NEW_YEAR.replace("GMT", "-0000")), True, id="of no zone"),
        pytest.param(answer({}, Date=NEW_YEAR.replace("GMT", "+0000")), True, id="of a zone in figures"),
        pytest.param(answer({}, Date="soon"), False, id="no date"),
        pytest.param(answer({}, Date=NEW_YEAR.replace("2030", "9" * 30)), False, id="in a year beyond all dates"),
        pytest.param(answer("404 page not found", 404, Date=NEW_YEAR), True, id="no such path"),
        pytest.param(answer("<html>bad gateway</html>", 502, Date=NEW_YEAR), False, id="the page of a proxy"),
    ],
)
async def test_the_date_of_an_answer_is_that_of_the_api_server(
    replay: Replay, api: ApiConnection, said: Handler, counts: bool
) -> None:
    heard: list[datetime] = []
    api.on_date = lambda date, asked: heard.append(date)
    replay.then(*[said] * 3)
    with suppress(errors.ApiError):
        await api.get(PATH, JsonObject)
    assert heard == [datetime(2030, 1, 1, tzinfo=UTC)] * counts


@pytest.mark.parametrize("fault", [broken(), refusal(500, ""), refusal(503, ""), refusal(429, "")])
async def test_what_may_pass_is_tried_again(replay: Replay, api: ApiConnection, fault: Any) -> None:
    replay.then(fault, answer({"ok": 1}))
    assert await api.create(PATH, {"a": 1}, JsonObject) == {"ok": 1}
    assert replay.bodies == [b'{"a":1}', b'{"a":1}']


async def test_three_failures_are_enough(replay: Replay, api: ApiConnection) -> None:
    replay.otherwise = broken()
    with pytest.raises(errors.ConnectionLost):
        await api.create(PATH, {}, JsonObject)
    assert len(replay.requests) == 3


async def test_a_long_wait_is_left_to_the_caller(replay: Replay, api: ApiConnection) -> None:
    replay.then(answer({"code": 429, "message": "busy"}, 429, Retry_After="30"))
    with pytest.raises(errors.TooManyRequests) as caught:
        await api.get(PATH, JsonObject)
    assert (caught.value.retry_after, len(replay.requests)) == (30.0, 1)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
async def test_what_cannot_be_read_is_garbled(replay: Replay, api: ApiConnection, page: bytes) -> None:
    replay.then(raw(page))
    with pytest.raises(errors.Garbled):
        await api.get(PATH, JsonObject)


async def test_every_page_of_a_list_is_read(replay: Replay, api: ApiConnection) -> None:
    replay.then(listing("7", {"a": 1}, next_page="x"), listing("7", {"a": 2}))
    found = await api.list(PATH, JsonObject, label_selector="l=1", field_selector="f=2")
    assert (found.items, found.resource_version) == ([{"a": 1}, {"a": 2}], "7")
    assert [dict(one.query) for one in replay.requests] == [
        {"limit": "500", "labelSelector": "l=1", "fieldSelector": "f=2"},
        {"limit": "500", "labelSelector": "l=1", "fieldSelector": "f=2", "continue": "x"},
    ]


async def test_a_status_is_merged_into_the_subresource(replay: Replay, api: ApiConnection) -> None:
    replay.then(answer({}))
    await api.patch_status(f"{PATH}/a", {"status": {}}, JsonObject)
    asked = replay.requests[0]
    assert (asked.method, asked.path, asked.content_type) == (
        "PATCH",
        f"{PATH}/a/status",
        "application/merge-patch+json",
    )


async def test_a_deletion_names_the_uid_it_means(replay: Replay, api: ApiConnection) -> None:
    replay.then(answer({}))
    await api.delete(f"{PATH}/a", uid="u", grace_seconds=0, propagation="Background")
    assert msgspec.json.decode(replay.bodies[0]) == {
        "preconditions": {"uid": "u"},
        "gracePeriodSeconds": 0,
        "propagationPolicy": "Background",
    }


async def test_a_collection_is_never_deleted_without_a_selector(api: ApiConnection) -> None:
    with pytest.raises(ValueError, match="without a label selector"):
        await api.delete_collection(PATH, JsonObject, label_selector="")


async def test_a_guard_stops_every_write_and_no_read(replay: Replay) -> None:
    def guard() -> float:
        raise PermissionError("not the leader")

    async with ApiConnection(open_access(replay.url), guard) as api:
        replay.then(answer({}))
        await api.get(PATH, JsonObject)
        for write in (
            api.create(PATH, {}, JsonObject),
            api.patch_status(PATH, {}, JsonObject),
            api.replace(PATH, {}, JsonObject),
            api.delete(PATH, uid="u"),
            api.delete_collection(PATH, JsonObject, label_selector="a=b"),
        ):
            with pytest.raises(PermissionError):
                await write
    assert len(replay.requests) == 1


async def test_a_guard_is_asked_before_each_retry(replay: Replay) -> None:
    asked = 0

    def guard() -> float:
        nonlocal asked
        asked += 1
        if asked == 2:
            raise PermissionError("lost meanwhile")
        return 1.0

    async with ApiConnection(open_access(replay.url), guard) as api:
        replay.then(broken())
        with pytest.raises(PermissionError):
            await api.create(PATH, {}, JsonObject)


Write = Callable[[ApiConnection, Callable[[], None]], Awaitable[object]]
WRITES: dict[str, Write] = {
    "a creation": lambda api, told: api.create(PATH, {}, JsonObject, on_retry=told),
    "a replacement": lambda api, told: api.replace(PATH, {}, JsonObject),
    "a change": lambda api, told: api.patch(PATH, {}, JsonObject),
    "a deletion": lambda api, told: api.delete(PATH, uid="u", on_retry=told),
    "a deletion of many": lambda api, told: api.delete_collection(PATH, Pod, label_selector="a=b", on_retry=told),
}
TOLD = ("a creation", "a deletion", "a deletion of many")


@pytest.mark.parametrize("name", WRITES)
async def test_a_write_on_a_kept_connection_that_breaks_is_sent_again_by_nobody_else(name: str, replay: Replay) -> None:
    guarded, told = list[int](), list[int]()

    def guard() -> float:
        guarded.append(len(replay.requests))
        return 10.0

    async with ApiConnection(open_access(replay.url), guard) as api:
        replay.then(answer({}), broken(), answer({"metadata": {}}))
        await api.get(PATH, JsonObject)
        await WRITES[name](api, lambda: told.append(len(replay.requests)))
    # Each is asked after the read, and before the request that it is about.
    assert (len(replay.requests), guarded) == (3, [1, 2])
    assert told == ([2] if name in TOLD else [])


async def test_a_read_on_a_kept_connection_that_breaks_is_sent_again(replay: Replay, api: ApiConnection) -> None:
    replay.then(answer({}), broken(), answer({"ok": 1}))
    assert [await api.get(PATH, JsonObject) for _ in range(2)] == [{}, {"ok": 1}]


async def read_a_watch(api: ApiConnection) -> None:
    async for _ in api.watch(PATH, resource_version="1"):
        pass


async def read_a_log(api: ApiConnection) -> None:
    async for _ in LogStream(api, f"{PATH}/a", {}).chunks():
        pass


async def ask_in_another_session(api: ApiConnection) -> None:
    try:
        async with api.new_session() as session, session.get(f"{api.server}{PATH}") as response:
            await response.read()
    except aiohttp.ClientConnectionError as error:
        raise errors.ConnectionLost(str(error)) from error


REQUESTS: dict[str, Callable[[ApiConnection], Awaitable[object]]] = {
    **{name: partial(write, told=lambda: None) for name, write in WRITES.items()},
    "a read": lambda api: api.get(PATH, JsonObject),
    "a watch": read_a_watch,
    "a log": read_a_log,
    "kopf's": ask_in_another_session,
}


@pytest.mark.parametrize("ask", REQUESTS.values(), ids=REQUESTS)
@pytest.mark.parametrize("status", [301, 302, 303, 304, 308])
async def test_credentials_are_not_sent_where_an_answer_points_and_nothing_counts_as_done(
    status: int, ask: Callable[[ApiConnection], Awaitable[object]], replay: Replay, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Nobody waits before a second try.
    monkeypatch.setattr("slipway.apiserver.connection.random.uniform", lambda *_: 0.0)
    elsewhere = replay.url.replace("127.0.0.1", "localhost")
    replay.otherwise = answer({"metadata": {}}, status, Location=f"{elsewhere}/login?from=here")
    configuration = Configuration(host=replay.url)
    configuration.api_key["BearerToken"] = "Bearer abc"
    async with ApiConnection(Access(configuration)) as api:
        with pytest.raises(errors.ConnectionLost, match=f"answered with {status}, a redirect to {elsewhere}/login$"):
            await ask(api)
    assert {(one.url.host, one.headers["Authorization"]) for one in replay.requests} == {("127.0.0.1", "Bearer abc")}


async def test_a_dry_run_is_waited_for_longer_than_a_webhook_has(replay: Replay) -> None:
    async with ApiConnection(open_access(replay.url), lambda: 0.2) as api:
        replay.then(answer({}))
        await api.create(PATH, {}, JsonObject, check=True)
    assert [(one.query["dryRun"], one.query["timeout"]) for one in replay.requests] == [("All", "12.000s")]


async def test_a_write_ends_before_the_time_that_its_guard_leaves_it(replay: Replay) -> None:
    left = iter((2.0,))

    def guard() -> float:
        for seconds in left:
            return seconds
        raise PermissionError("lost meanwhile")

    async with ApiConnection(open_access(replay.url), guard) as api, asyncio.timeout(30):
        with pytest.raises(PermissionError):
            await api.create(PATH, {}, JsonObject)
    assert [one.query["timeout"] for one in replay.requests] == ["2.000s"]


async def test_a_write_whose_caller_was_cancelled_can_be_waited_for(replay: Replay, api: ApiConnection) -> None:
    done: list[str] = []

    async def slow(request: web.Request) -> web.Response:
        await passing(0.2)
        done.append(request.method)
        return web.json_response({})

    replay.then(slow)
    writing = asyncio.create_task(api.create(PATH, {}, JsonObject))
    await passing(0.1)
    writing.cancel()
    await asyncio.wait((writing,))
    assert writing.cancelled()
    await api.settle()
    assert done == ["POST"]


async def test_the_failure_of_a_write_is_for_its_caller_alone(replay: Replay, api: ApiConnection) -> None:
    """At its end kopf raises what any task has raised that it did not know of at its start."""
    answered = asyncio.Event()

    async def refuse(request: web.Request) -> web.StreamResponse:
        await answered.wait()
        return await refusal(409, "Conflict")(request)

    replay.then(refuse)
    known = asyncio.all_tasks()
    caller = asyncio.create_task(api.replace(PATH, {}, JsonObject))
    await holds(lambda: bool(replay.requests), seconds=30)
    others = asyncio.all_tasks() - known - {caller}
    answered.set()
    with pytest.raises(errors.Conflict):
        await caller
    ended = [one for one in others if one.done()]
    assert ended
    assert [one.exception() for one in ended] == [None] * len(ended)


async def test_watches_leave_the_connections_of_requests_alone(replay: Replay, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_CONNECTIONS", 2)
    async with ApiConnection(open_access(replay.url)) as api:
        watches = [asyncio.create_task(anext(api.watch(PATH, resource_version="1"))) for _ in range(5)]
        async with asyncio.timeout(30):
            while len(replay.requests) < len(watches):
                await passing(0.01)
            replay.then(answer({"ok": 1}))
            assert await api.get(PATH, JsonObject) == {"ok": 1}
        for one in watches:
            one.cancel()
        await asyncio.wait(watches)


async def test_a_session_for_others_shares_the_pool_and_leaves_it_open(replay: Replay, api: ApiConnection) -> None:
    replay.then(answer({}), answer({"after": 1}))
    async with api.new_session() as session, session.get(replay.url + "/x") as response:
        assert response.status == 200
    assert await api.get(PATH, JsonObject) == {"after": 1}


def freeze(seconds: float) -> None:
    """Nothing of this process moves, as after SIGSTOP."""
    pause(seconds)


@pytest.mark.parametrize("turns", range(2, 5))
async def test_a_write_that_a_frozen_process_has_not_sent_in_time_is_never_sent(turns: int, replay: Replay) -> None:
    """It was frozen between its look at the Lease and the socket, so many turns of the loop after that."""
    left = iter((0.2,))

    def guard() -> float:
        for seconds in left:
            return seconds
        raise PermissionError("lost meanwhile")

    async with ApiConnection(open_access(replay.url), guard) as api:
        writing = asyncio.create_task(api.create(PATH, {}, JsonObject))
        for _ in range(turns):
            await passing(0)
        assert replay.requests == []
        freeze(0.5)
        with pytest.raises(PermissionError):
            await writing
        await passing(0.1)
    assert replay.requests == []


STREAMS: dict[str, Callable[[ApiConnection], AsyncIterator[bytes]]] = {
    "a watch": lambda api: api.watch(PATH, resource_version="1"),
    "a log": lambda api: LogStream(api, f"{PATH}/train-0-0-0", {}).chunks(),
}


@pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS.keys())
async def test_a_stream_through_a_proxy_that_does_not_answer_is_given_up(
    monkeypatch: pytest.MonkeyPatch, stream: Callable[[ApiConnection], AsyncIterator[bytes]]
) -> None:
    for module in ("connection", "pod_logs"):
        monkeypatch.setattr(f"slipway.apiserver.{module}.CONNECT_SECONDS", 0.05)
    over = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await over.wait()
        writer.close()

    async with await asyncio.start_server(silent, "127.0.0.1", 0) as proxy:
        configuration = Configuration(host="https://api.test")
        configuration.proxy = f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}"
        async with ApiConnection(Access(configuration)) as api:
            try:
                with pytest.raises(errors.ConnectionLost):
                    await asyncio.wait_for(anext(stream(api)), ANSWER_SECONDS)
            finally:
                over.set()

"""The informer against a server that does what servers do."""

import asyncio
from contextlib import aclosing
from typing import Any

import pytest
from aiohttp import web

from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import Forbidden, NoSuchPath, NotFound
from slipway.apiserver.watch import Applied, Deleted, Event, Init, InitDone, Watcher
from slipway.core.model.pods import Pod
from tests.apiserver.replay import Replay, answer, broken, listing, refusal, watching
from tests.controller.things import pod_json


def added(name: str, version: int, kind: str = "ADDED", **parts: Any) -> dict[str, Any]:
    return {"type": kind, "object": pod_json(name, version, **parts)}


def bookmark(version: int) -> dict[str, Any]:
    return {"type": "BOOKMARK", "object": {"kind": "Pod", "metadata": {"resourceVersion": str(version)}}}


def gone() -> dict[str, Any]:
    return {"type": "ERROR", "object": {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}}


def said(event: Event[Pod]) -> str:
    match event:
        case Applied(pod):
            return f"+{pod.metadata.name}"
        case Deleted(pod):
            return f"-{pod.metadata.name}"
        case InitDone(version):
            return f"done {version}"
        case Init():
            return "init"


@pytest.fixture
def watcher(api: ApiConnection) -> Watcher[Pod]:
    return Watcher(api, paths.pods(), Pod, label_selector="slipway.dev/job-uid", first_pause=0.001)


async def heard(watcher: Watcher[Pod], count: int = 100, until: str = "") -> list[str]:
    """The next events, as many as asked for, or until one says that."""
    words: list[str] = []
    async with asyncio.timeout(60), aclosing(watcher.events()) as events:
        async for event in events:
            words.append(said(event))
            if len(words) == count or words[-1] == until:
                break
    return words


def versions(replay: Replay) -> list[str | None]:
    """The version each watch was asked to begin at; None for a list."""
    return [request.query.get("resourceVersion") for request in replay.requests]


A, B, C = "train-0-0-0", "train-0-0-1", "train-0-0-2"


async def test_a_list_comes_before_the_watch_and_both_ask_with_the_selector(
    replay: Replay, watcher: Watcher[Pod]
) -> None:
    replay.then(listing("10", pod_json(A)), watching(added(B, 11), added(A, 12, "DELETED")))
    assert await heard(watcher, 5) == ["init", f"+{A}", "done 10", f"+{B}", f"-{A}"]
    assert versions(replay)[:2] == [None, "10"]
    assert {request.query["labelSelector"] for request in replay.requests} == {"slipway.dev/job-uid"}
    assert replay.requests[1].query["allowWatchBookmarks"] == "true"


async def test_a_long_list_is_read_page_by_page(replay: Replay, watcher: Watcher[Pod]) -> None:
    replay.then(listing("10", pod_json(A), next_page="more"), listing("10", pod_json(B)))
    assert await heard(watcher, 4) == ["init", f"+{A}", f"+{B}", "done 10"]
    assert replay.requests[1].query["continue"] == "more"


async def test_a_list_that_expires_between_pages_begins_again(replay: Replay, watcher: Watcher[Pod]) -> None:
    replay.then(listing("10", pod_json(A), next_page="more"), refusal(410, "Expired"), listing("20", pod_json(B)))
    assert await heard(watcher, 5) == ["init", f"+{A}", "init", f"+{B}", "done 20"]


async def test_after_a_cut_the_watch_goes_on_where_it_was(replay: Replay, watcher: Watcher[Pod]) -> None:
    replay.then(listing("10"), watching(added(A, 11), cut=True), watching(added(B, 12)))
    assert await heard(watcher, 4) == ["init", "done 10", f"+{A}", f"+{B}"]
    assert versions(replay)[1:3] == ["10", "11"]


async def test_a_bookmark_moves_the_place_to_go_on_from(replay: Replay, watcher: Watcher[Pod]) -> None:
    replay.then(listing("10"), watching(bookmark(99)), watching(added(A, 100)))
    assert await heard(watcher, 3) == ["init", "done 10", f"+{A}"]
    assert versions(replay)[2] == "99"


@pytest.mark.parametrize("how", ["in the stream", "at once"])
async def test_a_version_that_is_too_old_leads_to_a_new_list(replay: Replay, watcher: Watcher[Pod], how: str) -> None:
    too_old = watching(gone()) if how == "in the stream" else refusal(410, "Gone")
    replay.then(listing("10", pod_json(A)), too_old, listing("20", pod_json(B)))
    assert await heard(watcher, 6) == ["init", f"+{A}", "done 10", "init", f"+{B}", "done 20"]


GARBLED = {
    "no JSON": b"{not json\n",
    "an object without a version": b'{"type":"ADDED","object":{"metadata":{}}}\n',
    "an event of another type": b'{"type":"NEW"}\n',
    "JSON in Latin-1": b'{"type":"ERROR","object":{"message":"r\xe9essayez"}}\n',
    "JSON that is nested too deeply": b'{"type":"ADDED","object":' + b'{"of":' * 9999 + b"1" + b"}" * 10_000 + b"\n",
}


@pytest.mark.parametrize("line", GARBLED.values(), ids=GARBLED)
async def test_a_garbled_line_leads_to_a_new_list(replay: Replay, watcher: Watcher[Pod], line: bytes) -> None:
    replay.then(listing("10"), watching(added(A, 11), line), listing("20", pod_json(A, 11)))
    assert await heard(watcher, 6) == ["init", "done 10", f"+{A}", "init", f"+{A}", "done 20"]


async def test_lines_may_arrive_in_pieces(replay: Replay, watcher: Watcher[Pod]) -> None:
    line = b'{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"11"}}}\n'
    replay.then(listing("10"), watching(line[:20], line[20:50], line[50:] + line[:5], line[5:]))
    assert await heard(watcher, 4) == ["init", "done 10", "+a", "+a"]


async def test_an_object_larger_than_any_buffer_is_read(replay: Replay, watcher: Watcher[Pod]) -> None:
    big = added(A, 11)
    big["object"]["metadata"]["annotations"] = {"big": "x" * 900_000}
    replay.then(listing("10"), watching(big))
    assert await heard(watcher, 3) == ["init", "done 10", f"+{A}"]


async def test_repeated_events_are_passed_on_for_the_store_to_ignore(replay: Replay, watcher: Watcher[Pod]) -> None:
    replay.then(listing("10"), watching(added(A, 11), added(A, 11)))
    assert await heard(watcher, 4) == ["init", "done 10", f"+{A}", f"+{A}"]


@pytest.mark.parametrize(
    "fault", [broken(), refusal(500, "InternalError"), refusal(429, "TooManyRequests"), answer("no list")]
)
async def test_a_server_in_trouble_is_asked_again(replay: Replay, watcher: Watcher[Pod], fault: Any) -> None:
    replay.then(fault, listing("10", pod_json(A)))
    assert (await heard(watcher, until="done 10"))[-3:] == ["init", f"+{A}", "done 10"]


@pytest.mark.parametrize(
    ("status", "reason", "error"), [(403, "Forbidden", Forbidden), (404, "NotFound", NotFound), (404, "", NoSuchPath)]
)
async def test_a_first_list_that_is_refused_is_the_callers_business(
    replay: Replay, watcher: Watcher[Pod], status: int, reason: str, error: type[Exception]
) -> None:
    replay.then(refusal(status, reason, "may not list pods"))
    with pytest.raises(error, match="may not list pods"):
        await heard(watcher, 3)


async def test_a_refusal_later_on_is_waited_out(replay: Replay, watcher: Watcher[Pod]) -> None:
    replay.then(listing("10"), refusal(403, "Forbidden"), watching(added(A, 11)))
    assert (await heard(watcher, 3))[-1] == f"+{A}"


@pytest.mark.parametrize(
    ("refused", "asked"),
    [
        ([refusal(403, "Forbidden", "may not watch pods")], [None, "10", None]),
        ([watching(gone()), refusal(403, "Forbidden", "may not list pods")], [None, "10", None, None]),
    ],
    ids=["a watch", "a list"],
)
async def test_a_refusal_later_on_is_raised_for_those_who_want_to_know(
    replay: Replay, api: ApiConnection, refused: list[Any], asked: list[str | None]
) -> None:
    watcher = Watcher(api, paths.pods(), Pod, first_pause=0.001, late_refusals=True)
    replay.then(listing("10"), *refused)
    with pytest.raises(Forbidden, match="may not"):
        await heard(watcher)
    replay.then(listing("20", pod_json(A)))
    assert await heard(watcher, 3) == ["init", f"+{A}", "done 20"]
    assert versions(replay) == asked


async def test_a_silent_watch_is_given_up(
    replay: Replay, watcher: Watcher[Pod], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slipway.apiserver.connection.SILENCE_SECONDS", 0.05)

    async def silent(_: Any) -> Any:
        await replay.until_closed()

    replay.then(listing("10"), silent)
    # A watch that is slow to speak on a busy machine is given up as well.
    replay.otherwise = watching(added(A, 11))
    assert (await heard(watcher, 3))[-1] == f"+{A}"


async def test_a_watch_that_the_server_has_not_ended_in_time_is_given_up(
    replay: Replay, api: ApiConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("slipway.apiserver.connection._LATE_SECONDS", 0.05)

    async def silent(request: Any) -> Any:
        assert request.query["timeoutSeconds"] == "1"
        await replay.until_closed()

    replay.then(listing("10"), silent)
    replay.otherwise = watching(added(A, 11))
    watcher = Watcher(api, paths.pods(), Pod, first_pause=0.001, seconds=1)
    assert (await heard(watcher, 3))[-1] == f"+{A}"


async def test_an_event_is_not_skipped_when_its_reader_stops_in_the_middle(
    replay: Replay, watcher: Watcher[Pod]
) -> None:
    replay.then(listing("10"), watching(added(A, 11), added(B, 12)), watching(added(B, 12)))
    assert (await heard(watcher, 3))[-1] == f"+{A}"
    assert watcher._version in ("10", "11")


SHORT_LIVES = {
    "expired at once": (refusal(410, "Gone"),),
    "expired in the stream": (watching(gone()),),
    "expired after an event": (watching(added(A, 11), gone()),),
    "garbled after an event": (watching(added(A, 11), b"{not json\n"),),
}


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How long the watcher has paused, each time, in milliseconds; nobody waits for it."""
    found: list[int] = []
    sleep = asyncio.sleep  # noqa: TID251 - it is replaced and still sleeps

    async def noted(seconds: float) -> None:
        if seconds:
            found.append(round(seconds * 1000))
        await sleep(0)

    monkeypatch.setattr("slipway.apiserver.watch.asyncio.sleep", noted)
    monkeypatch.setattr("slipway.apiserver.watch.random.uniform", lambda *_: 1.0)
    return found


ASKED_TO_WAIT = {
    "a moment": ("10", 10_000),
    "an hour, of which it waits as long as it ever does": ("3600", 30_000),
    "no number of seconds": ("Fri, 27 Nov 2026 16:00:00 GMT", 1),
    "a digit that is no number": ("\u00b2", 1),
}


@pytest.mark.parametrize(("said", "paused"), ASKED_TO_WAIT.values(), ids=ASKED_TO_WAIT)
async def test_a_server_that_asks_for_a_pause_has_one(
    replay: Replay, watcher: Watcher[Pod], pauses: list[int], said: str, paused: int
) -> None:
    replay.then(listing("10"), answer("maintenance", 503, Retry_After=said), watching(added(A, 11)))
    assert (await heard(watcher, 3))[-1] == f"+{A}"
    assert pauses == [paused]


@pytest.mark.parametrize("watch", SHORT_LIVES.values(), ids=SHORT_LIVES.keys())
async def test_lists_whose_watches_die_at_once_come_ever_more_seldom(
    replay: Replay, watcher: Watcher[Pod], pauses: list[int], watch: Any
) -> None:
    replay.then(*(listing("10"), *watch) * 5, listing("99"))
    await heard(watcher, until="done 99")
    assert pauses == [1, 2, 4, 8, 16]


async def test_a_watch_that_only_says_errors_is_taken_up_ever_more_seldom_and_is_no_sign_of_life(
    replay: Replay, watcher: Watcher[Pod], pauses: list[int]
) -> None:
    error = {"kind": "Status", "code": 500, "reason": "InternalError", "message": "the conversion webhook failed"}
    last_heard: list[float] = []

    async def failing(request: web.Request) -> web.StreamResponse:
        last_heard.append(watcher.heard)
        return await watching({"type": "ERROR", "object": error})(request)

    replay.then(listing("10"), *(failing,) * 5, watching(added(A, 11)))
    assert await heard(watcher, 3) == ["init", "done 10", f"+{A}"]
    assert pauses == [1, 2, 4, 8, 16]
    assert len(set(last_heard)) == 1


async def test_a_watch_that_lived_for_a_while_makes_the_next_pause_short_again(
    replay: Replay, watcher: Watcher[Pod], monkeypatch: pytest.MonkeyPatch
) -> None:
    replay.then(*(listing("10"), watching(gone())) * 4, listing("10"), watching(gone()), listing("99"))
    async with asyncio.timeout(60), aclosing(watcher.events()) as events:
        async for event in events:
            if len(replay.requests) == 8:
                monkeypatch.setattr("slipway.apiserver.watch._PROOF_OF_HEALTH", -1.0)
            if isinstance(event, InitDone) and event.resource_version == "99":
                break
    assert watcher._short_lives == 0

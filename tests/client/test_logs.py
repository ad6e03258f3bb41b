"""Following the logs of a job, against kubelets whose streams break, end and disappear."""

import asyncio
import tracemalloc
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from slipway.api.places import HEAD, pod_name, worker
from slipway.client import errors
from slipway.client.cluster_client import AsyncClient
from slipway.client.logs import Item, Line, Note, Opening, Selection, Separator, follow, host_log, job_logs
from slipway.client.logs.items import SECOND
from tests.client.kubelet import PODS, START, Log, Server, at, joined, numbered, refused
from tests.waiting import passing

FOLLOW = Selection(follow=True)
NOON = datetime(2027, 1, 15, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_log, "_PAUSES", (0.01,) * 5)
    monkeypatch.setattr(host_log, "ROUND_SECONDS", 0.05)
    monkeypatch.setattr(host_log, "_LONGEST_ROUND_SECONDS", 0.1)
    monkeypatch.setattr(host_log, "_CUT_SECONDS", 0.1)


async def read(client: AsyncClient, selection: Selection = FOLLOW, name: str = "train") -> list[Item]:
    return [item async for item in follow(client, name, selection)]


def lines(items: list[Item]) -> list[Line]:
    return [item for item in items if isinstance(item, Line)]


def said(items: list[Item]) -> str:
    return "\n".join(item.message for item in items if isinstance(item, Note | Separator))


def of(items: list[Item], slice_index: int, host: int) -> bytes:
    return joined(line for line in lines(items) if line.place == worker(slice_index, host))


Story = Callable[[Server], Awaitable[None]]


async def told(server: Server, folder: Path, story: Story, selection: Selection = FOLLOW) -> list[Item]:
    """What a follower reads while something happens."""
    async with server.client(folder) as client:
        reading = asyncio.create_task(read(client, selection))
        await story(server)
        return await reading


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"regex": "a(b"}, "position 1"),
        ({"since": NOON, "until": NOON - timedelta(seconds=1)}, "is later than until"),
        ({"since": datetime(2027, 1, 1)}, "no time zone"),
        ({"role": "driver"}, "head, worker"),
        ({"stream": "stdlog"}, "combined, stdout, stderr"),
        ({"attempt": "last"}, "a number, or all"),
        ({"attempt": -1}, "at least 0"),
        ({"tail": -1}, "at least 0"),
        ({"invert": True}, "needs a regex"),
        ({"role": "head", "slices": {0}}, "neither slices nor hosts"),
        ({"follow": True, "by_time": True}, "by_time"),
        ({"follow": True, "failed": True}, "failed"),
        ({"follow": True, "tail": 1, "stream": "stderr"}, "both tail and stream stderr"),
    ],
)
@pytest.mark.row("B-40")
def test_what_cannot_be_meant_is_refused(choice: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Selection(**choice)


@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ({"slices": {2}}, "slice 2: SliceJob train has slices 0 to 1"),
        ({"hosts": {3, 4}}, "host 4: SliceJob train has hosts 0 to 3"),
        ({"hosts": {-1}}, "host -1: SliceJob train has hosts 0 to 3"),
        ({"role": "head"}, "no Ray head"),
        ({"attempt": 1}, "attempt 1: there are attempts 0 to 0"),
        pytest.param({"stream": "stderr"}, "stream stderr: .* combined is allowed", id="T-31"),
    ],
)
@pytest.mark.row("B-40")
async def test_what_the_job_does_not_have_is_refused_before_its_pods_are_asked_about(
    choice: dict[str, Any], words: str, tmp_path: Path
) -> None:
    server = Server(2, 4)
    await server.begin(0)
    async with server.client(tmp_path) as client:
        with pytest.raises(ValueError, match=words):
            await read(client, Selection(**choice))
    assert not [path for path in server.asked if path.startswith(PODS)]


@pytest.mark.row("B-41")
async def test_an_unknown_job_is_not_found(tmp_path: Path) -> None:
    async with Server().client(tmp_path) as client:
        for selection in (Selection(), FOLLOW):
            with pytest.raises(errors.NotFound, match="there is no SliceJob eval"):
                await read(client, selection, "eval")


async def test_a_job_that_has_not_started_has_no_log(tmp_path: Path) -> None:
    server = Server()
    async with server.client(tmp_path) as client:
        with pytest.raises(errors.NotStarted, match="no attempt has begun"):
            await read(client, Selection())
        await server.begin(0, pods=False)
        await server.start(0, worker(0, 0), Log(started=False))
        with pytest.raises(errors.NotStarted, match="no host of attempt 0 has started"):
            await read(client, Selection())


async def test_a_job_that_will_never_start_is_not_waited_for(tmp_path: Path) -> None:
    server = Server()
    server.job["status"] = {"phase": "Cancelled", "result": {"reason": "Cancelled", "message": "it was cancelled"}}
    async with server.client(tmp_path) as client:
        with pytest.raises(errors.NotStarted, match="it was cancelled"):
            await read(client)


@pytest.mark.row("B-63")
async def test_bytes_are_exact(tmp_path: Path) -> None:
    written = [b"\xff\x00\r10%\r20% \t\n", b"\n", b"  \n", at(START).encode() + b" \n", b"x" * 700_000 + b"\n", b"last"]
    server = Server()
    [log] = await server.begin(0)
    log.write(*written)
    await server.finish(0)
    async with server.client(tmp_path) as client:
        assert joined(lines(await read(client, Selection()))) == b"".join(written)
        assert joined(lines(await read(client))) == b"".join(written)


async def test_a_job_that_is_over_before_the_watch_has_shown_its_pods_is_read(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await passing(0.05)
        server.behind.add(PODS)
        for log in await server.begin(0):
            log.write(b"done\n")
        await server.finish(0)

    items = await told(Server(1, 2), tmp_path, story)
    assert [of(items, 0, host) for host in (0, 1)] == [b"done\n"] * 2


async def test_what_is_written_is_followed_to_the_end_of_the_job(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        await passing(0.05)
        await server.begin(0, pods=False)
        first = await server.start(0, worker(0, 0), Log(started=False))
        second = await server.start(0, worker(0, 1))
        second.write(b"b0\n")
        first.started = True
        await server.start(0, worker(0, 0))
        for index in range(3):
            first.write(f"a{index}\n".encode())
            await passing(0.01)
        first.write(b"no newline")
        await server.finish(0)

    items = await told(Server(1, 2), tmp_path, story)
    assert items[0] == Opening(0, (worker(0, 0), worker(0, 1)))
    assert of(items, 0, 0) == b"a0\na1\na2\nno newline"
    assert of(items, 0, 1) == b"b0\n"
    assert said(items) == ""


@pytest.mark.parametrize("cuts", [[0], [5], [40], [45, 50, 90, 0, 400], [33, 33, 71, 109, 147, 185]])
async def test_streams_that_break_lose_and_repeat_nothing(cuts: list[int], tmp_path: Path) -> None:
    server = Server()

    async def story(server: Server) -> None:
        [log] = await server.begin(0)
        log.breaks = list(cuts)
        for line in numbered(40):
            log.write(line)
            await passing(0.002)
        await server.finish(0)

    items = await told(server, tmp_path, story)
    assert joined(lines(items)) == b"".join(numbered(40))
    assert said(items) in (
        "",
        "the log of host 0 of slice 0 in attempt 0 cannot be read: Connection closed; trying again",
    )


async def test_a_read_that_breaks_is_taken_up_again(tmp_path: Path) -> None:
    server = Server()
    [log] = await server.begin(0)
    log.write(*numbered(50))
    log.breaks, log.answers = [700], [refused(503, "busy")]
    async with server.client(tmp_path) as client:
        assert joined(lines(await read(client, Selection()))) == b"".join(numbered(50))
    assert [one.get("sinceTime") for one in log.asked] == [None, None, "2023-11-14T22:13:19Z"]


async def test_a_restart_is_followed(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        for number in range(3):
            for log in await server.begin(number):
                log.write(f"attempt {number}\n".encode())
                await log.was_asked()
            await passing(0.1)
            await server.end(number)
            if number < 2:
                await server.judge("Restarting", cause="preemption", message=f"node {number} went away")
                await passing(0.05)
                await server.remove(number)
        await server.judge("Succeeded")

    items = await told(Server(1, 2), tmp_path, story)
    shown = [item.attempt if isinstance(item, Line) else item for item in items if not isinstance(item, Opening)]
    first = Separator(0, "attempt 0 ended: preemption: node 0 went away")
    second = Separator(1, "attempt 1 ended: preemption: node 1 went away")
    assert shown == [0, 0, first, 1, 1, second, 2, 2]


async def test_a_lost_node_does_not_hold_up_the_next_attempt(tmp_path: Path) -> None:
    """Its stream stays open and silent, and its pod is removed by force."""

    async def story(server: Server) -> None:
        [log] = await server.begin(0)
        log.write(b"before\n")
        await log.was_asked()
        await passing(0.1)
        await server.judge("Restarting", cause="preemption", message="the node is lost")
        await server.remove(0)
        [log] = await server.begin(1)
        log.write(b"after\n")
        await server.finish(1)

    items = await told(Server(), tmp_path, story)
    assert joined(lines(items)) == b"before\nafter\n"
    assert "its last lines may be missing" in said(items)


async def test_a_job_that_is_deleted_ends_the_log(tmp_path: Path) -> None:
    async def story(server: Server) -> None:
        [log] = await server.begin(0)
        log.write(b"x\n")
        await log.was_asked()
        await passing(0.1)
        await server.end(0)
        await server.remove(0)
        await server.tell("DELETED", "/apis/slipway.dev/v1alpha1/namespaces/x/slicejobs", server.job)

    items = await told(Server(), tmp_path, story)
    assert joined(lines(items)) == b"x\n"
    assert said(items) == "SliceJob train was deleted"


@pytest.mark.parametrize("follow", [False, True])
async def test_512_hosts_are_read_over_64_streams(
    follow: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_log, "ROUND_SECONDS", 1.0)
    monkeypatch.setattr(host_log, "_LONGEST_ROUND_SECONDS", 1.0)
    server = Server(4, 128)
    logs = await server.begin(0)
    for index, log in enumerate(logs):
        log.write(*numbered(5, f"host {index}"))
    async with server.client(tmp_path) as client:
        if not follow:
            items = await read(client, Selection())
        else:
            reading = asyncio.create_task(read(client))
            await passing(1)
            for index, log in enumerate(logs):
                log.write(f"host {index} later\n".encode())
            await server.finish(0)
            items = await reading
    for index, place in enumerate(server.places):
        later = f"host {index} later\n".encode() if follow else b""
        assert of(items, place.slice, place.host) == b"".join(numbered(5, f"host {index}")) + later
    assert server.most_open <= 64
    assert "follow" not in {name for log in logs for query in log.asked for name in query}
    assert said(items) == ""


@pytest.mark.row("B-63")
async def test_100_megabytes_stream_through(tmp_path: Path) -> None:
    server, count = Server(), 1000
    [log] = await server.begin(0)
    line = b"x" * 99_999 + b"\n"
    log.lines = [(START + index, line) for index in range(count)]
    log.sent = lambda query, since: b""  # type: ignore[method-assign]

    async def stream(request: web.Request, log: Log) -> web.StreamResponse:
        answer = web.StreamResponse()
        await answer.prepare(request)
        for moment, raw in log.lines:
            await answer.write(at(moment).encode() + b" " + raw)
        return answer

    server.stream = stream  # type: ignore[method-assign]
    await server.end(0)
    async with server.client(tmp_path) as client:
        size = 0
        tracemalloc.start()
        try:
            async with aclosing(follow(client, "train", Selection())) as items:
                async for item in items:
                    size += len(item.raw) if isinstance(item, Line) else 0
            _, most = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert size == count * len(line)
    assert most < 10_000_000


SOME = [b"one\n", b"two\n", b"\n", b"three\n", b"four"]


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, SOME),
        ({"tail": 2}, SOME[3:]),
        ({"tail": 0}, []),
        ({"regex": "o"}, [b"one\n", b"two\n", b"four"]),
        ({"regex": "^t"}, [b"two\n", b"three\n"]),
        ({"regex": "e$"}, [b"one\n", b"three\n"]),
        ({"regex": "o", "invert": True}, [b"\n", b"three\n"]),
        ({"history": False}, []),
        ({"tail": 3, "regex": "o"}, [b"four"]),
        ({"since": 1}, SOME[1:]),
        ({"until": 3}, SOME[:3]),
        ({"since": 1, "until": 3}, SOME[1:3]),
        ({"until": 4, "tail": 2}, SOME[2:4]),
        ({"since": 2, "until": 2}, []),
    ],
)
async def test_lines_are_picked(choice: dict[str, Any], expected: list[bytes], tmp_path: Path) -> None:
    """The lines are a millisecond apart; since is inclusive, until is not."""
    moments = {
        name: datetime.fromtimestamp(START // 10**9, UTC) + timedelta(milliseconds=choice[name])
        for name in ("since", "until")
        if name in choice
    }
    server = Server()
    [log] = await server.begin(0)
    log.write(*SOME)
    await server.finish(0)
    async with server.client(tmp_path) as client:
        assert [line.raw for line in lines(await read(client, Selection(**choice | moments)))] == expected


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        ({}, "head 0/0 0/1 1/0 1/1"),
        ({"role": "head"}, "head"),
        ({"role": "worker"}, "0/0 0/1 1/0 1/1"),
        ({"slices": {1}}, "1/0 1/1"),
        ({"hosts": {1}}, "0/1 1/1"),
        ({"slices": {0}, "hosts": {0, 1}}, "0/0 0/1"),
    ],
)
async def test_hosts_are_picked(choice: dict[str, Any], expected: str, tmp_path: Path) -> None:
    server = Server(2, 2, ray=True)
    for place, log in zip(server.places, await server.begin(0), strict=True):
        log.write((f"{place.slice}/{place.host}" if place != HEAD else "head").encode())
    async with server.client(tmp_path) as client:
        found = lines(await read(client, Selection(**choice)))
    assert " ".join(line.text for line in found) == expected


@pytest.mark.parametrize("started", [[], [b"old 1\n", b"old 2\n"]])
async def test_without_history_only_new_lines_come(started: list[bytes], tmp_path: Path) -> None:
    server = Server()
    [log] = await server.begin(0)
    log.write(*started)
    log.breaks = [1000, 5]

    async def story(server: Server) -> None:
        await log.was_asked(2)
        log.write(b"new\n")
        await passing(0.1)
        await server.finish(0)

    items = await told(server, tmp_path, story, Selection(follow=True, history=False))
    assert joined(lines(items)) == b"new\n"
    assert said(items) == ""


@pytest.mark.parametrize(("tail", "started"), [(0, [b"old\n"]), (0, []), (2, [])])
async def test_new_lines_of_hosts_that_are_read_in_turns_are_no_part_of_the_last_ones(
    tail: int, started: list[bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_logs, "STREAMS", 1)
    server = Server(1, 2)
    log, _ = await server.begin(0)
    log.write(*started)

    async def story(server: Server) -> None:
        await log.was_asked(2)
        log.write(*numbered(5))
        await log.was_asked(4)
        await server.finish(0)

    items = await told(server, tmp_path, story, Selection(follow=True, tail=tail))
    assert of(items, 0, 0) == b"".join(numbered(5))


async def test_new_lines_come_though_the_stream_that_left_out_old_ones_breaks(tmp_path: Path) -> None:
    server = Server()
    [log] = await server.begin(0)
    log.write(b"old\n")
    log.breaks = [0, 0]

    async def story(server: Server) -> None:
        async with log.news:
            await log.news.wait_for(lambda: any("follow" in query for query in log.asked))
        await passing(0.05)
        log.write(*numbered(5))
        await passing(0.05)
        await server.finish(0)

    items = await told(server, tmp_path, story, Selection(follow=True, tail=0))
    assert of(items, 0, 0) == b"".join(numbered(5))


FIRST_FAULTS: dict[str, dict[str, Any]] = {
    "it does not answer": {"answers": [refused(500, "dial tcp 10.0.0.1:10250: i/o timeout", "InternalError")]},
    "its stream breaks at once": {"breaks": [0]},
    "its stream breaks within the last line": {"breaks": [35]},
}


@pytest.mark.parametrize("faults", FIRST_FAULTS.values(), ids=FIRST_FAULTS)
async def test_old_lines_are_left_out_though_the_kubelet_fails_at_first(faults: dict[str, Any], tmp_path: Path) -> None:
    server = Server()
    [log] = await server.begin(0)
    log.write(b"old 1\n", b"old 2\n")
    for name, found in faults.items():
        setattr(log, name, list(found))

    async def story(server: Server) -> None:
        async with log.news:
            await log.news.wait_for(lambda: any("follow" in query for query in log.asked))
        log.write(b"new\n")
        await server.finish(0)

    items = await told(server, tmp_path, story, Selection(follow=True, history=False))
    assert joined(lines(items)) == b"new\n"


async def test_lines_of_all_hosts_are_sorted_by_time(tmp_path: Path) -> None:
    server = Server(1, 3)
    for index, log in enumerate(await server.begin(0)):
        log.lines = [
            (START + (3 * number + index) * 10**8, f"{3 * number + index} ".encode() + b"\n") for number in range(9)
        ]
    async with server.client(tmp_path) as client:
        found = lines(await read(client, Selection(by_time=True)))
    assert [int(line.raw) for line in found] == list(range(27))


async def restarted(server: Server) -> None:
    """Two attempts; host 1 has ended the first."""
    for log in await server.begin(0):
        log.write(b"zero\n")
    await server.end(0)
    root = {"slice": 0, "host": 1, "pod": "train-0-0-1", "log": "last\nwords\n", "time": at(START)}
    await server.judge("Restarting", cause="failure", message="host 1 exited with 1", root=root)
    for log in await server.begin(1):
        log.write(b"one\n")


async def test_attempts_are_picked(tmp_path: Path) -> None:
    server = Server(1, 2)
    await restarted(server)
    async with server.client(tmp_path) as client:
        assert [line.text for line in lines(await read(client, Selection()))] == ["one\n"] * 2
        assert [line.text for line in lines(await read(client, Selection(attempt=0)))] == ["zero\n"] * 2
        everything = await read(client, Selection(attempt="all"))
        assert [line.attempt for line in lines(everything)] == [0, 0, 1, 1]
        assert said(everything) == "attempt 0 ended: failure: host 1 exited with 1"
        failed = await read(client, Selection(failed=True))
        assert failed[0] == Opening(0, (worker(0, 1),))
        assert [(line.pod, line.text) for line in lines(failed)] == [("train-0-0-1", "zero\n")]


async def test_what_the_status_keeps_stands_in_for_a_log_that_is_gone(tmp_path: Path) -> None:
    server = Server(1, 2)
    await restarted(server)
    await server.remove(0)
    async with server.client(tmp_path) as client:
        items = await read(client, Selection(attempt=0))
        assert [line.text for line in lines(items)] == ["last\n", "words\n"]
        assert "the job's status keeps" in said(items)
        assert "host 0 of slice 0 in attempt 0 are gone" in said(items)
        assert [line.text for line in lines(await read(client, Selection(failed=True, tail=1)))] == ["words\n"]
        assert lines(await read(client, Selection(failed=True, tail=0))) == []
        with pytest.raises(errors.LogsPurged, match="attempt 0"):
            await read(client, Selection(attempt=0, hosts=frozenset({0})))


def kept_from_starting(server: Server, name: str) -> Any:
    """The pod once its init container `fetch` has failed, and its sidecar `proxy` was stopped for that."""
    pod = server.pods[name]
    ends = {"proxy": (143, at(START + 2 * SECOND)), "fetch": (3, at(START + SECOND))}
    own = pod["status"]["containerStatuses"][0] | {"state": {"waiting": {"reason": "PodInitializing"}}}
    inits = [
        {"name": one, "state": {"terminated": {"startedAt": at(START), "finishedAt": end, "exitCode": code}}}
        for one, (code, end) in ends.items()
    ]
    pod["status"] = {"phase": "Failed", "containerStatuses": [own], "initContainerStatuses": inits}
    return pod


@pytest.mark.parametrize("selection", [Selection(), FOLLOW, Selection(tail=1)], ids=["at once", "followed", "its end"])
@pytest.mark.parametrize("ray", [False, True], ids=["a worker", "a Ray head"])
async def test_the_log_of_an_init_container_that_failed_stands_in_for_that_of_the_program(
    ray: bool, selection: Selection, tmp_path: Path
) -> None:
    server = Server(ray=ray)
    place = server.places[0]
    name = pod_name("train", 0, place)
    await server.begin(0, "Starting", pods=False)
    log = await server.start(0, place, Log(started=False))
    log.write(b"nothing to fetch\n")

    async def story(server: Server) -> None:
        await server.tell("MODIFIED", PODS, kept_from_starting(server, name))
        log.ended = True
        await server.judge("Failed", cause="failure", message="init container fetch exited with code 3")

    if selection.follow:
        items = await told(server, tmp_path, story, selection)
    else:
        await story(server)
        async with server.client(tmp_path) as client:
            items = await read(client, selection)
    assert [(line.place, line.text) for line in lines(items)] == [(place, "nothing to fetch\n")]
    assert f"{place.words} in attempt 0 never started: this is the log of init container fetch" in said(items)
    assert {one["container"] for one in log.asked} == {"fetch"}


@pytest.mark.parametrize(
    "answer",
    [
        web.Response(text="unable to retrieve container logs for containerd://abc"),
        web.Response(text='failed to try resolving symlinks in path "/var/log/pods/x": no such file or directory'),
        refused(400, 'container "worker" in pod "train-0-0-1" is not available'),
        refused(404, 'pods "train-0-0-1" not found', "NotFound"),
    ],
)
async def test_a_kubelet_that_has_the_log_no_more_writes_no_lines(answer: web.Response, tmp_path: Path) -> None:
    server = Server(1, 2)
    await restarted(server)
    server.logs["train-0-0-1"].forever = answer
    server.logs["train-0-0-0"].forever = answer
    async with server.client(tmp_path) as client:
        items = await read(client, Selection(attempt=0))
    assert [line.text for line in lines(items)] == ["last\n", "words\n"]
    assert "the log of host 0 of slice 0 in attempt 0 is gone: " in said(items)


async def test_a_node_that_does_not_answer_is_told_of(tmp_path: Path) -> None:
    server = Server(1, 2)
    away, there = await server.begin(0)
    away.forever = refused(500, "dial tcp 10.0.0.1:10250: connect: no route to host", "InternalError")
    there.write(b"here\n")
    async with server.client(tmp_path) as client:
        items = await read(client, Selection())
    assert joined(lines(items)) == b"here\n"
    assert "cannot be read: dial tcp 10.0.0.1:10250" in said(items)


async def test_whoever_may_not_read_logs_is_told(tmp_path: Path) -> None:
    server = Server(1, 2)
    for log in await server.begin(0):
        log.forever = refused(403, 'pods "x" is forbidden: cannot get resource "pods/log"', "Forbidden")
    async with server.client(tmp_path) as client:
        for selection in (Selection(), FOLLOW):
            with pytest.raises(errors.NotAllowed, match="forbidden"):
                await read(client, selection)


async def test_lines_that_the_kubelet_has_rotated_away_are_told_of(tmp_path: Path) -> None:
    server = Server()
    [log] = await server.begin(0)
    log.lines = [(START + 61 * 10**9, b"late\n")]
    async with server.client(tmp_path) as client:
        assert "may have rotated earlier lines away" in said(await read(client, Selection()))
        assert said(await read(client, Selection(tail=1))) == ""


async def test_lines_that_are_rotated_away_between_two_streams_are_told_of(tmp_path: Path) -> None:
    server = Server()
    [log] = await server.begin(0)
    log.write(*numbered(3))

    async def story(server: Server) -> None:
        await log.was_asked()
        await passing(0.1)
        log.answers = [refused(503, "busy")]
        log.lines = [(START + 5 * 10**9, b"new\n")]
        log.ended = True
        log.changed()
        log.ended = False
        await passing(0.1)
        await server.finish(0)

    items = await told(server, tmp_path, story)
    assert joined(lines(items)) == b"".join(numbered(3)) + b"new\n"
    assert "between 2023-11-14T22:13:20.002Z and 2023-11-14T22:13:25.000Z may be missing" in said(items)


async def test_two_readers_do_not_disturb_each_other(tmp_path: Path) -> None:
    server = Server()
    [log] = await server.begin(0)
    log.write(*numbered(3))
    async with server.client(tmp_path) as client:
        one, two = follow(client, "train"), follow(client, "train")
        async with aclosing(one), aclosing(two):
            pairs = [(await anext(one), await anext(two)) for _ in range(4)]
    assert all(first == second for first, second in pairs)

"""One stream of one log for each job that asks, over whatever breaks it."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

import pytest

from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.watch import Applied, Deleted
from slipway.controller.seen import progress as module
from slipway.controller.seen.cache import Cache
from slipway.controller.seen.progress import Lines, ProgressReader
from slipway.controller.seen.progress_log import LINE_BYTES
from slipway.core.model.job import Key, Settings
from slipway.core.planner.contract.snapshot import Printed
from slipway.core.planner.status.progress import LOGS_FORBIDDEN, STEPS_AFTER, TOO_MANY_LOGS
from tests.apiserver.replay import open_access
from tests.client.kubelet import Log, Server, at, refused
from tests.controller.things import Time, job_json, pod
from tests.waiting import holds, passing

PATTERN = r"step (?P<step>\d+)|saved checkpoint (?P<checkpoint>\d+)"
NOW = datetime(2026, 11, 24, tzinfo=UTC)


@dataclass
class Bench:
    """A reader, the server that it reads from, and the cache with what it knows."""

    server: Server
    cache: Cache
    reader: ProgressReader
    time: Time
    woken: list[tuple[Key, float]] = field(default_factory=list)
    _version: int = 1

    def job(self, name: str = "train", attempt: int = 0, *, uid: str = "", **status: Any) -> Key:
        """The job is in that attempt; `progress` is what it asks for, `shown` what its status has of it."""
        self._version += 1
        asked, shown = status.pop("progress", {"pattern": PATTERN}), status.pop("shown", None)
        status |= {"progress": shown} if shown is not None else {}
        spec = {"image": "busybox"} | ({"progress": asked} if asked is not None else {})
        record = {"number": attempt, "startTime": at(0)} | status.pop("record", {})
        body = job_json(self._version, self._version, uid=uid or f"uid-{name}", name=name, spec=spec,
                        status={"phase": "Running", "attempt": attempt, "attempts": [record], **status})  # fmt: skip
        body["metadata"]["namespace"] = "x"
        self.cache.jobs.upsert(body)
        return ("x", name)

    def pod(self, name: str = "train-0-0-0", **parts: Any) -> Log:
        """Its pod runs, unless `parts` say otherwise."""
        self._version += 1
        job = name.rsplit("-", 3)[0]
        seen = pod(name, self._version, namespace="x", job=job, job_uid=f"uid-{job}", **{"runs": True, **parts})
        self.cache.pods.observe(Applied(seen), "")
        return self.server.logs.setdefault(name, Log())

    def over(self, name: str = "train-0-0-0") -> None:
        """Its container has ended, and the log with it."""
        self.pod(name, phase="Failed")
        self.server.logs[name].ended = True
        self.server.logs[name].changed()

    def printed(self, name: str = "train") -> Printed:
        snapshot = self.cache.snapshot(("x", name))
        assert snapshot is not None
        return snapshot.printed or Printed(-1)

    def step(self, name: str = "train") -> int | None:
        progress = self.printed(name).progress
        return progress.step if progress is not None else None

    async def until_closed(self) -> None:
        """No stream is open; the server notices that when it writes."""
        async with asyncio.timeout(10):
            while self.server.open:
                for log in self.server.logs.values():
                    log.write(b"x\n")
                await passing(0.005)

    @property
    def asked(self) -> list[str]:
        """The logs that were asked for, by pod."""
        return [path.split("/")[-2] for path in self.server.asked]


until = partial(holds, seconds=60)


@asynccontextmanager
async def benched() -> AsyncIterator[Bench]:
    server, time = Server(), Time()
    cache = Cache(Settings(), lambda: NOW, time)
    woken: list[tuple[Key, float]] = []
    async with server.serve() as url, ApiConnection(open_access(url)) as api:
        reader = ProgressReader(api, cache, lambda key, when: woken.append((key, when)), time)
        try:
            yield Bench(server, cache, reader, time, woken)
        finally:
            await reader.stop()


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    monkeypatch.setattr(module, "FIRST_PAUSE", 0.01)
    monkeypatch.setattr(module, "FORBIDDEN_SECONDS", 0.01)
    async with benched() as made:
        yield made


async def test_it_follows_the_log_of_rank_0(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    bench.pod("train-0-0-1")
    bench.reader.follow(key)
    await log.was_asked()
    assert log.asked == [{"container": "worker", "follow": "true", "timestamps": "true"}]
    log.write(b"starting\n", b"step 1\n", b"saved checkpoint 1\n")
    await until(lambda: bench.printed().progress and bench.printed().progress.checkpoint == 1)
    log.write(b"step 2\n")
    await until(lambda: bench.step() == 2)
    assert bench.asked == ["train-0-0-0"]
    assert bench.printed().opened


async def test_no_log_is_asked_for_unless_the_job_asks_and_its_container_has_started(bench: Bench) -> None:
    for key in (bench.job(progress=None), bench.job()):
        bench.pod(runs=False)
        bench.reader.follow(key)
    bench.reader.follow(("x", "unknown"))
    await passing(0.05)
    assert bench.asked == []


async def test_following_again_and_again_opens_one_stream(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    for _ in range(5):
        bench.reader.follow(key)
        bench.job()
    log.write(b"step 1\n")
    await until(lambda: bench.step() == 1)
    assert bench.asked == ["train-0-0-0"]


async def test_a_broken_stream_goes_on_and_counts_nothing_twice(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    log.write(*(f"step {number}\n".encode() for number in range(100)))
    log.breaks = [200, 900, 2000]
    bench.reader.follow(key)
    await until(lambda: bench.step() == 99)
    progress = bench.printed().progress
    assert progress is not None
    assert (progress.first_step, progress.rate) == (0, 1000.0)
    assert len(log.asked) == 4
    assert all(query["sinceTime"] == at(log.lines[0][0] - 10**9)[:19] + "Z" for query in log.asked[1:])


async def test_a_stream_is_not_asked_for_again_after_the_end(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    bench.reader.follow(key)
    await log.was_asked()
    log.write(b"step 1\n")
    bench.over()
    await until(lambda: bench.step() == 1)
    await passing(0.1)
    bench.reader.follow(key)
    assert bench.asked == ["train-0-0-0"]


async def test_the_lines_of_a_pod_that_has_failed_at_once_are_read(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    log.write(b"step 1\n", b"step 2\n")
    bench.reader.follow(key)
    bench.over()
    bench.job(record={"endTime": at(10**9)})
    bench.reader.follow(key)
    await until(lambda: bench.step() == 2)


async def test_a_log_that_is_gone_is_left_alone(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    log.exists = False
    bench.pod(phase="Failed")
    bench.reader.follow(key)
    await log.was_asked()
    await passing(0.1)
    assert (bench.asked, bench.printed().opened) == (["train-0-0-0"], False)


async def test_a_kubelet_that_does_not_know_a_running_pod_yet_is_asked_again(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    log.exists = False
    bench.reader.follow(key)
    await log.was_asked()
    log.exists = True
    log.write(b"step 1\n")
    await until(lambda: bench.step() == 1)


async def test_the_next_attempt_has_a_stream_of_its_own(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    log.write(b"step 50\n")
    bench.reader.follow(key)
    await until(lambda: bench.step() == 50)
    bench.job(attempt=1)
    bench.reader.follow(key)
    await bench.until_closed()
    again = bench.pod("train-1-0-0")
    bench.reader.follow(key)
    again.write(b"step 40\n")
    await until(lambda: bench.step() == 40)
    assert bench.printed().attempt == 1
    assert "sinceTime" not in again.asked[0]


ENDS: dict[str, Callable[[Bench], Any]] = {
    "the job asks no more": lambda bench: bench.job(progress=None),
    "the job is gone": lambda bench: bench.cache.forget(("x", "train"), "uid-train"),
    "another job has the name": lambda bench: bench.job(uid="another"),
    "another attempt has begun": lambda bench: bench.job(attempt=1),
}


@pytest.mark.parametrize("case", ENDS)
async def test_a_stream_ends_when(bench: Bench, case: str) -> None:
    key, log = bench.job(), bench.pod()
    bench.reader.follow(key)
    await log.was_asked()
    log.write(b"step 1\n")
    await until(lambda: bench.server.open == 1 and bench.step() == 1)
    ENDS[case](bench)
    bench.reader.follow(key)
    await bench.until_closed()
    assert bench.asked == ["train-0-0-0"]


async def test_another_pattern_reads_the_log_anew(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    log.write(b"step 1, epoch 7\n")
    bench.reader.follow(key)
    await until(lambda: bench.step() == 1)
    bench.job(progress={"pattern": r"epoch (?P<step>\d+)"})
    bench.reader.follow(key)
    await until(lambda: bench.step() == 7)
    assert "sinceTime" not in log.asked[1]


async def test_a_new_leader_asks_for_what_the_status_does_not_have(bench: Bench) -> None:
    log = bench.pod()
    log.write(b"step 1\n", b"step 2\n", b"saved checkpoint 2\n", b"step 3\n")
    known = {"attempt": 0, "step": 2, "time": at(log.lines[1][0]), "firstStep": 1, "firstTime": at(log.lines[0][0])}
    key = bench.job(shown=known)
    bench.reader.follow(key)
    await until(lambda: bench.step() == 3)
    progress = bench.printed().progress
    assert progress is not None
    assert (progress.first_step, progress.checkpoint) == (1, 2)
    assert log.asked[0]["sinceTime"] == at(log.lines[0][0] - 10**9)[:19] + "Z"


async def test_a_role_without_logs_is_said_once_and_asked_for_again(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    key, log = bench.job(), bench.pod()
    log.forever = refused(403, "pods/log is forbidden", "Forbidden")
    bench.reader.follow(key)
    await log.was_asked(3)
    assert bench.printed() == Printed(0, problem=LOGS_FORBIDDEN)
    assert len(bench.woken) == 1
    assert len([one for one in caplog.records if "cannot be read" in one.message]) == 1
    log.forever = None
    log.write(b"step 1\n")
    await until(lambda: bench.step() == 1)
    assert bench.printed().problem is None


async def test_a_kubelet_that_refuses_is_asked_ever_less_often(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    log.answers = [refused(400, "container is waiting to start"), refused(500, "dial tcp: i/o timeout")] * 2
    log.write(b"step 1\n")
    bench.reader.follow(key)
    await until(lambda: bench.step() == 1)
    assert len(log.asked) == 5
    assert bench.printed().problem is None


async def test_a_job_is_looked_at_once_a_minute_however_much_it_prints(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    bench.reader.follow(key)
    for number in range(20):
        log.write(f"step {number}\n".encode())
        await until(lambda number=number: bench.step() == number)
    began, minute = bench.time.now, STEPS_AFTER.total_seconds()
    assert bench.woken == [(key, began), (key, began + minute)]
    bench.time.now += 2 * minute
    log.write(b"nothing of it\n", b"step 21\n")
    await until(lambda: bench.step() == 21)
    assert bench.woken[2:] == [(key, began + 2 * minute)]


async def test_logs_above_the_most_wait_and_say_so(bench: Bench) -> None:
    bench.reader._slots = asyncio.Semaphore(1)
    first, log = bench.job("a"), bench.pod("a-0-0-0")
    bench.reader.follow(first)
    await log.was_asked()
    second, other = bench.job("b"), bench.pod("b-0-0-0")
    bench.reader.follow(second)
    await until(lambda: bench.printed("b").problem == TOO_MANY_LOGS)
    assert other.asked == []
    other.write(b"step 5\n")
    bench.reader.end(first)
    await until(lambda: bench.step("b") == 5)
    assert bench.printed("b").problem is None


@pytest.fixture
def no_collection() -> Iterator[None]:
    """What other tests have left is not collected meanwhile: that takes time of this process, too."""
    gc.disable()
    yield
    gc.enable()


async def test_a_program_that_prints_much_slows_nobody_down(no_collection: None) -> None:
    """Lines take at most so much of the time of this process, and others have their turns in between."""
    async with benched() as bench:
        bench.reader._clock = asyncio.get_running_loop().time
        key, log = bench.job(), bench.pod()
        log.write(*(f"step {number} {'x' * 100}\n".encode() for number in range(5_000)))
        # The time of this process alone: the machine has others.
        longest, last = 0.0, time.process_time()
        bench.reader.follow(key)
        while bench.step() != 4_999:
            await passing(0)
            now = time.process_time()
            longest, last = max(longest, now - last), now
        assert longest < 0.5


async def test_nothing_is_read_after_the_stop(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    bench.reader.follow(key)
    await log.was_asked()
    await bench.reader.stop()
    await bench.until_closed()


async def test_a_pod_that_is_gone_ends_it(bench: Bench) -> None:
    key, log = bench.job(), bench.pod()
    bench.reader.follow(key)
    await log.was_asked()
    bench.cache.pods.observe(Deleted(pod("train-0-0-0", 99, namespace="x", job_uid="uid-train")), "")
    log.ended = True
    log.changed()
    await passing(0.1)
    assert bench.asked == ["train-0-0-0"]


def test_lines_are_split_wherever_chunks_end_and_cut() -> None:
    text = b"a\nbc\n" + b"x" * 3 * LINE_BYTES + b"\nlast\nrest"
    for size in (1, 7, 5000, len(text)):
        lines = Lines()
        found = [line for begin in range(0, len(text), size) for line in lines.feed(text[begin : begin + size])]
        assert [line[:LINE_BYTES] for line in found] == [b"a", b"bc", b"x" * LINE_BYTES, b"last"]

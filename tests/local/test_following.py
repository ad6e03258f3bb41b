"""Changes of a job's file are heard of at once, also by a user who has no instance of inotify left."""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing
from itertools import count
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest
from watchfiles import main as watchfiles
from watchfiles._rust_notify import WatchfilesRustInternalError

from slipway.local.jobs import file_watch
from slipway.local.jobs.job_files import JobFolder, folder
from tests.waiting import until

BODY = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}, "spec": {"image": "i"}}
CASES = [
    pytest.param(None, id="with inotify"),
    pytest.param(
        WatchfilesRustInternalError("Error creating recommended watcher: Too many open files (os error 24)"),
        id="without a free instance",
    ),
    pytest.param(OSError("OS file watch limit reached."), id="without a free watch"),
]


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    found = folder("train")
    found.create(BODY, {})
    return found


@pytest.fixture(params=CASES)
def _system(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise request.param

    if request.param is not None:
        monkeypatch.setattr(watchfiles, "RustNotify", refuse)


def change(job: JobFolder, number: int) -> None:
    with job.changing() as body:
        body["status"]["number"] = number


@pytest.fixture
def heard(job: JobFolder) -> Iterator[list[None]]:
    """Of each change that a thread heard of."""
    found, stop = list[None](), Event()

    def follow() -> None:
        for one in file_watch.changes(job, stop):
            found.append(one)

    thread = Thread(target=follow)
    thread.start()
    yield found
    stop.set()
    thread.join()


@pytest.mark.usefixtures("_system")
def test_a_supervisor_hears_of_each_change(job: JobFolder, heard: list[None]) -> None:
    """Also where several come in one second."""
    numbers = count()
    until("the first news", lambda: heard or change(job, next(numbers)))
    for _ in range(5):
        known = len(heard)
        change(job, next(numbers))
        until("the news", lambda known=known: len(heard) > known, every=0.01)


@pytest.mark.usefixtures("_system")
@pytest.mark.parametrize("logs", [False, True])
def test_who_waits_hears_of_each_change_and_of_silence(job: JobFolder, logs: bool) -> None:
    async def follow() -> None:
        async with aclosing(file_watch.news(job, logs=logs)) as news, asyncio.timeout(30):
            while await anext(news):
                pass
            for number in range(5):
                change(job, number)
                while not await asyncio.wait_for(anext(news), 2):
                    pass
            job.remove()
            while await anext(news):
                pass

    asyncio.run(follow())


def test_a_job_that_is_gone_is_silent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    async def follow() -> None:
        async with aclosing(file_watch.news(folder("gone"))) as news:
            assert [await anext(news) for _ in range(2)] == [False, False]

    asyncio.run(follow())

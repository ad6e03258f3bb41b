"""Following a job of this machine that nobody looks after."""

import asyncio
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from slipway.client.errors import SlipwayError
from slipway.docker_engine import supervisor
from slipway.docker_engine.engine import Address
from slipway.docker_engine.job_files import JobFolder, folder
from slipway.docker_engine.options import Options
from slipway.local.client import AsyncLocalClient

BODY = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}, "spec": {"image": "i"}}


def test_who_follows_a_job_starts_one_supervisor_and_gives_it_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine that is busy each takes seconds to start, and one for every second would keep it busy."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    started: list[str] = []

    def starts(job: JobFolder) -> bool:
        started.append(job.name)
        return True

    async def follow() -> None:
        async with AsyncLocalClient() as client:
            monkeypatch.setattr(supervisor, "ensure_supervisor", starts)
            folder("train").create(BODY, {"options": {}})
            with suppress(TimeoutError):
                async with asyncio.timeout(3.5), aclosing(client.watch("train")) as states:
                    async for _ in states:
                        pass

    asyncio.run(follow())
    assert started == ["train"]


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("{", "is damaged", id="a file that is damaged"),
        pytest.param('{"local": {"format": 99}}', "upgrade Slipway", id="a file of a newer Slipway"),
    ],
)
@pytest.mark.usefixtures("forgiving")
def test_a_file_that_cannot_be_read_keeps_no_command_from_the_other_jobs(
    content: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setattr(supervisor.subprocess, "Popen", None)
    for name in ("bad", "good"):
        folder(name).create(BODY | {"metadata": {"name": name}}, {"options": Options(Address.configured()).to_json()})
    with folder("good").changing() as body:
        body["status"] |= {"phase": "Succeeded"}
        body["local"]["settled"] = True
    folder("bad").file.write_text(content)

    async def look() -> None:
        async with AsyncLocalClient() as client:
            assert [one.name for one in await client.list()] == ["good"]
            assert words in caplog.text
            assert [words in str(trouble) for what, trouble in await client.prune() if what == "bad"] == [True]
            with pytest.raises(SlipwayError, match=words):
                await client.get("bad")

    asyncio.run(look())

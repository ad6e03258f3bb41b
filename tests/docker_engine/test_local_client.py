"""Following a job of this machine that nobody looks after."""

import asyncio
from contextlib import aclosing, suppress
from pathlib import Path

import pytest

from slipway.docker_engine import supervisor
from slipway.docker_engine.job_files import JobFolder, folder
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

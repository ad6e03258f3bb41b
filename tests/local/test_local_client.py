"""Following a job of this machine that nobody looks after."""

import asyncio
import errno
import os
import re
import signal
import tempfile
from pathlib import Path

import pytest

from slipway.client.errors import NotFound, Refused, ServerFailed, SlipwayError
from slipway.local import pruning
from slipway.local.client import client as local_client
from slipway.local.client.client import AsyncLocalClient
from slipway.local.engine.address import Address
from slipway.local.jobs.job_files import JobFolder, folder
from slipway.local.jobs.options import Options
from slipway.local.supervisor import supervisor
from tests.waiting import START_SECONDS, until

BODY = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}, "spec": {"image": "i"}}


def test_a_supervisor_has_the_lock_from_its_first_moment_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that is busy each takes seconds to start, and one for each command would keep it busy."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    started = tmp_path / "started"
    monkeypatch.setattr(supervisor.sys, "executable", python(tmp_path, f"echo $$ >> {started}\nexec sleep 60"))
    job = stored()
    for _ in range(3):
        supervisor.ensure_supervisor(job)
    [process] = until("the start", lambda: started.exists() and started.read_text().split())
    try:
        with job.supervised() as lock:
            assert lock is None
    finally:
        os.kill(int(process), signal.SIGKILL)
    # The lock goes with the process, however that ends.
    until("the lock", lambda: is_free(job))
    [process] = started.read_text().split()


def test_a_supervisor_finds_its_modules_where_who_starts_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its current folder is another, and nobody tells it what a script or a notebook has added to sys.path."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "modules").mkdir()
    monkeypatch.setattr(supervisor.sys, "path", ["", "modules", "/no/such/folder"])
    monkeypatch.setattr(supervisor.sys, "executable", python(tmp_path, f"echo $PYTHONPATH > {tmp_path}/found"))
    supervisor.ensure_supervisor(stored())
    found = tmp_path / "found"
    assert until("the path", lambda: found.exists() and found.read_text()) == f"{tmp_path}:{tmp_path}/modules\n"


def test_who_waits_for_a_job_hears_why_its_supervisor_cannot_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(supervisor.sys, "executable", python(tmp_path, "echo No module named slipway >&2; exit 1"))
    job = stored()

    async def wait() -> None:
        async with AsyncLocalClient() as client:
            await client.wait(job.name, seconds=START_SECONDS)

    words = f"job train ends at once with exit code 1: No module named slipway; see {job.path}/supervisor.log"
    with pytest.raises(ServerFailed, match=re.escape(words)):
        asyncio.run(wait())


def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setattr(supervisor, "needs_supervisor", lambda job: False)
    job = stored()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    async def cancel() -> None:
        async with AsyncLocalClient() as client:
            await client.cancel(job.name)

    monkeypatch.setattr(os, "fsync", full)
    words = f"jobs cannot be used: [Errno 28] No space left on device: '{job.path}/.job.json'; XDG_STATE_HOME names"
    with pytest.raises(Refused, match=re.escape(words)):
        asyncio.run(cancel())


def python(folder: Path, script: str) -> str:
    """What is started in place of Python."""
    found = folder / "python"
    found.write_text(f"#!/bin/sh\n{script}\n")
    found.chmod(0o755)
    return str(found)


def stored() -> JobFolder:
    job = folder("train")
    job.create(BODY, {"options": Options(Address.configured()).to_json()})
    return job


def is_free(job: JobFolder) -> bool:
    with job.supervised() as lock:
        return lock is not None


@pytest.mark.parametrize(
    ("content", "words"),
    [
        pytest.param("{", "is damaged", id="a file that is damaged"),
        pytest.param('{"local": {"format": 99}}', "upgrade Slipway", id="a file of a newer Slipway"),
    ],
)
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


def test_a_job_of_another_user_keeps_no_command_from_the_other_jobs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As of root, who has submitted one with sudo, and the folder of this user."""
    nobody = 65534
    monkeypatch.setattr(supervisor, "_leave_supervisor", lambda job: None)

    async def look() -> None:
        async with AsyncLocalClient() as client:
            assert [one.name for one in await client.list()] == ["own"]
            assert "the job is another user's" in caplog.text
            for call in (client.get("roots"), client.submit(BODY | {"metadata": {"name": "roots"}})):
                with pytest.raises(SlipwayError, match=r"jobs/roots/job\.json': the job is another user's"):
                    await call

    # Others may not see what is in the folders of pytest.
    with tempfile.TemporaryDirectory() as state:
        monkeypatch.setenv("XDG_STATE_HOME", state)
        monkeypatch.setenv("DOCKER_HOST", f"unix://{state}/none.sock")
        local = {"options": Options(Address.configured()).to_json()}
        folder("roots").create(BODY | {"metadata": {"name": "roots"}}, local)
        for path in (Path(state), *folder("roots").path.parents[:2]):
            path.chmod(0o777)
        os.seteuid(nobody)
        try:
            folder("own").create(BODY | {"metadata": {"name": "own"}}, local)
            asyncio.run(look())
        finally:
            os.seteuid(0)


def test_a_job_that_goes_meanwhile_keeps_no_command_from_the_other_jobs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its supervisor may end a deletion at any moment, of which who did not name the job wants to know nothing."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    monkeypatch.setattr(supervisor, "needs_supervisor", lambda job: job.name == "gone")
    folder("there").create(BODY | {"metadata": {"name": "there"}}, {"options": Options().to_json()})
    for module in (local_client, supervisor, pruning):
        monkeypatch.setattr(module, "folders", lambda: [folder("gone"), folder("there")])

    async def look() -> None:
        async with AsyncLocalClient() as client:
            assert [one.name for one in await client.list()] == ["there"]
            assert [what for what, _ in await client.prune()] == ["what is left of earlier jobs"]
            with pytest.raises(NotFound, match="there is no job gone"):
                await client.prune(["gone"])

    asyncio.run(look())

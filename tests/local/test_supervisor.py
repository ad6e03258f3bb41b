"""What a supervisor does before it has an engine, with one that does not tell what happens, and on a full disk."""

import errno
import os
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from slipway.local.engine.address import Address
from slipway.local.jobs.job_files import JobFolder, folder
from slipway.local.jobs.options import Options
from slipway.local.supervisor.supervisor import TRIES, UNTOLD_SECONDS, Supervisor
from slipway.local.supervisor.this_machine import Machine
from tests.local_simulation.engine import refusal

BODY = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}, "spec": {"image": "i"}}
SEEN = datetime(2026, 1, 1, 12, tzinfo=UTC)


class EngineFound(Exception):
    """The engine answers: what comes next is no matter of this test."""


class Rebooted(Machine):
    def __init__(self, at: datetime) -> None:
        self.at = at

    def booted_at(self) -> datetime:
        return self.at

    def connect(self, address: Address) -> Any:
        raise EngineFound


@pytest.mark.parametrize(
    ("booted", "lost"),
    [(SEEN.replace(hour=11), None), (SEEN.replace(hour=13), SEEN.isoformat())],
    ids=["before the engine was seen last", "after it"],
)
def test_a_restart_of_the_machine_is_an_outage_of_the_engine(
    booted: datetime, lost: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No supervisor has seen it, and the engine may be back before the first one is."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    job = folder("train")
    job.create(BODY, {"options": {}, "engineSeen": SEEN.isoformat()})
    with pytest.raises(EngineFound):
        Supervisor(job, Options(), Rebooted(booted)).run()
    assert job.read()["local"].get("engineLost") == lost


class Untold(Machine):
    """With an engine that is asked for events in vain, and on which no time passes; somebody deletes the job soon."""

    api_version = "1.41"

    def __init__(self, job: JobFolder, *, refuses: bool, turns: int) -> None:
        self.job, self.refuses, self.turns = job, refuses, turns
        self.connected = 0
        self.slept: list[float] = []

    def now(self) -> datetime:
        return SEEN

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)

    def changes(self, job: JobFolder, stop: Event) -> Iterator[None]:
        return iter(())

    def connect(self, address: Address) -> Any:
        self.connected += 1
        return self

    def events(self, **_: Any) -> Iterator[Any]:
        if self.refuses:
            raise refusal(500, 'cannot read events with the "none" backend')
        return iter(())

    def containers(self, **_: Any) -> list[Any]:
        self.turns -= 1
        if self.turns == 0:
            self.job.remove()
        return []

    def networks(self, **_: Any) -> list[Any]:
        return []

    def close(self) -> None:
        pass


@pytest.fixture
def suspended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> JobFolder:
    """A job for which nothing is to be done."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    job = folder("train")
    job.create(BODY | {"spec": {"image": "i", "suspend": True}}, {"options": {}})
    return job


def test_an_engine_that_refuses_to_tell_what_happens_is_looked_at(
    suspended: JobFolder, caplog: pytest.LogCaptureFixture
) -> None:
    """As Podman does where its events are switched off. The connection is as good as any other."""
    machine = Untold(suspended, refuses=True, turns=5)
    Supervisor(suspended, Options(), machine).run()
    assert machine.connected == 1
    assert set(machine.slept) == {UNTOLD_SECONDS}
    [warning] = [one.getMessage() for one in caplog.records if one.levelname == "WARNING"]
    assert warning.endswith('looked at every 5.0 s: cannot read events with the "none" backend')


def test_connections_that_are_lost_soon_are_made_more_and_more_seldom(suspended: JobFolder) -> None:
    machine = Untold(suspended, refuses=False, turns=10)
    Supervisor(suspended, Options(), machine).run()
    assert machine.connected > len(TRIES)
    assert machine.slept == [*TRIES, *[TRIES[-1]] * (machine.connected - len(TRIES) - 1)]


@pytest.mark.parametrize(
    "write",
    [
        pytest.param(1, id="the engine is found"),
        pytest.param(2, id="a turn has decided"),
        pytest.param(3, id="the engine is lost"),
        pytest.param(4, id="it is found again"),
    ],
)
def test_a_disk_that_is_full_for_a_while_ends_no_supervisor(
    write: int, suspended: JobFolder, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Nobody would look after the job until somebody gives the next command."""
    machine, writes, sync = Untold(suspended, refuses=False, turns=4), 0, os.fsync

    def full_twice(descriptor: int) -> None:
        nonlocal writes
        writes += 1
        if writes in (write, write + 1):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        sync(descriptor)

    monkeypatch.setattr(os, "fsync", full_twice)
    Supervisor(suspended, Options(), machine).run()
    assert machine.turns == 0
    said = [one.getMessage() for one in caplog.records if one.levelname == "WARNING" and "the engine" not in one.msg]
    assert [one.partition(": ")[0] for one in said] == ["[Errno 28] No space left on device"] * 2

"""What a supervisor does before it has an engine."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from slipway.docker_engine.engine import Address
from slipway.docker_engine.job_files import folder
from slipway.docker_engine.machine import Machine
from slipway.docker_engine.options import Options
from slipway.docker_engine.supervisor import Supervisor

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

"""What is removed from the engine because its job is gone, and what is not."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from slipway.api import names
from slipway.local import pruning
from slipway.local.jobs.job_files import LABEL_HOME, folder, former_home_id, home, home_id
from slipway.local.jobs.options import Options

BODY = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "spec": {"image": "i"}}


def stored(name: str) -> str:
    """Store a job, and return its UID."""
    body = folder(name).create(BODY | {"metadata": {"name": name}}, {"options": Options().to_json()})
    return str(body["metadata"]["uid"])


class Engine:
    """One with a container of each of some jobs; `meanwhile` happens when somebody connects."""

    def __init__(self) -> None:
        self.jobs: dict[str, str] = {}
        """Names by UID."""
        self.state, self.home = "running", ""
        """Of the containers; without a home they are of this folder."""
        self.removed: list[str] = []
        self.meanwhile: Callable[[], None] = lambda: None

    def connect(self, address: Any) -> "Engine":
        self.meanwhile()
        return self

    def containers(self, *, all: bool, filters: dict[str, Any]) -> list[dict[str, Any]]:
        [wanted] = filters["label"] if isinstance(filters["label"], list) else [filters["label"]]
        return [
            {"Id": name, "State": self.state, "Labels": self._labels(uid, name)}
            for uid, name in self.jobs.items()
            if name not in self.removed and wanted in (LABEL_HOME, f"{names.LABEL_JOB_UID}={uid}")
        ]

    def _labels(self, uid: str, name: str) -> dict[str, str]:
        return {LABEL_HOME: self.home or home_id(home()), names.LABEL_JOB_UID: uid, names.LABEL_JOB_NAME: name}

    def networks(self, **_: Any) -> list[dict[str, Any]]:
        return []

    def remove_container(self, container: str, **_: Any) -> None:
        self.removed.append(container)

    def close(self) -> None:
        pass


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    made = Engine()
    monkeypatch.setattr(pruning, "connect", made.connect)
    return made


def test_what_is_left_of_a_job_that_is_gone_is_removed(engine: Engine) -> None:
    engine.jobs = {stored("train"): "train", "another": "gone"}
    assert pruning.prune() == [("what was left of job gone", "")]
    assert engine.removed == ["gone"]


def test_what_is_left_of_a_job_that_goes_meanwhile_is_removed(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    engine.jobs = {"another": "gone"}
    monkeypatch.setattr(pruning, "folders", lambda: [folder("gone")])
    assert pruning.prune() == [("what was left of job gone", "")]


# N-34
def test_the_jobs_of_a_machine_that_has_its_folder_at_the_same_path_are_left_alone(
    engine: Engine, tmp_path: Path
) -> None:
    """As two CI containers do that have the socket of one engine mounted."""
    folder_of_a = tmp_path / "slipway"
    engine.jobs, engine.home = {stored("train"): "train"}, home_id(home())
    folder_of_a.rename(tmp_path / "of-a")
    assert pruning.prune() == []
    folder_of_a.rename(tmp_path / "of-b")
    (tmp_path / "of-a").rename(folder_of_a)
    (folder_of_a / "jobs/train/job.json").unlink()
    assert pruning.prune() == [("what was left of job train", "")]


@pytest.mark.parametrize("state", ["created", "running", "paused", "restarting", "exited", "dead"])
def test_what_a_former_slipway_has_left_is_removed_when_it_does_not_run(engine: Engine, state: str) -> None:
    """It may be another machine's: such a container says only at which path the folder of its job is."""
    engine.jobs, engine.home, engine.state = {"another": "gone"}, former_home_id(home()), state
    pruning.prune()
    assert engine.removed == (["gone"] if state in ("exited", "dead") else [])


def test_a_job_that_is_submitted_meanwhile_keeps_its_containers(engine: Engine) -> None:
    """Its supervisor may have made them before the engine is asked what it has."""

    def submit() -> None:
        if not engine.jobs:
            engine.jobs = {stored("fresh"): "fresh"}

    engine.meanwhile = submit
    assert pruning.prune() == []
    assert engine.removed == []

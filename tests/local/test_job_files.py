"""The files of the jobs of this machine's engine: whole versions, one writer at a time, nothing overwritten unseen."""

import errno
import json
import multiprocessing
import os
import shutil
from pathlib import Path

import pytest

from slipway.local.jobs.job_files import JobExists, NoSuchJob, Outdated, Unreadable, folder, folders, home, home_id
from slipway.local.supervisor.supervisor import needs_supervisor

BODY = {"apiVersion": "slipway.dev/v1alpha1", "kind": "SliceJob", "metadata": {"name": "train"}, "spec": {"image": "i"}}


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_a_new_job_is_stored_as_an_api_server_would_store_it() -> None:
    made = folder("train").create(BODY, {"options": {}})
    about = made["metadata"]
    assert (about["name"], about["namespace"], about["generation"], about["resourceVersion"]) == (
        "train",
        "local",
        1,
        "1",
    )
    assert made["status"] == {"observedGeneration": -1}
    assert made["local"]["format"] == 1
    assert folder("train").read() == made
    assert [one.name for one in folders()] == ["train"]


def test_a_relative_folder_of_states_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """A supervisor, which has another current folder, would look for the job elsewhere."""
    monkeypatch.setenv("XDG_STATE_HOME", "state")
    monkeypatch.setenv("HOME", "/home/a")
    assert folder("train").path == Path("/home/a/.local/state/slipway/jobs/train")


def test_only_its_owner_may_read_a_job() -> None:
    """It may hold variables with secrets (B-30)."""
    folder("train").create(BODY, {})
    assert folder("train").path.stat().st_mode & 0o077 == 0


def test_a_job_has_one_token_of_its_ray_cluster_which_only_its_owner_may_read() -> None:
    job = folder("train")
    with pytest.raises(NoSuchJob):
        job.ray_token()
    job.create(BODY, {})
    token = job.ray_token()
    assert len(token) == 64
    assert job.token_file.stat().st_mode & 0o777 == 0o600
    # A process that was killed may have left a part of another.
    (job.path / ".ray-token").write_bytes(b"x" * 100)
    assert job.ray_token() == token
    job.token_file.unlink()
    assert len(job.ray_token()) == 64
    assert token.decode() not in job.file.read_text()


@pytest.mark.parametrize("name", ["../esc", "a/b", "..", "", "x" * 300, "A"])
def test_only_names_of_jobs_have_folders(tmp_path: Path, name: str) -> None:
    with pytest.raises(NoSuchJob, match="there is no job"):
        folder(name)
    assert list(tmp_path.iterdir()) == []


def test_other_folders_are_no_jobs(tmp_path: Path) -> None:
    folder("train").create(BODY, {})
    (tmp_path / "slipway/jobs/Not a job").mkdir()
    (tmp_path / "slipway/jobs/Not a job/job.json").touch()
    assert [one.name for one in folders()] == ["train"]


def test_a_job_of_a_newer_slipway_is_neither_read_nor_changed() -> None:
    job = folder("train")
    job.create(BODY, {"format": 2})
    before = job.file.read_bytes()
    with pytest.raises(Unreadable, match=r"train/job\.json: local\.format 2 is of a newer Slipway.*upgrade Slipway"):
        job.read()
    with pytest.raises(Unreadable), job.changing() as body:
        body["spec"]["cancel"] = True
    assert job.file.read_bytes() == before
    assert not needs_supervisor(job)


def test_a_second_job_of_a_name_is_refused() -> None:
    folder("train").create(BODY, {})
    with pytest.raises(JobExists, match="train"):
        folder("train").create(BODY, {})


def test_a_change_of_the_spec_is_a_generation_and_every_change_a_version() -> None:
    job = folder("train")
    job.create(BODY, {})
    with job.changing() as body:
        body["spec"]["cancel"] = True
    with job.changing() as body:
        body["status"] = {"phase": "Cancelled"}
    with job.changing():
        pass
    about = job.read()["metadata"]
    assert (about["generation"], about["resourceVersion"]) == (2, "3")


def test_who_has_seen_an_older_version_changes_nothing() -> None:
    job = folder("train")
    job.create(BODY, {})
    with job.changing() as body:
        body["spec"]["cancel"] = True
    with pytest.raises(Outdated), job.changing("1") as body:
        body["spec"]["cancel"] = False
    assert job.read()["spec"]["cancel"] is True


def test_an_error_in_the_middle_of_a_change_leaves_the_job_as_it_was() -> None:
    job = folder("train")
    job.create(BODY, {})

    def fail() -> None:
        with job.changing() as body:
            body["spec"] = {}
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert job.read()["spec"] == BODY["spec"]


def test_a_disk_that_is_full_in_the_middle_of_a_write_leaves_the_job_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    job = folder("train")
    job.create(BODY, {})

    def full(_: int) -> None:
        assert job.read()["spec"] == BODY["spec"]
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def change() -> None:
        with job.changing() as body:
            body["spec"] = {}

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match=r"No space left on device: '.*/jobs/train/\.job\.json'"):
            change()
    assert job.read()["spec"] == BODY["spec"]
    change()
    assert job.read()["spec"] == {}


def _count(state: str, times: int) -> None:
    os.environ["XDG_STATE_HOME"] = state
    for _ in range(times):
        with folder("train").changing() as body:
            body["status"]["count"] = body["status"].get("count", 0) + 1
            json.loads(folder("train").file.read_bytes())


def test_no_change_of_several_processes_is_lost(tmp_path: Path) -> None:
    folder("train").create(BODY, {})
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_count, args=(str(tmp_path), 20)) for _ in range(4)]
    for one in processes:
        one.start()
    for one in processes:
        one.join()
    assert folder("train").read()["status"]["count"] == 80


def _home_id(state: str) -> str:
    os.environ["XDG_STATE_HOME"] = state
    return home_id(home())


def test_processes_that_start_at_once_have_one_word_for_the_folder(tmp_path: Path) -> None:
    with multiprocessing.get_context("spawn").Pool(4) as processes:
        found = processes.map(_home_id, [str(tmp_path)] * 8, chunksize=1)
    assert set(found) == {home_id(home())}


def test_folders_at_the_same_path_have_different_words(tmp_path: Path) -> None:
    """They are those of two machines, which may share an engine."""
    first = home_id(home())
    (tmp_path / "slipway").rename(tmp_path / "elsewhere")
    assert home_id(home()) != first
    shutil.rmtree(tmp_path / "slipway")
    (tmp_path / "elsewhere").rename(tmp_path / "slipway")
    assert home_id(home()) == first
    assert folders() == []


def test_a_word_that_was_not_written_to_its_end_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "slipway/jobs").mkdir(parents=True)
    (tmp_path / "slipway/jobs/.home").write_text("ab")
    assert home_id(home()) == home_id(home()) != "ab"


def test_one_process_looks_after_a_job() -> None:
    job = folder("train")
    job.create(BODY, {})
    with job.supervised() as first, job.supervised() as second:
        assert (first is None, second is None) == (False, True)
    with job.supervised() as third:
        assert third is not None


def test_a_job_that_is_removed_is_gone_with_its_logs() -> None:
    job = folder("train")
    job.create(BODY, {})
    job.log("train-0-0-0").write_text("x")
    job.remove()
    with pytest.raises(NoSuchJob, match="no job train"):
        job.read()
    assert folders() == []

"""The logs that are kept of a job's containers."""

import os
from pathlib import Path

from slipway.docker_engine.job_files import JobFolder
from slipway.docker_engine.logs import forget_oldest, stand_in
from slipway.local.containers import kept_pods


def test_the_newest_logs_are_kept(tmp_path: Path) -> None:
    for age, name in enumerate(("newest", "newer", "older", "oldest")):
        path = tmp_path / f"{name}.log"
        path.write_bytes(b"x" * 8)
        path.with_suffix(".stderr").write_bytes(b"x" * 2)
        os.utime(path, (1000 - age, 1000 - age))
    (tmp_path / "supervisor.txt").write_text("no log of a container")
    forget_oldest(tmp_path, 25)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "newer.log", "newer.stderr", "newest.log", "newest.stderr", "supervisor.txt",
    ]  # fmt: skip


def test_a_log_that_stands_for_another_goes_with_it(tmp_path: Path) -> None:
    job = JobFolder(tmp_path / "train")
    own, init = job.log("train-0-0-0"), job.log("train-0-0-0.fetch")
    own.parent.mkdir(parents=True)
    init.write_bytes(b"no such bucket")
    stand_in(own, init)
    [kept] = kept_pods(job)
    assert kept["status"]["initContainerStatuses"][0]["name"] == "fetch"
    forget_oldest(own.parent, 1)
    assert kept_pods(job) == []

"""The logs that are kept of a job's containers."""

import os
from pathlib import Path

from slipway.docker_engine.logs import forget_oldest


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

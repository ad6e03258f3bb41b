"""The directory that Slipway makes for a job in a folder of this machine: its owner and its mode."""

import os
from pathlib import Path
from unittest.mock import Mock

import pytest

from slipway.local.supervisor.workspaces import make_directories
from tests.local.pods import pod

ROOT, SOMEBODY, OTHER = 0, 1000, 12345

OWNERS: dict[str, tuple[int, int | None, int, int]] = {
    "root makes it for the user of the job": (ROOT, OTHER, OTHER, 0o775),
    "root makes it for root": (ROOT, ROOT, ROOT, 0o775),
    "root makes it where the image decides": (ROOT, None, ROOT, 0o777),
    # That user is the one who runs these tests.
    "somebody makes it for another user": (SOMEBODY, OTHER, ROOT, 0o777),
    "somebody makes it for himself": (SOMEBODY, SOMEBODY, ROOT, 0o775),
}


@pytest.mark.parametrize(("maker", "user", "owner", "mode"), OWNERS.values(), ids=OWNERS.keys())
def test_the_user_of_the_job_may_write_to_its_directory(  # F-43
    maker: int, user: int | None, owner: int, mode: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    context = {"podSecurityContext": {"runAsUser": user}} if user is not None else {}
    monkeypatch.setattr(os, "geteuid", lambda: maker)
    make_directories(Mock(), pod(workspace={"hostPath": {"path": str(tmp_path)}}, **context))
    made = (tmp_path / "train").stat()
    assert (made.st_uid, made.st_mode & 0o7777) == (owner, mode)

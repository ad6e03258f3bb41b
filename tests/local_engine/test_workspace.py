"""The directory that a job has to itself in a folder that jobs share, for a user who is not root."""

from pathlib import Path
from typing import Any, Final

import pytest

from tests.local_engine.engine import Engine, User

USER_ID: Final = 12345
AT: Final = "/var/tmp/slicejob/workspace"


@pytest.fixture
def volume(tmp_path: Path) -> Path:
    """The folder of all jobs, in which another job has something."""
    folder = tmp_path / "volume"
    (folder / "other").mkdir(parents=True)
    (folder / "other" / "secret").write_text("of another job")
    (folder / "startup").mkdir()
    (folder / "startup" / "config").write_text("for all jobs")
    return folder


def isolated(volume: Path, **workspace: Any) -> dict[str, Any]:
    """Fields of a job with a directory of its own in the volume."""
    return {
        "workspace": {"hostPath": {"path": str(volume)}, "startup": True} | workspace,
        "podSecurityContext": {"runAsUser": USER_ID, "runAsGroup": USER_ID},
    }


SEES: Final = f"""
set -e
id -u; pwd; cat ../startup/config; echo
echo kept > result
mkdir ../top; echo gone > ../top/file
ls {AT}
"""


def test_a_job_has_its_own_directory_and_a_root_that_ends_with_it(user: User, engine: Engine, volume: Path) -> None:
    before = len(engine.client.volumes.list())
    user.submit(SEES, **isolated(volume))
    assert user.ended()["phase"] == "Succeeded", user.slipway("logs", "train")
    said = user.slipway("logs", "train").out.splitlines()
    assert said[:3] == [str(USER_ID), f"{AT}/train", "for all jobs"]
    # Nothing of the other job is there, and everybody may make folders in the root (F-36, F-37).
    assert said[3:] == ["startup", "top", "train"]
    assert sorted(path.name for path in volume.iterdir()) == ["other", "startup", "train"]
    assert (volume / "train").stat().st_uid == USER_ID
    assert (volume / "train").stat().st_uid == USER_ID
    assert (volume / "train" / "result").read_text() == "kept\n"
    assert len(engine.client.volumes.list()) == before


def test_a_link_in_the_place_of_the_directory_is_refused(user: User, volume: Path) -> None:  # F-41, F-42
    (volume / "train").symlink_to("other")
    refused = user.submit("true", code=2, **isolated(volume))
    assert "directory train in the volume of spec.workspace is a symbolic link to other" in refused.err
    assert [one.name for one in (volume / "other").iterdir()] == ["secret"]

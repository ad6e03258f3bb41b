"""The program of the init container, in real folders: it makes directories, and refuses links in their place."""

import json
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from slipway import workspace_check
from slipway.api.names import EXIT_LINK, EXIT_UNUSABLE
from slipway.workspace_check import main


def check(root: Path, make: str = "train", *need: str, mine: bool = True) -> int:
    order = {"root": str(root), "field": "spec.workspace", "make": make, "need": need, "mine": mine}
    return main([json.dumps([order])])


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_directory_of_a_job_is_made_and_kept(tmp_path: Path) -> None:  # F-37, N-37
    assert check(tmp_path) == 0
    (tmp_path / "train/checkpoint").write_text("1")
    assert check(tmp_path) == 0
    assert (tmp_path / "train/checkpoint").read_text() == "1"


def test_attempts_have_directories_of_their_own(tmp_path: Path) -> None:
    assert [check(tmp_path, f"train/{attempt}") for attempt in range(2)] == [0, 0]
    assert sorted(one.name for one in (tmp_path / "train").iterdir()) == ["0", "1"]


@pytest.mark.parametrize(("mine", "expected"), [(True, 0o775), (False, 0o777)], ids=["one user", "the image's user"])
def test_the_worker_can_write_to_it(mine: bool, expected: int, tmp_path: Path) -> None:
    check(tmp_path, mine=mine)
    assert mode(tmp_path / "train") == expected


def linked(root: Path, name: str, target: str) -> None:
    (root / "inside").mkdir()
    (root / name).symlink_to(target)


LINKS: dict[str, tuple[str, str, tuple[Any, ...]]] = {
    "B-32 F-42 to a folder inside": ("train", "inside", ()),
    "B-32 F-41 to a folder outside": ("train", "/etc", ()),
    "to nothing": ("train", "nowhere", ()),
    "a link above an attempt": ("train", "inside", ("train/3",)),
    "startup is a link": ("startup", "inside", ("train", "startup")),
}


@pytest.mark.parametrize(("name", "target", "order"), LINKS.values(), ids=LINKS)
@pytest.mark.row("B-32")
def test_a_link_is_refused_and_nothing_is_written(
    name: str, target: str, order: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    linked(tmp_path, name, target)
    assert check(tmp_path, *order) == EXIT_LINK
    said = capsys.readouterr().out
    assert said == (
        f"directory {name} in the volume of spec.workspace is a symbolic link to {target}: put a directory in its "
        "place\n"
    )
    assert sorted(one.name for one in tmp_path.iterdir()) == sorted(["inside", name])
    assert list((tmp_path / "inside").iterdir()) == []


def test_a_folder_that_is_asked_for_must_be_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, "train", "startup") == EXIT_UNUSABLE
    assert "directory startup in the volume of spec.workspace does not exist" in capsys.readouterr().out
    (tmp_path / "startup").mkdir()
    assert check(tmp_path, "train", "startup") == 0


def test_a_file_is_no_directory(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "train").write_text("")
    assert check(tmp_path) == EXIT_UNUSABLE
    assert "is not a directory" in capsys.readouterr().out


def as_nobody(root: Path, *, mine: bool) -> int:
    """The exit code as a user who may not write to the volume."""
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65532)
            os._exit(check(root, mine=mine))
        finally:
            os._exit(99)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def roots_folder() -> Iterator[Path]:
    """A folder that all may read and only root may write."""
    if os.getuid() != 0:
        pytest.skip("only root can become another user")
    # Not below pytest's own folder, which nobody else may read.
    with TemporaryDirectory() as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def test_what_the_user_may_not_make_is_left_to_the_kubelet_if_the_worker_may_be_root(roots_folder: Path) -> None:
    assert as_nobody(roots_folder, mine=False) == 0
    assert list(roots_folder.iterdir()) == []


def test_what_the_user_of_the_worker_may_not_make_or_write_is_refused(roots_folder: Path) -> None:
    assert as_nobody(roots_folder, mine=True) == EXIT_UNUSABLE
    (roots_folder / "train").mkdir(mode=0o755)
    assert as_nobody(roots_folder, mine=True) == EXIT_UNUSABLE
    (roots_folder / "train").chmod(0o777)
    assert as_nobody(roots_folder, mine=True) == 0


class Attack:
    """Somebody who may write to the volume puts a link in the place of a directory, just after it was made or found."""

    def __init__(self, root: Path, victim: Path, at: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.victim, self.at, self.done = root, victim, at, False
        for name in ("mkdir", "open"):
            monkeypatch.setattr(workspace_check.os, name, self.after(getattr(os, name), name))

    def after(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        def attacked(path: Any, *arguments: Any, **options: Any) -> Any:
            found = call(path, *arguments, **options)
            if f"{name} {path}" == self.at and not self.done:
                self.done = True
                (self.root / "train").rename(self.root / "elsewhere")
                (self.root / "train").symlink_to(self.victim)
            return found

        return attacked


@pytest.mark.parametrize("at", ["mkdir train", "open train", "mkdir 0"])
def test_a_link_that_takes_the_place_of_a_directory_meanwhile_is_not_followed(
    at: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As root this process could else make any folder of the machine writable for everybody."""
    root, victim = tmp_path / "shared", tmp_path / "root-only"
    root.mkdir()
    victim.mkdir(mode=0o700)
    attack = Attack(root, victim, at, monkeypatch)
    code = check(root, "train/0", mine=False)
    assert attack.done
    assert (mode(victim), list(victim.iterdir())) == (0o700, [])
    if at == "mkdir train":
        assert code == EXIT_LINK
        assert "directory train in the volume of spec.workspace is a symbolic link" in capsys.readouterr().out


def test_a_directory_with_something_in_it_that_takes_the_place_of_a_new_one_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def replaced(name: str, **options: Any) -> None:
        mkdir(name, **options)
        (tmp_path / "train").rmdir()
        mkdir(tmp_path / "train", 0o700)
        (tmp_path / "train/key").touch()

    monkeypatch.setattr(workspace_check.os, "mkdir", replaced)
    assert check(tmp_path, mine=False) == EXIT_UNUSABLE
    assert mode(tmp_path / "train") == 0o700


def test_hosts_that_make_one_path_at_a_time_do_not_refuse_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mkdir = os.mkdir

    def raced(name: str, **options: Any) -> None:
        mkdir(name, **options)
        if name == "train":
            mkdir(tmp_path / "train/0")

    monkeypatch.setattr(workspace_check.os, "mkdir", raced)
    assert check(tmp_path, "train/0") == 0


def test_a_directory_that_goes_while_it_is_made_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the rest of the path would be made where this process runs."""
    listdir = os.listdir

    def removed(made: int) -> list[str]:
        found = listdir(made)
        (tmp_path / "train").rmdir()
        return found

    monkeypatch.setattr(workspace_check.os, "listdir", removed)
    assert check(tmp_path, "train/0") == EXIT_UNUSABLE
    assert "directory train in the volume of spec.workspace was removed by another" in capsys.readouterr().out


def test_a_directory_on_the_way_need_not_be_readable(tmp_path: Path) -> None:
    (tmp_path / "train").mkdir()
    (tmp_path / "train").chmod(0o311)
    assert check(tmp_path, "train/0") == 0

"""A folder laid over an image (T-02, T-43): the user's files, and the cache of the engine."""

from pathlib import Path

import pytest

from slipway.local.engine.address import connected
from slipway.local.engine.errors import ImageBuildError
from slipway.local.images.building import build_image, lay_over
from slipway.local.images.progress import Silent
from slipway.local.images.request import RECIPE, overlay_request
from tests.local.servers import Engine


@pytest.fixture
def base(engine: Engine, source: Path) -> str:
    """An image with a shell."""
    with connected() as api:
        request = overlay_request("scratch", "empty:1", None, source)
        return build_image(api, request, Silent())


def files(folder: Path) -> Path:
    folder.mkdir()
    (folder / "train.py").write_text("print('x')")
    (folder / "notes.txt").write_text("not for the image")
    (folder / ".dockerignore").write_text("# no notes\n*.txt\n")
    return folder


def modes(image: str) -> dict[str, int]:
    """The files of an image, with their modes."""
    import io
    import tarfile

    with connected() as api:
        made = api.create_container(image, command=["none"])
        try:
            content = b"".join(api.export(made["Id"]))
        finally:
            api.remove_container(made["Id"])
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {one.name: one.mode & 0o777 for one in archive.getmembers()}


def test_the_files_lie_over_those_of_the_image_but_those_that_dockerignore_names(base: str, tmp_path: Path) -> None:
    with connected() as api:
        made = lay_over(api, base, files(tmp_path / "mine"), Silent())
    found = modes(made).keys()
    assert {"train.py", "busybox"} <= found
    assert found.isdisjoint({"notes.txt", ".dockerignore", ".slipway.Dockerfile"})


@pytest.mark.row("T-44")
def test_exceptions_from_what_is_left_out_hold_and_files_keep_their_modes(base: str, tmp_path: Path) -> None:
    folder = files(tmp_path / "mine")
    (folder / ".dockerignore").write_text("*.txt\n!keep.txt\n")
    for name, mode in (("keep.txt", 0o640), ("train.sh", 0o755)):
        (folder / name).write_text("")
        (folder / name).chmod(mode)
    with connected() as api:
        found = modes(lay_over(api, base, folder, Silent()))
    assert (found["keep.txt"], found["train.sh"], "notes.txt" in found) == (0o640, 0o755, False)


@pytest.mark.row("T-44")
def test_a_recipe_of_the_folder_says_what_comes_over_the_image(base: str, tmp_path: Path) -> None:
    folder = files(tmp_path / "mine")
    (folder / RECIPE).write_text("ARG IMAGE\nFROM $IMAGE\nARG WORKSPACE\nCOPY $WORKSPACE/train.py /code/own.py\n")
    with connected() as api:
        first, again = (lay_over(api, base, folder, Silent()) for _ in range(2))
    found = modes(first).keys()
    assert {"busybox", "code/own.py"} <= found
    assert "train.py" not in found
    assert again == first
    argv = overlay_request("base:1", "mine:1", None, folder).argv
    assert argv == [
        "docker", "build", "-t", "mine:1", "--build-arg", "IMAGE=base:1", "--build-arg", "WORKSPACE=.",
        "-f", f"{folder}/{RECIPE}", str(folder),
    ]  # fmt: skip


def test_the_same_files_are_the_same_image(base: str, tmp_path: Path) -> None:
    """T-44: whatever the dates of the files are."""
    folder = files(tmp_path / "mine")
    with connected() as api:
        first = lay_over(api, base, folder, Silent())
        (folder / "train.py").touch()
        again = lay_over(api, base, folder, Silent())
        (folder / "train.py").write_text("print('y')")
        changed = lay_over(api, base, folder, Silent())
    assert again == first
    assert changed != first


@pytest.mark.parametrize(
    ("base_name", "folder", "words"),
    [
        pytest.param(" ", ".", "base image is empty", id="no base image"),
        pytest.param("app:1", "missing", "missing does not exist", id="no such folder"),
    ],
)
def test_what_cannot_be_laid_over_is_refused(
    base_name: str, folder: str, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ImageBuildError, match=words):
        overlay_request(base_name, "mine:1", None, folder)

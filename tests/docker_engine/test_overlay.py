"""A folder laid over an image (T-02, T-43): the user's files, and the cache of the engine."""

from pathlib import Path

import pytest

from slipway.docker_engine.engine import connected
from slipway.docker_engine.errors import ImageBuildError
from slipway.docker_engine.images.building import build_image, lay_over
from slipway.docker_engine.images.progress import Silent
from slipway.docker_engine.images.request import overlay_request
from tests.docker_engine.servers import Engine


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


def names(image: str) -> set[str]:
    """The files at the root of an image."""
    import io
    import tarfile

    with connected() as api:
        made = api.create_container(image, command=["none"])
        try:
            content = b"".join(api.export(made["Id"]))
        finally:
            api.remove_container(made["Id"])
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        return {one.name for one in archive.getmembers()}


def test_the_files_lie_over_those_of_the_image_but_those_that_dockerignore_names(base: str, tmp_path: Path) -> None:
    with connected() as api:
        made = lay_over(api, base, files(tmp_path / "mine"), Silent())
    found = names(made)
    assert {"train.py", "busybox"} <= found
    assert found.isdisjoint({"notes.txt", ".dockerignore", ".slipway.Dockerfile"})


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

"""Setting `spec.image` of a job without touching the rest of its file."""

import resource
from pathlib import Path

import pytest

from slipway.local.engine.errors import ImageBuildError
from slipway.local.images.manifest import with_image, write_image

NEW = "gcr.io/acme/app:1@sha256:" + "a" * 64


# E1-45
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("kind: SliceJob\nspec:\n  image: old # why\n", f"kind: SliceJob\nspec:\n  image: {NEW} # why\n"),
        ("kind: SliceJob\nspec: {image: 'old', slices: 2}", f"kind: SliceJob\nspec: {{image: {NEW}, slices: 2}}"),
        ("kind: SliceJob\nspec:\n    slices: 2\n", f"kind: SliceJob\nspec:\n    image: {NEW}\n    slices: 2\n"),
        ("{kind: SliceJob, spec: {slices: 2}}", f"{{kind: SliceJob, spec: {{image: {NEW}, slices: 2}}}}"),
        ("kind: SliceJob\r\nspec:\r\n  a: b\r\n", f"kind: SliceJob\r\nspec:\r\n  image: {NEW}\r\n  a: b\r\n"),
        (
            "kind: Secret\nimage: x\n---\nkind: SliceJob\nspec: {image: ä}\n",
            f"kind: Secret\nimage: x\n---\nkind: SliceJob\nspec: {{image: {NEW}}}\n",
        ),
    ],
)
def test_only_the_image_changes(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(before.encode())
    write_image(path, NEW)
    assert path.read_bytes().decode() == after


def test_a_file_stays_what_it_is_behind_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "job.yaml", tmp_path / "link.yaml"
    path.write_text("kind: SliceJob\nspec: {image: old}\n")
    path.chmod(0o640)
    link.symlink_to(path)
    write_image(link, NEW)
    assert (link.is_symlink(), path.stat().st_mode & 0o777) == (True, 0o640)
    assert path.read_text() == f"kind: SliceJob\nspec: {{image: {NEW}}}\n"


def test_a_full_disk_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(before := "kind: SliceJob\nspec: {image: old}\n" + "# why\n" * 100)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, limits[1]))
    try:
        with pytest.raises(ImageBuildError, match=r"cannot be written to .*job\.yaml: .*too large"):
            write_image(path, NEW)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_text() == before
    assert [found.name for found in tmp_path.iterdir()] == ["job.yaml"]


def test_a_name_that_yaml_takes_for_a_number_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("kind: SliceJob\nspec: {image: old}\n")
    assert with_image(path, "12:30") == 'kind: SliceJob\nspec: {image: "12:30"}\n'


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("kind: Pod\n", "holds 0 objects of kind SliceJob"),
        ("kind: SliceJob\n---\nkind: SliceJob\n", "holds 2 objects"),
        ("kind: SliceJob\n", "has no spec"),
        ("kind: SliceJob\nspec:\n  image: >-\n    old\n  slices: 2\n", "cannot be changed|cannot be written"),
        ("kind: SliceJob\nspec:\n  image: &a old\n  env: [*a]\n", "cannot be changed|cannot be written"),
        ("kind: [", "cannot be written"),
    ],
)
def test_a_file_that_cannot_be_changed_safely(tmp_path: Path, text: str, sentence: str) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(text)
    with pytest.raises(ImageBuildError, match=sentence):
        with_image(path, NEW)

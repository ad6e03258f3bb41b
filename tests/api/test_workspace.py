"""Directories, studies and modules as people write them: what is refused before any API server sees it."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import TypeAdapter, ValidationError

from slipway.api.reading import describe
from slipway.api.slicejob import SliceJobSpec
from slipway.api.workspace import DataSets, Folder, PythonPath

CLAIM = {"persistentVolumeClaim": {"claimName": "shared"}}
HOST = {"hostPath": {"path": "/srv/jobs"}}
NO_FOLDER = "is not the name of one folder"
NO_PATH = "is not valid: a path below mountPath is needed"
NO_MOUNT = "is not valid: an absolute path is needed"


def said(**fields: Any) -> str:
    """What is wrong with a spec of these fields."""
    with pytest.raises(ValidationError) as caught:
        SliceJobSpec.model_validate({"image": "a"} | fields)
    return describe(caught.value, "spec", fields)


def subdir(value: Any) -> dict[str, Any]:
    return {"workspace": HOST | {"subdir": value}}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "B-32 subdir empty": (subdir(""), NO_FOLDER),
    "B-32 subdir .": (subdir("."), NO_FOLDER),
    "B-32 subdir ..": (subdir(".."), NO_FOLDER),
    "B-32 subdir a/b": (subdir("a/b"), "spec.workspace.subdir 'a/b': subdir a/b is not the name of one folder"),
    "B-32 subdir absolute": (subdir("/abs"), NO_FOLDER),
    "B-32 subdir a/../b": (subdir("a/../b"), NO_FOLDER),
    "B-32 subdir with another separator": (subdir("a\\b"), NO_FOLDER),
    "subdir with a newline": (subdir("a\n"), NO_FOLDER),
    "B-32 F-40 subdir startup": (subdir("startup"), "subdir startup is reserved: local and startup are folders"),
    "B-32 F-40 subdir local": (subdir("local"), "subdir local is reserved"),
    "two volumes": ({"workspace": CLAIM | HOST}, "give either persistentVolumeClaim or hostPath, not both"),
    "hostPath relative": ({"workspace": {"hostPath": {"path": "srv"}}}, "path srv is not an absolute path"),
    "mountPath relative": ({"workspace": HOST | {"mountPath": "ws"}}, NO_MOUNT),
    "mountPath is the root": ({"workspace": HOST | {"mountPath": "/"}}, NO_MOUNT),
    "mountPath with ..": ({"workspace": HOST | {"mountPath": "/a/../b"}}, NO_MOUNT),
    "F-46 an absolute Python path": ({"workspace": HOST | {"pythonPaths": ["/usr/lib"]}}, NO_PATH),
    "F-46 a Python path that leads out": ({"workspace": HOST | {"pythonPaths": ["a", "a/../../b"]}}, NO_PATH),
    "F-46 two Python paths in one": ({"workspace": HOST | {"pythonPaths": ["a:b"]}}, NO_PATH),
    "N-36 a module that is null": ({"pythonModule": {"module": None}}, "spec.pythonModule.module"),
    "no module": ({"pythonModule": {"module": ""}}, "is not the name of a Python module"),
    "a file as module": ({"pythonModule": {"module": "train/main.py"}}, "is not the name of a Python module"),
    "an option without a value": (
        {"pythonModule": {"module": "a", "args": [{"name": "--b"}]}},
        "spec.pythonModule.args[0].value: field required",
    ),
    "an option with true": ({"pythonModule": {"module": "a", "args": [{"name": "--b", "value": True}]}}, "args[0]"),
    "B-35 F-05 F-23 python empty": ({"pythonModule": {"module": "a", "python": ""}}, "python  is blank"),
    "B-35 python blank": ({"pythonModule": {"module": "a", "python": " "}}, "is blank: name the Python executable"),
    "B-35 python is a number": ({"pythonModule": {"module": "a", "python": 3}}, "spec.pythonModule.python 3"),
    "B-37 study with a slash": ({"study": "a/b"}, "study a/b is not valid: 1 to 63 of a-z"),
    "B-37 study ..": ({"study": ".."}, "study .. is not valid"),
    "B-37 study in upper case": ({"study": "A"}, "study A is not valid"),
    "B-37 study ends with _": ({"study": "a_"}, "study a_ is not valid"),
    "N-37 output without a volume": ({"output": {"path": "/out"}}, "spec.output.volume"),
    "N-37 output without a directory": ({"output": {"volume": "a", "path": ""}}, NO_MOUNT),
    "N-37 output of an empty source": ({"output": {"volume": "", "path": "/out"}}, "spec.output.volume ''"),
}


@pytest.mark.parametrize(("fields", "words"), REFUSED.values(), ids=REFUSED)
@pytest.mark.row("B-32", "B-35", "B-37")
def test_what_cannot_be_used_is_refused_in_words(fields: dict[str, Any], words: str) -> None:
    assert words in said(**fields)


def data_set(**fields: Any) -> dict[str, Any]:
    return {"heart": {"mri": fields}}


BAD_DATA_SETS: dict[str, tuple[Any, str]] = {
    "B-37 not a mapping": ([], "valid dictionary"),
    "B-37 a study that is not a mapping": ({"heart": "/data"}, "heart"),
    "B-37 mode rx": (data_set(**HOST, mode="rx"), "'ro' or 'rw'"),
    "B-37 no source": (data_set(mode="ro"), "exactly one source"),
    "B-37 an empty source": (data_set(hostPath={"path": ""}), "is not an absolute path"),
    "B-37 an empty claim": (data_set(persistentVolumeClaim={"claimName": ""}), "at least 1 character"),
    "two sources": (data_set(**HOST, **CLAIM), "exactly one source"),
    "a writable image": (data_set(image={"reference": "a"}, mode="rw"), "from an image is read-only"),
    "B-37 F-57 a study's name": ({"He art": {"mri": HOST}}, "He art is not valid"),
    "B-37 F-57 a data set's name": ({"heart": {"-mri": HOST}}, "data set -mri is not valid"),
    "F-57 a data set's name of 64": ({"heart": {"a" * 64: HOST}}, "is not valid"),
    "F-39 a data set's name that is a path": ({"heart": {"a/../b": HOST}}, "is not valid"),
    "an unknown field": (data_set(**HOST, path="/a"), "extra"),
}


@pytest.mark.parametrize(("content", "words"), BAD_DATA_SETS.values(), ids=BAD_DATA_SETS)
@pytest.mark.row("B-37")
def test_data_sets_that_cannot_be_mounted_are_refused(content: Any, words: str) -> None:
    with pytest.raises(ValidationError) as caught:
        TypeAdapter(DataSets).validate_python(content)
    assert words in str(caught.value)


def test_a_data_set_is_read_only_unless_its_site_says_otherwise() -> None:  # F-56
    found = TypeAdapter(DataSets).validate_python({"heart": {"mri": HOST, "my_cts-2": HOST | {"mode": "rw"}}})
    assert [one.mode for one in found["heart"].values()] == ["ro", "rw"]


@given(st.text(st.sampled_from("ab./\\:\n "), max_size=6))
def test_a_folder_is_one_component_that_normalisation_keeps(name: str) -> None:  # F-39
    one = re.fullmatch(r"[ab.]+", name) is not None and name not in (".", "..")
    assert _valid(Folder, name) is one


@given(st.text(st.sampled_from("ab./:"), max_size=8))
def test_a_python_path_stays_below_the_workspace(path: str) -> None:  # F-46
    parts = path.split("/")
    assert _valid(PythonPath, path) is (":" not in path and not {"", ".", ".."} & set(parts))


def _valid(kind: Any, value: str) -> bool:
    try:
        TypeAdapter(kind).validate_python(value)
    except ValidationError:
        return False
    return True

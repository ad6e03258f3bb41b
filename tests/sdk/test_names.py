"""The public names, and that having them costs nothing."""

import json
import subprocess
import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest

import slipway
from slipway import CPU, Client, DockerConfig, InvalidJob, RayExecutor, Session, run_docker_async
from slipway.api.names import is_job_name
from slipway.client.manifests.reading import new_name
from slipway.local.images import building
from slipway.version import VERSION


def test_every_public_name_is_there() -> None:
    assert slipway.__all__ == sorted(slipway.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
    for name in slipway.__all__:
        assert getattr(slipway, name).__name__ == {"tpu_remote": "device_remote"}.get(name, name)


def test_the_package_shows_what_it_has() -> None:
    assert {*slipway.__all__, "__version__"} <= set(dir(slipway))
    assert slipway.__version__ == VERSION
    assert resources.files(slipway).joinpath("py.typed").is_file()
    assert slipway.build_and_push_docker_image is building.build_and_push_docker_image
    with pytest.raises(AttributeError, match="has no attribute 'launch'"):
        slipway.launch  # noqa: B018


def test_importing_slipway_is_cheap() -> None:
    names = ("ray", "aiohttp", "docker", "kubernetes", "pydantic")
    heavy = f"[one for one in sys.modules if one.partition('.')[0] in {names}]"
    done = subprocess.run(
        [sys.executable, "-c", f"import json, slipway, sys; print(json.dumps({heavy}))"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout) == []


BASES = {
    "a name": ("train", "train-"),
    "F-25 upper case, _ and .": ("A_b.c", "a-b-c-"),
    "F-25 - at both ends": ("--x--", "x-"),
    "F-25 B-36 no Latin letter": ("日本", "job-"),
    "F-25 nothing": ("", "job-"),
    "a digit first": ("3d", "job-3d-"),
    "F-26 a slash": ("a/b", "a-b-"),
    "F-26 another character at its place": ("a_b", "a-b-"),
    "B-36 300 letters": ("x" * 300, "x" * 33 + "-"),
    "a function without a name": ("<lambda>", "lambda-"),
}


@pytest.mark.parametrize(("base", "beginning"), BASES.values(), ids=BASES)
@pytest.mark.row("B-36")
def test_made_names_are_names_of_jobs_and_no_two_are_the_same(base: str, beginning: str) -> None:
    name = new_name(base)
    assert is_job_name(name)
    assert name.startswith(beginning)
    assert name != new_name(base)


NO_NAMES = {"a query": "lab?", "a path": "../slicejobs/lab", "upper case": "Lab", "41 letters": "x" * 41}
CALLS: dict[str, Callable[[Client, str], Any]] = {
    "session": lambda client, name: Session(RayExecutor(CPU(), "acme/ray:1", client=client), name=name),
    "container": lambda client, name: run_docker_async(DockerConfig("acme/train:1"), name=name, client=client),
}


@pytest.mark.parametrize("name", NO_NAMES.values(), ids=NO_NAMES)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_name_that_no_job_can_have_is_refused_before_any_request(
    call: Callable[[Client, str], Any], name: str
) -> None:
    # A request would say that there is no such kubeconfig.
    with pytest.raises(InvalidJob, match="is not valid: at most 40 lower-case letters"):
        call(Client(kubeconfig=Path("/nowhere")), name)

"""The command that a Python module becomes."""

from typing import Any

import pytest

from slipway.core.manifests.accepted import InvalidSpec
from slipway.core.model.job import Settings
from slipway.core.model.site import Site
from slipway.core.validation.acceptance import resolve
from tests.core.build import UNLIMITED, spec
from tests.core.manifests.test_pods import make

MODULE: dict[str, Any] = {"module": "train.main"}


def words(site: Site = UNLIMITED, **module: Any) -> list[str]:
    [worker] = make(site=site, pythonModule=MODULE | module)["spec"]["containers"]
    found: list[str] = worker["command"] + worker.get("args", [])
    return found


START = ["/usr/local/bin/python", "-u", "-m", "train.main"]
ARGUMENTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "F-31 the module": ({}, START),
    "F-29 order is kept": (
        {"args": [{"name": "-w", "value": "b"}, {"name": "-a", "value": "a"}]}, [*START, "-w", "b", "-a", "a"],
    ),
    "F-29 numbers become text": ({"args": [{"name": "--n", "value": 3}]}, [*START, "--n", "3"]),
    "text that looks like a number stays": ({"args": [{"name": "--n", "value": "007"}]}, [*START, "--n", "007"]),
    "F-29 null drops the pair": (
        {"args": [{"name": "--n", "value": None}, {"name": "--m", "value": ""}]}, [*START, "--m", ""],
    ),
    "F-30 set comes last": (
        {"set": ["a=1", "b=2"], "args": [{"name": "--n", "value": 3}]}, [*START, "--n", "3", "--set", "a=1", "b=2"],
    ),
    "F-30 an empty set is nothing": ({"set": []}, START),
    "F-23 the job's own Python": ({"python": "/opt/py"}, ["/opt/py", *START[1:]]),
}  # fmt: skip


@pytest.mark.parametrize(("module", "expected"), ARGUMENTS.values(), ids=ARGUMENTS)
def test_the_command_of_a_module(module: dict[str, Any], expected: list[str]) -> None:
    assert words(**module) == expected


def test_the_python_of_a_site_comes_after_the_job_s_own() -> None:  # F-01, F-04
    site = Site(python="/site/python")
    assert words(site)[0] == "/site/python"
    assert words(site, python="/own/python")[0] == "/own/python"


EXCLUDED: dict[str, tuple[dict[str, Any], str]] = {
    "B-06 F-31 command": ({"command": ["a"]}, "spec.pythonModule: command and pythonModule exclude each other"),
    "B-06 args": ({"args": ["a"]}, "spec.pythonModule: args and pythonModule exclude each other"),
    "ray": ({"ray": {"entrypoint": "a"}}, "spec.pythonModule: pythonModule means nothing beside ray"),
}


@pytest.mark.parametrize(("fields", "said"), EXCLUDED.values(), ids=EXCLUDED)
@pytest.mark.row("B-06")
def test_what_says_otherwise_what_runs_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidSpec) as refused:
        resolve(spec(pythonModule=MODULE, **fields), Settings())
    assert refused.value.message.startswith(said)


def test_jobs_without_a_module_run_what_they_did() -> None:
    [worker] = make(command=["a"], args=["b"])["spec"]["containers"]
    assert (worker["command"], worker["args"]) == (["a"], ["b"])

"""A job that is submitted when there is one of its name."""

from typing import Any

import pytest
from click.testing import CliRunner

from slipway.cli.main import main
from tests.cli.api_server import JOBS, ApiServer

WHOLE = ("--hosts", "2", "-e", "LR=1", "--max-failures", "0")
ADDED: dict[str, dict[str, Any]] = {
    "nothing is added": {},
    "defaults are added": {"slices": 1, "retries": {"maxFailures": 10, "enabled": True}},
    "a webhook adds something": {"serviceAccountName": "robot", "nodeSelector": {"zone": "a"}},
}
AGAIN: dict[str, tuple[tuple[str, ...], tuple[str, ...], str]] = {
    "the same": (WHOLE, WHOLE, ""),
    "with less": (WHOLE, (), "hosts, env, retries"),
    "with more": ((), WHOLE, "hosts, env, retries"),
    "with another value": (("--hosts", "2"), ("--hosts", "3"), "hosts"),
}


@pytest.mark.parametrize("added", ADDED.values(), ids=ADDED)
@pytest.mark.parametrize(("first", "then", "others"), AGAIN.values(), ids=AGAIN)
def test_another_job_of_the_name_is_refused_and_the_same_changes_nothing(
    api_server: ApiServer, added: dict[str, Any], first: tuple[str, ...], then: tuple[str, ...], others: str
) -> None:
    api_server.added = added
    submitted(first)
    before = dict(api_server.jobs)
    done = submitted(then)
    words = f"Error: SliceJob train: SliceJob train in team-a exists with another {others}: choose another name"
    assert done.startswith(words if others else "slicejob train unchanged\n")
    assert api_server.jobs == before


def test_a_job_that_was_not_there_is_asked_about_once(api_server: ApiServer) -> None:
    assert submitted(WHOLE) == "slicejob train created\n"
    assert api_server.asked.count(f"POST {JOBS}") == 1


def submitted(flags: tuple[str, ...]) -> str:
    """What is said of a job with these flags."""
    done = CliRunner().invoke(main, ["submit", "--image", "a:1", "--name", "train", *flags, "--", "true"])
    return "".join(line for line in done.output.splitlines(keepends=True) if not line.startswith("Warning: "))

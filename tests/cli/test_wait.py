"""What `slipway wait` says of a job that is where it should be, or is gone."""

import re
from typing import Any

import pytest
from click.testing import CliRunner

from slipway.cli.main import main
from tests.cli.api_server import JOBS, NOW, ApiServer, failed, job
from tests.cli.terminal import Terminal
from tests.waiting import ANSWER_SECONDS

FAILED = "slicejob train is Failed: it failed as often as it may\n"
STATES: dict[str, tuple[tuple[str, ...], int, str]] = {
    "nothing else": ((), 1, FAILED),
    "failed": (("failed",), 0, FAILED),
    "succeeded": (("succeeded",), 1, FAILED),
    "deleted or failed": (("deleted", "failed"), 0, FAILED),
    "failed or deleted": (("failed", "deleted"), 0, FAILED),
    "deleted or finished": (("deleted", "finished"), 1, FAILED),
    "deleted": (("deleted",), 124, ""),
    "deleted or succeeded": (("deleted", "succeeded"), 124, ""),
}


@pytest.mark.parametrize(("states", "code", "words"), STATES.values(), ids=STATES)
def test_a_job_that_is_there_is_not_said_to_be_deleted(
    api_server: ApiServer, states: tuple[str, ...], code: int, words: str
) -> None:
    api_server.put(failed("train"))
    wanted = [word for state in states for word in ("--for", state)]
    patience = "2s" if code == 124 else f"{ANSWER_SECONDS}s"
    done = CliRunner().invoke(main, ["wait", "train", *wanted, "--timeout", patience])
    assert (done.exit_code, done.stdout) == (code, words), done.output


ONE_LOOK: dict[str, tuple[dict[str, Any], int, str]] = {
    "it has ended": (failed("train"), 1, FAILED.rstrip()),
    "it runs": (job("train", "Running"), 124, "Error: SliceJob train is Running after 0 s"),
    "there is none": (job("other", "Running"), 4, "Error: there is no SliceJob train in namespace team-a"),
}


@pytest.mark.parametrize(("stored", "code", "words"), ONE_LOOK.values(), ids=ONE_LOOK)
def test_a_wait_of_no_time_looks_once(api_server: ApiServer, stored: dict[str, Any], code: int, words: str) -> None:
    api_server.put(stored)
    done = CliRunner().invoke(main, ["wait", "train", "--timeout", "0"])
    assert done.exit_code == code, done.output
    assert words in done.output


@pytest.mark.parametrize("states", [("deleted",), ("deleted", "failed"), ("deleted", "finished")], ids=" or ".join)
def test_a_job_that_is_deleted_meanwhile_is_said_to_be(api_server: ApiServer, states: tuple[str, ...]) -> None:
    api_server.put(job("train", "Running"))
    api_server.deleted_while_watched = True
    done = CliRunner().invoke(main, ["wait", "train", *(word for state in states for word in ("--for", state))])
    assert (done.exit_code, done.stdout) == (0, "slicejob train deleted\n"), done.output


@pytest.mark.parametrize("states", [("deleted",), ("deleted", "failed"), ("deleted", "finished")], ids=" or ".join)
def test_a_job_that_is_deleted_as_soon_as_it_was_seen_is_said_to_be(
    api_server: ApiServer, states: tuple[str, ...]
) -> None:
    api_server.put(job("train", "Running"))
    api_server.meanwhile[f"GET {JOBS}"] = api_server.jobs.clear
    done = CliRunner().invoke(main, ["wait", "train", *(word for state in states for word in ("--for", state))])
    assert (done.exit_code, done.stdout) == (0, "slicejob train deleted\n"), done.output


@pytest.mark.parametrize(("generation", "code"), [(1, 1), (2, 124)], ids=["as it was refused", "corrected since"])
def test_a_job_that_was_refused_is_waited_for_once_it_was_corrected(
    api_server: ApiServer, generation: int, code: int
) -> None:
    refused = {"type": "Accepted", "status": "False", "reason": "Bad", "message": "no", "lastTransitionTime": NOW}
    found = job("train", "Invalid", conditions=[refused], attempt=None)
    found["metadata"]["generation"] = generation
    api_server.put(found)
    done = CliRunner().invoke(main, ["wait", "train", "--timeout", f"{ANSWER_SECONDS}s" if code == 1 else "0.5s"])
    assert (done.exit_code, done.stdout) == (code, "slicejob train is Invalid: no\n" if code == 1 else ""), done.output


IN_LINES: dict[str, tuple[dict[str, str], bool]] = {
    "a file": ({}, False),
    "a file, with colours": ({"FORCE_COLOR": "1"}, False),
    "a file that is said to be a terminal": ({"TTY_COMPATIBLE": "1"}, False),
    "a terminal that cannot draw": ({"TERM": "dumb"}, True),
}


@pytest.mark.parametrize(("environment", "at_terminal"), IN_LINES.values(), ids=IN_LINES)
def test_a_line_is_printed_where_no_picture_can_be_drawn_again(
    api_server: ApiServer, environment: dict[str, str], at_terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    api_server.put(job("train", "Running"))
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    command = ("wait", "train", "--timeout", "2s")
    if at_terminal:
        with Terminal(*command) as terminal:
            assert terminal.end() == 124
            printed = terminal.written
    else:
        printed = CliRunner().invoke(main, command).stderr
    line, error = printed.splitlines()
    assert re.fullmatch(r"\d\d:\d\d:\d\d train attempt 0 Running: .*", line), printed
    assert error == "Error: SliceJob train is Running after 2 s: Slipway has not seen the job yet"

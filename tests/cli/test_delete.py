"""The question of `slipway delete`, at a terminal, and what it says when its answer is lost."""

from typing import Any

import pytest
from click.testing import CliRunner

from slipway.cli.main import main
from tests.cli.api_server import JOBS, ApiServer, job
from tests.cli.terminal import Terminal


@pytest.fixture(autouse=True)
def _three_jobs(api_server: ApiServer) -> None:
    api_server.put(*(job(name, "Running") for name in ("a", "b", "c")))


def test_one_ctrl_c_at_the_question_ends_the_command(api_server: ApiServer) -> None:
    with Terminal("delete", "a", "b") as terminal:
        terminal.until("SliceJob a is Running. Delete it with its pods? [y/N]: ")
        terminal.interrupt()
        assert terminal.end() == 130
        assert "\nError: interrupted\n" in terminal.written
    assert list(api_server.jobs) == ["a", "b", "c"]


def test_no_is_about_one_job_and_the_next_is_asked_about(api_server: ApiServer) -> None:
    with Terminal("delete", "a", "b", "c") as terminal:
        for name, answer in (("a", "y"), ("b", "n"), ("c", "y")):
            terminal.until(f"SliceJob {name} is Running")
            terminal.type(answer)
        assert terminal.end() == 1
        assert "slicejob a deleted\n" in terminal.written
        assert "Error: SliceJob b was not deleted\n" in terminal.written
        assert "slicejob c deleted\n" in terminal.written
    assert list(api_server.jobs) == ["b"]


def test_ctrl_c_after_an_answer_says_what_was_deleted(api_server: ApiServer) -> None:
    with Terminal("delete", "a", "b") as terminal:
        terminal.until("SliceJob a is Running")
        terminal.type("y")
        terminal.until("SliceJob b is Running")
        terminal.interrupt()
        assert terminal.end() == 130
        assert "slicejob a deleted\n" in terminal.written
    assert list(api_server.jobs) == ["b", "c"]


DELETION = f"DELETE {JOBS}/a"
LATER: dict[str, dict[str, Any] | None] = {
    "nothing has its name": None,
    "another job has its name": job("a", "Pending") | {"metadata": job("a", "Pending")["metadata"] | {"uid": "later"}},
}


@pytest.mark.parametrize("later", LATER.values(), ids=LATER)
def test_a_job_whose_deletion_was_carried_out_and_not_answered_is_said_to_be_deleted(
    api_server: ApiServer, later: dict[str, Any] | None
) -> None:
    api_server.loses_deletions, api_server.successor = True, later
    done = CliRunner().invoke(main, ["delete", "a"])
    assert (done.exit_code, done.output) == (0, "slicejob a deleted\n")
    assert api_server.asked.count(DELETION) == 2
    assert api_server.jobs.get("a") == later


def test_a_job_that_somebody_else_has_deleted_is_not_said_to_be(api_server: ApiServer) -> None:
    api_server.meanwhile[DELETION] = lambda: api_server.jobs.pop("a")
    done = CliRunner().invoke(main, ["delete", "a"])
    assert (done.exit_code, "slicejob a deleted" in done.output) == (4, False), done.output
    assert api_server.asked.count(DELETION) == 1


LATER_A = job("a", "Running") | {"metadata": job("a", "Running")["metadata"] | {"uid": "later"}}


def test_a_deleted_job_is_not_waited_for_any_more_where_another_has_its_name(api_server: ApiServer) -> None:
    api_server.successor = LATER_A
    with Terminal("delete", "a", "--yes", "--wait") as terminal:
        assert terminal.end() == 0
        assert terminal.written == "slicejob a deleted\n"
    assert api_server.jobs["a"] == LATER_A


def test_yes_is_about_the_job_that_was_asked_about(api_server: ApiServer) -> None:
    with Terminal("delete", "a") as terminal:
        terminal.until("SliceJob a is Running. Delete it with its pods? [y/N]: ")
        api_server.put(LATER_A)
        terminal.type("y")
        assert terminal.end() == 4
        assert "a later job has its name" in terminal.written
    assert api_server.jobs["a"] == LATER_A

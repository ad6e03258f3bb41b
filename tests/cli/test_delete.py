"""The question of `slipway delete`, at a terminal."""

import pytest

from tests.cli.api_server import ApiServer, job
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

"""The page of the command line names every command and every exit code."""

import re

import pytest

from slipway.cli import common
from slipway.cli.main import COMMANDS
from tests.conftest import ROOT

PAGE = (ROOT / "docs/cli.md").read_text()
CODES = [
    common.FAILED, common.USAGE, common.NOTHING_TO_TALK_TO, common.NOT_FOUND, common.FINISHED, common.TIMEOUT,
    common.INTERRUPTED,
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_is_on_the_page(command: str) -> None:
    assert re.search(rf"`slipway {command}[ `]", PAGE)


def test_the_exit_codes_are_on_the_page() -> None:
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", PAGE, re.MULTILINE)] == [0, *CODES]

"""A cluster without the CRD: what scripts tell by exit code 4, that a job is gone, is not said of it."""

import pytest
from click.testing import CliRunner

from slipway.cli.main import main
from tests.cli.api_server import ApiServer

FLAGS = ("--image", "a:1", "--name", "train", "--", "true")
COMMANDS: dict[str, tuple[str, ...]] = {
    "cancel": ("cancel", "train"),
    "delete": ("delete", "train"),
    "describe": ("describe", "train"),
    "list": ("list",),
    "logs": ("logs", "train"),
    "run": ("run", *FLAGS),
    "submit": ("submit", *FLAGS),
    "top": ("top",),
    "wait": ("wait", "train"),
    "why": ("why", "train"),
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_command_says_that_there_is_no_crd(api_server: ApiServer, command: tuple[str, ...]) -> None:
    api_server.knows_slicejobs = False
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 3, done.output
    assert "this cluster has no SliceJobs: Slipway's CRD is not installed" in done.stderr

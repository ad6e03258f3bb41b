"""What commands show to those who may not read all of it."""

import json

import pytest
from click.testing import CliRunner

from slipway.cli.main import main
from tests.cli.api_server import ApiServer, failed

FORBIDDEN: dict[str, tuple[str, ...]] = {"pods": ("pods",), "Events": ("events",), "both": ("pods", "events")}


@pytest.mark.parametrize("kinds", FORBIDDEN.values(), ids=FORBIDDEN)
def test_a_job_is_described_without_what_may_not_be_listed(api_server: ApiServer, kinds: tuple[str, ...]) -> None:
    api_server.put(failed("train"))
    api_server.forbidden = kinds
    warnings = [f"Warning: not all is shown: {kind} is forbidden: User u cannot list them" for kind in kinds]
    done = CliRunner().invoke(main, ["describe", "train"])
    assert (done.exit_code, done.stderr.splitlines()) == (0, warnings)
    assert "it failed as often as it may" in done.stdout
    done = CliRunner().invoke(main, ["describe", "train", "-o", "json"])
    assert (done.exit_code, done.stderr.splitlines()) == (0, warnings)
    assert json.loads(done.stdout)["status"]["phase"] == "Failed"

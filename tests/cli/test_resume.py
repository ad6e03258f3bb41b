"""`slipway resume`."""

from typing import Any

import pytest
from click.testing import CliRunner

from slipway.cli.main import main
from tests.cli.api_server import JOBS, ApiServer, job

RESUMED: dict[str, tuple[str, dict[str, Any], int, str, bool]] = {
    "a suspended job": ("Suspended", {"suspend": True}, 0, "slicejob train resumed\n", True),
    "one that is not suspended yet": ("Running", {"suspend": True}, 0, "slicejob train resumed\n", True),
    "one that runs": ("Running", {}, 0, "slicejob train was not suspended; nothing was changed\n", False),
    "one that cannot begin": ("Invalid", {}, 0, "slicejob train was not suspended; nothing was changed\n", False),
    "one that was resumed": (
        "Starting",
        {"suspend": False},
        0,
        "slicejob train was not suspended; nothing was changed\n",
        False,
    ),
    "one that has ended": ("Failed", {}, 5, "SliceJob train is Failed already; nothing was changed.\n", False),
}


@pytest.mark.parametrize(("phase", "spec", "code", "said", "asks"), RESUMED.values(), ids=RESUMED)
def test_resume_says_what_became_of_the_job(
    api_server: ApiServer, phase: str, spec: dict[str, Any], code: int, said: str, asks: bool
) -> None:
    stored = job("train", phase)
    api_server.put(stored | {"spec": stored["spec"] | spec})
    done = CliRunner().invoke(main, ["resume", "train"])
    assert (done.exit_code, done.output) == (code, said)
    assert (f"PATCH {JOBS}/train" in api_server.asked) is asks

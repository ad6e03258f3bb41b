"""Who follows a job with `run` and lets go of it."""

import signal
import subprocess
from typing import Final

import pytest

from tests.local_engine.engine import IMAGE, Engine, User
from tests.waiting import START_SECONDS

OBEDIENT: Final = "trap exit TERM; sleep 1000 & wait"
"""Ends as soon as it is asked to."""


# N-25, F-64: `run` tells a user who interrupts it what becomes of the job, with the commands that find it.
@pytest.mark.parametrize(
    ("command", "options", "phase", "words"),
    [
        pytest.param(
            ("local", "run"), (), "Running",
            "slicejob train goes on by itself. Follow it with `slipway local logs train -f` or `slipway local wait "
            "train`, end it with `slipway local cancel train`", id="it goes on",
        ),
        pytest.param(
            ("run", "--on", "local"), (), "Running", "Follow it with `slipway local logs train -f`",
            id="it goes on, by the command for all places",
        ),
        pytest.param(
            ("local", "run"), ("--cancel-on-interrupt",), "Cancelled", "slicejob train was cancelled",
            id="it is cancelled on request",
        ),
    ],
)  # fmt: skip
@pytest.mark.thorough
def test_run_is_interrupted(
    user: User, engine: Engine, command: tuple[str, ...], options: tuple[str, ...], phase: str, words: str
) -> None:
    job = ("--image", IMAGE, "--name", "train", *options, "--", "sh", "-c", OBEDIENT)
    run = user.any(*command, *job, stderr=subprocess.PIPE)
    engine.running("train")
    user.until("Running")
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=START_SECONDS)
    assert (run.returncode, words in said.decode()) == (130, True), said.decode()
    if phase == "Cancelled":
        user.ended()
    assert user.status()["phase"] == phase
    assert len(engine.containers("train")) == (phase == "Running")

"""The engine and the supervisor of a job may go at any moment; no attempt is lost, charged twice or run twice."""

import os
import random
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

from tests.local_engine.engine import Dockerd, Engine, User
from tests.stages import thorough_but
from tests.waiting import pause, until

MOMENTS: Final = 20
"""How often the supervisor is killed."""
FAILURES: Final = 4
STAMPED: Final = f"""
echo "begin $SLIPWAY_ATTEMPT $SLIPWAY_RANK $(date +%s%N)" >> /shared/stamps
sleep 1.$(( (SLIPWAY_ATTEMPT * 37 + SLIPWAY_RANK * 11) % 100 ))
echo "end $SLIPWAY_ATTEMPT $SLIPWAY_RANK" >> /shared/stamps
[ $SLIPWAY_ATTEMPT -ge {FAILURES} ] || exit 3
until [ -e /shared/enough ]; do sleep 0.1; done
"""
"""The last attempt goes on until its supervisor was killed often enough, however fast the machine is."""


# F-69, D-03: an engine that stops takes its containers along, which is no failure of the program. The job goes on.
@pytest.mark.parametrize("how", thorough_but({"kill"}, ["stop", "kill"]))
def test_the_engine_goes_and_comes_back(user: User, dockerd: Dockerd, engine: Engine, how: str) -> None:
    # The containers outlive the engine's hanging up by so long: the supervisor may be late to see it.
    grace = {"terminationGracePeriodSeconds": 10}
    user.submit("[ $SLIPWAY_ATTEMPT -gt 0 ] || sleep 1000", hosts=2, **grace)
    engine.running("train", 2)
    user.until("Running")
    dockerd.stop() if how == "stop" else dockerd.kill()
    try:
        away = f"Warning: The Docker engine is not reachable at {dockerd.host}: "
        for words in (("list",), ("why", "train"), ("describe", "train")):
            told = user.slipway(*words)
            assert "Running" in told.out
            assert told.err.startswith(away)
        user.only_supervisor()
        pause(1)
    finally:
        dockerd.start()
    status = user.ended()
    assert (status["phase"], status["attempt"], status["failures"]) == ("Succeeded", 1, 0)
    [_, taken] = status["attempts"]
    assert taken["cause"] in ("preemption", "infrastructure")
    assert status["preemptions"] == 1


# A job that is cancelled while there is no engine ends when there is one again; a supervisor waits for it. The logs of
# jobs that have ended can be read meanwhile.
@pytest.mark.thorough
def test_a_supervisor_begins_while_there_is_no_engine(user: User, dockerd: Dockerd, engine: Engine) -> None:
    user.submit("echo kept", "before")
    user.ended("before")
    user.submit("sleep 1000")
    engine.running("train")
    user.until("Running")
    os.kill(user.only_supervisor(), signal.SIGKILL)
    dockerd.stop()
    try:
        until("a supervisor", user.adopted)
        assert user.slipway("cancel", "train").out == "slicejob train will be cancelled when its engine answers\n"
        until("the supervisor's words", lambda: "not reachable" in user.log())
        waiting = user.only_supervisor()
        assert "is not reachable" in user.command("logs", "train", code=3).err
        assert user.slipway("logs", "before").out == "kept\n"
    finally:
        dockerd.start()
    assert user.only_supervisor() == waiting
    status = user.ended()
    assert (status["phase"], status["failures"]) == ("Cancelled", 0)


# G-03: killed at any moment, a supervisor is followed by another that goes on where it was.
@pytest.mark.thorough
def test_a_supervisor_is_killed_again_and_again(user: User, engine: Engine, shared: dict[str, Any]) -> None:
    chance = random.Random(7)
    budget = {"maxFailures": FAILURES + 1, "gracePeriodSeconds": 1}
    user.submit(STAMPED, hosts=2, retries=budget, **shared)
    folder = Path(shared["volumes"][0]["hostPath"]["path"])
    killed = 0
    while killed < MOMENTS and not user.status().get("completionTime"):
        until("a supervisor", user.adopted)
        pause(chance.uniform(0, 2))
        for pid in user.supervisors():
            # One may just have ended by itself.
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                killed += 1
    assert killed >= MOMENTS, "the job was over too soon"
    (folder / "enough").touch()
    until("a supervisor", user.adopted)
    status = user.ended()
    assert (status["phase"], status["attempt"], status["failures"], status["preemptions"]) == (
        "Succeeded", FAILURES, FAILURES, 0,
    )  # fmt: skip
    assert [one["number"] for one in status["attempts"]] == list(range(FAILURES, -1, -1))
    assert {one["root"]["exitCode"] for one in status["attempts"][1:]} == {3}
    events = user.slipway("events", "train").out
    told = [f"attempt {number} (failure {number + 1} of {FAILURES + 1})" for number in range(FAILURES)]
    assert [events.count(words) for words in told] == [1] * FAILURES
    assert events.count("AttemptFailed") == FAILURES
    begun = [line.split() for line in (folder / "stamps").read_text().splitlines()]
    attempts = [int(words[1]) for words in begun]
    assert attempts == sorted(attempts), "two attempts overlap"
    assert len(begun) == len({tuple(words[:3]) for words in begun}), "a host ran twice in one attempt"
    for attempt in range(FAILURES + 1):
        log = user.slipway("logs", "train", "--attempt", str(attempt))
        assert "was not kept" not in log.err

"""How attempts end on this machine, and what the job makes of it."""

from typing import Any

import pytest

from tests.local_engine.engine import Engine, User

# The kernel tells the engine of the OOM through the container's cgroup, so the shell keeps that for a while.
RUNS_OUT_OF_MEMORY = "tail -c 60000000 /dev/zero; code=$?; sleep 3; exit $code"
FAILS_ONCE = 'echo "attempt $SLIPWAY_ATTEMPT"; [ $SLIPWAY_ATTEMPT -gt 0 ] || { echo "no luck" >&2; exit 3; }'


def cause(attempt: dict[str, Any]) -> tuple[Any, ...]:
    root = attempt.get("root", {})
    return attempt["number"], attempt["cause"], attempt["reason"], root.get("exitCode")


# D-02, N-15: the failure is counted, its cause and its last words are kept, and the job goes on by itself.
def test_a_job_that_fails_goes_on_within_its_budget(user: User) -> None:
    user.submit(FAILS_ONCE, hosts=2, retries={"maxFailures": 2})
    status = user.ended()
    assert (status["phase"], status["attempt"], status["failures"], status["preemptions"]) == ("Succeeded", 1, 1, 0)
    [failed] = status["attempts"][1:]
    assert cause(failed) == (0, "failure", "ExitCode", 3)
    assert "no luck" in failed["root"]["log"]


# The budget, its limit and the attempts that used it are named.
def test_a_job_that_fails_too_often_has_failed(user: User) -> None:
    user.submit("echo last words; exit 7", retries={"maxFailures": 2})
    status = user.ended()
    assert (status["phase"], status["attempt"], status["failures"]) == ("Failed", 1, 2)
    assert [cause(one) for one in status["attempts"]] == [(1, "failure", "ExitCode", 7), (0, "failure", "ExitCode", 7)]
    why = user.slipway("why", "train").out
    assert "retries.maxFailures 2 used up by attempts 0, 1" in why
    assert "last words" in why
    assert "last words" in user.slipway("describe", "train").out
    assert user.slipway("wait", "train", code=1).code == 1


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param(
            {"command": ["sh", "-c", RUNS_OUT_OF_MEMORY], "resources": {"limits": {"memory": "30Mi"}}},
            (0, "failure", "OOMKilled", 137),
            id="more memory than its limit",
        ),
        pytest.param({"command": ["/no/such/program"]}, (0, "failure", "CannotStart", 128), id="no such program"),
        pytest.param(
            {"command": ["sh", "-c", "sh -c 'kill -9 $$$$'; exit $?"]},
            (0, "failure", "ExitCode", 137),
            id="killed by itself",
        ),
    ],
)
def test_the_cause_of_an_end(user: User, spec: dict[str, Any], expected: tuple[Any, ...]) -> None:
    user.submit(retries={"maxFailures": 0}, **spec)
    status = user.ended()
    assert status["phase"] == "Failed"
    assert [cause(one) for one in status["attempts"]] == [expected]


# Waiting would not help a program that cannot be started: it is known at once, and given up after a few tries.
def test_a_start_error_is_told_at_once(user: User) -> None:
    user.submit(command=["/no/such/program"], retries={"maxFailures": 9, "maxStartFailures": 2})
    status = user.ended()
    assert (status["phase"], status["attempt"]) == ("Failed", 1)
    assert [cause(one)[2] for one in status["attempts"]] == ["CannotStart", "CannotStart"]
    assert "/no/such/program" in user.slipway("why", "train").out


# F-69: whoever removes a container by hand takes a host away; the program is not to blame.
@pytest.mark.parametrize(
    ("act", "expected"),
    [
        pytest.param("kill", (0, "failure", "ExitCode"), id="docker kill looks like a program that is killed"),
        pytest.param("remove", (0, "preemption", "PodDeleted"), id="docker rm -f takes the host away"),
    ],
)
def test_what_is_done_to_a_container_by_hand(user: User, engine: Engine, act: str, expected: tuple[Any, ...]) -> None:
    user.submit("[ $SLIPWAY_ATTEMPT -gt 0 ] || sleep 1000", hosts=2)
    one, _ = engine.running("train", 2)
    one.kill() if act == "kill" else one.remove(force=True)
    status = user.ended()
    assert status["phase"] == "Succeeded"
    *found, code = cause(status["attempts"][1])
    assert tuple(found) == expected
    # A container that is removed may be gone before anybody has read its exit code.
    assert code == 137 or (code is None and act == "remove")

"""How attempts end on this machine, and what the job makes of it."""

import os
import signal
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from docker.models.containers import Container

from tests.local_engine.engine import Dockerd, Engine, User
from tests.waiting import until

# The engine watches the container's cgroup for an OOM once it has started the container, so the shell waits for that
# before, and keeps the cgroup until the engine has heard.
RUNS_OUT_OF_MEMORY = """
until [ -e /shared/started ]; do sleep 0.1; done
tail -c 60000000 /dev/zero; code=$?
until [ -e /shared/heard ]; do sleep 0.1; done
exit $code
"""
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


def test_more_memory_than_its_limit_is_the_cause(user: User, engine: Engine, shared: dict[str, Any]) -> None:
    limits = {"limits": {"memory": "30Mi"}}
    user.submit(RUNS_OUT_OF_MEMORY, retries={"maxFailures": 0}, resources=limits, **shared)
    folder = Path(shared["volumes"][0]["hostPath"]["path"])
    [one] = engine.running("train")
    (folder / "started").touch()
    until("the engine's word", lambda: has_heard_of_oom(engine, one))
    (folder / "heard").touch()
    status = user.ended()
    assert status["phase"] == "Failed"
    assert [cause(one) for one in status["attempts"]] == [(0, "failure", "OOMKilled", 137)]


def has_heard_of_oom(engine: Engine, one: Container) -> bool:
    """Whether the engine has told of it, which not every version shows in the state of a container that runs."""
    filters, now = {"container": one.id, "event": "oom"}, int(datetime.now(UTC).timestamp())
    return list(engine.client.events(since=0, until=now, filters=filters)) != []


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
@pytest.mark.thorough
def test_what_is_done_to_a_container_by_hand(
    user: User, dockerd: Dockerd, engine: Engine, act: str, expected: tuple[Any, ...]
) -> None:
    user.submit("[ $SLIPWAY_ATTEMPT -gt 0 ] || sleep 1000", hosts=2)
    one, _ = engine.running("train", 2)
    if act == "kill":
        one.kill()
    elif dockerd.shows_removals:
        one.remove(force=True)
    else:
        remove_unseen(user, one)
    status = user.ended()
    assert status["phase"] == "Succeeded"
    *found, code = cause(status["attempts"][1])
    assert tuple(found) == expected
    # A container that is removed may be gone before anybody has read its exit code.
    assert code == 137 or (code is None and act == "remove")


def remove_unseen(user: User, one: Container) -> None:
    """Remove a container by force while its supervisor does not look.

    It looks once more soon after a container was killed, and a busy engine may not have begun to remove it by then.
    """
    user.until("Running")
    supervisor = user.only_supervisor()
    os.kill(supervisor, signal.SIGSTOP)
    try:
        one.remove(force=True)
    finally:
        os.kill(supervisor, signal.SIGCONT)

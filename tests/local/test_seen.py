"""Containers seen as pods (F-65 to F-68)."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from slipway.api.places import worker
from slipway.local.containers.container_state import Circumstances, Deletion, lacks_port
from slipway.local.containers.host import Host

CREATED = "2026-01-01T00:00:00.123456789Z"
STARTED, FINISHED = datetime(2026, 1, 1, 0, 0, 1, tzinfo=UTC), datetime(2026, 1, 1, 0, 1, tzinfo=UTC)
ENDED = ("exited", "removing", "dead")
NEVER = "0001-01-01T00:00:00Z"
HERE = Circumstances("here")


def container(status: str, **state: Any) -> dict[str, Any]:
    own = {
        "Status": status,
        "Error": "",
        "ExitCode": 0,
        "OOMKilled": False,
        "StartedAt": STARTED.isoformat().replace("+00:00", "Z") if status != "created" else NEVER,
        "FinishedAt": FINISHED.isoformat().replace("+00:00", "Z") if status in ENDED else NEVER,
    }
    labels = {
        "slipway.dev/job-name": "train",
        "slipway.dev/job-uid": "u",
        "slipway.dev/attempt": "2",
        "slipway.dev/slice": "1",
        "slipway.dev/host": "3",
        "slipway.dev/role": "worker",
    }
    return {
        "Id": "abc",
        "Name": "/train-2-1-3",
        "Created": CREATED,
        "Config": {"Labels": labels},
        "State": own | state,
    }


def seen(status: str, about: Circumstances = HERE, **state: Any) -> Any:
    return Host(container(status, **state)).pod(about, 7)


@pytest.mark.parametrize(
    ("status", "state", "phase", "words"),
    [
        pytest.param("created", {}, "Pending", "waiting", id="created"),
        pytest.param("restarting", {}, "Running", "waiting", id="restarting"),
        pytest.param("running", {}, "Running", "running", id="running"),
        pytest.param("paused", {}, "Running", "running", id="paused containers hold what they hold"),
        pytest.param("removing", {"ExitCode": 137}, "Failed", "Error", id="being removed"),
        pytest.param("removing", {}, "Succeeded", "Completed", id="being removed after an exit 0"),
        pytest.param(
            "removing", {"FinishedAt": NEVER}, "Failed", "ContainerStatusUnknown", id="being removed unstarted"
        ),
        pytest.param("exited", {}, "Succeeded", "Completed", id="exited 0"),
        pytest.param("exited", {"ExitCode": 3}, "Failed", "Error", id="exited 3"),
        pytest.param("exited", {"ExitCode": 137, "OOMKilled": True}, "Failed", "OOMKilled", id="out of memory"),
        pytest.param("exited", {"ExitCode": None}, "Failed", "Error", id="no readable exit code (F-68)"),
        pytest.param("dead", {}, "Failed", "Error", id="dead, whatever its code (F-67)"),
        pytest.param("created", {"Error": "exec: nope"}, "Failed", "StartError", id="could not be started"),
        pytest.param("of another version", {}, "Running", "running", id="an unknown state is no crash"),
    ],
)
def test_a_state_of_a_container_is_a_state_of_a_pod(status: str, state: dict[str, Any], phase: str, words: str) -> None:
    found = seen(status, **state)
    assert found.status.phase == phase
    own = found.worker
    end = own.terminated
    assert words == (end.reason if end else "running" if own.running else "waiting")


def test_a_pod_has_the_place_and_the_dates_of_its_container() -> None:
    found = seen("exited", ExitCode=3, about=Circumstances("here", tail="last words"))
    assert (found.attempt, found.place, found.metadata.uid) == (2, worker(1, 3), "abc")
    assert found.bound_at is not None
    assert found.bound_at.year == 2026
    end = found.worker.terminated
    assert (end.exit_code, end.message, end.started_at, end.finished_at) == (3, "last words", STARTED, FINISHED)
    assert found.spec.node_name == "here"


def test_the_exit_code_of_a_container_without_one_is_1() -> None:
    assert seen("exited", ExitCode=None).worker.terminated.exit_code == 1


def test_the_end_of_a_container_that_could_not_be_removed_has_a_date() -> None:
    """Its end explains nothing that came before it, as that of a container whose end nobody has seen may."""
    found = seen("dead", ExitCode=137)
    assert (found.worker.terminated.finished_at, found.termination_unobserved) == (FINISHED, False)


def test_what_slipway_stops_terminates_from_then_on() -> None:
    found = seen("running", Circumstances("here", deletion=Deletion(STARTED, 5)))
    assert found.terminating
    assert found.deletion_requested_at == STARTED


@pytest.mark.parametrize(
    ("away", "reason"),
    [
        pytest.param((-2, 30), "NodeShutdown", id="it ended while the engine was away"),
        pytest.param((0.5, 30), "NodeShutdown", id="this process has noticed late that the engine hung up"),
        pytest.param((5, 30), "", id="it had ended before"),
        pytest.param((-60, -30), "", id="it ended later"),
    ],
)
def test_an_engine_that_stops_takes_its_containers_along(away: tuple[float, float], reason: str) -> None:
    since, until = (FINISHED + timedelta(seconds=one) for one in away)
    found = seen("exited", Circumstances("here", outages=((since, until),)), ExitCode=143)
    assert found.status.reason == reason


@pytest.mark.parametrize(
    ("since", "phase", "reason"),
    [
        pytest.param(-2, "Failed", "NodeShutdown", id="the engine was away"),
        pytest.param(0.5, "Failed", "NodeShutdown", id="this process has noticed late that the engine hung up"),
        pytest.param(5, "Succeeded", "", id="it had ended before"),
    ],
)
def test_an_exit_0_on_sigterm_is_no_success(since: float, phase: str, reason: str) -> None:
    away = (FINISHED + timedelta(seconds=since), FINISHED + timedelta(seconds=30))
    found = seen("exited", Circumstances("here", outages=(away,)))
    assert (found.status.phase, found.status.reason) == (phase, reason)


@pytest.mark.parametrize("status", ["removing", "dead"])
def test_what_somebody_removes_is_deleted(status: str) -> None:
    assert seen(status, ExitCode=137).deletion_requested_at == FINISHED
    # The engine does not date the removal of one that never ran.
    noticed = FINISHED + timedelta(seconds=7)
    about = Circumstances("here", removed={container(status)["Id"]: noticed})
    assert seen(status, about, FinishedAt=NEVER).deletion_requested_at == noticed


@pytest.mark.parametrize(
    ("why", "lacks"),
    [
        pytest.param(
            "driver failed programming external connectivity on endpoint train-0-0-0 (f00): Bind for 0.0.0.0:18080 "
            "failed: port is already allocated", True, id="another container has it",
        ),
        pytest.param(
            "driver failed programming external connectivity on endpoint train-0-0-0 (f00): Error starting userland "
            "proxy: listen tcp4 0.0.0.0:18080: bind: address already in use", True, id="another program has it",
        ),
        pytest.param(
            "cannot listen on the TCP port: listen tcp4 :18080: bind: address already in use", True, id="Podman",
        ),
        pytest.param(
            'OCI runtime create failed: exec: "/no/such": no such file or directory', False, id="another reason",
        ),
    ],
)  # fmt: skip
def test_a_port_that_is_in_use_is_known_by_the_words_of_the_engine(why: str, lacks: bool) -> None:
    assert lacks_port(why) == lacks


def test_a_container_that_could_not_be_started_ended_when_it_was_created() -> None:
    found = seen("created", Error="exec: nope")
    assert found.worker.terminated.finished_at == found.bound_at

"""How long a job waits before its next attempt."""

from datetime import timedelta
from typing import Any

import pytest

from slipway.api.base import rfc3339
from slipway.api.ledger import Account
from slipway.api.status import Attempt, Cause, Phase, SliceJobStatus
from slipway.core.accounting.spans import LOST
from slipway.core.planner.contract.actions import CreatePods
from slipway.core.planner.lifecycle.retries import INFRASTRUCTURE_DELAYS, UNSTARTED_DELAYS, charged, next_try, verdict
from slipway.core.vocabulary.charges import CHARGES, charge_of
from tests.core.build import START, World, actions_of, spec

ENDS = {
    "failed": (Cause.FAILURE, "ExitCode"),
    "preempted": (Cause.PREEMPTION, "NodeLost"),
    "preempted before it ran": (Cause.PREEMPTION, "PodDeleted"),
    "refused": (Cause.INFRASTRUCTURE, "RefusedByNode"),
    "ignored": (Cause.UNCHARGED, "IgnoredExitCode"),
    "suspended": (Cause.UNCHARGED, "Suspended"),
    "taken": (Cause.UNCHARGED, "NodePoolTaken"),
}
BACKOFF = {"initialSeconds": 10, "maxSeconds": 60}
NONE: dict[str, int] = {}

TABLE: list[tuple[str, dict[str, int], list[str], int]] = [
    ("a failure is tried again at once", NONE, ["failed"] * 3, 0),  # E2-45
    ("a preemption of an attempt that ran always is", BACKOFF, ["preempted"] * 5, 0),
    *(
        (f"preemption {count} in a row before anything ran", NONE, ["preempted before it ran"] * count, seconds)
        for count, seconds in enumerate((0, 10, 20, 40, 80, 160, 300, 300), start=1)
    ),
    ("an attempt that ran begins that row anew", NONE, ["preempted before it ran", "preempted"] * 3, 0),
    ("the first failure waits for what was asked", BACKOFF, ["failed"], 10),
    ("each further one twice as long", BACKOFF, ["failed"] * 3, 40),
    ("but never longer than allowed", BACKOFF, ["failed"] * 4, 60),
    ("however many they are", BACKOFF, ["failed"] * 20, 60),
    ("a preemption between them begins anew", BACKOFF, ["failed", "failed", "preempted", "failed"], 10),
    ("an attempt that never got its slices does not", BACKOFF, ["failed", "failed", "taken", "failed"], 40),
    *(
        (f"refusal {count} of a host under repair", NONE, ["refused"] * count, seconds)
        for count, seconds in enumerate((10, 20, 40, 80, 160, 300, 300), start=1)
    ),
    ("a refusal after a failure is the first", NONE, ["refused", "refused", "failed", "refused"], 10),
    ("an end that is not charged could come for ever", NONE, ["ignored"], 10),
    ("a pool that was taken is left at once", NONE, ["taken"], 0),
    ("a job that goes on goes on at once", NONE, ["suspended"], 0),
    ("a record that makes no sense is no reason to wait", NONE, ["taken", "failed"], 0),
]


def history(ends: list[str]) -> SliceJobStatus:
    """A status with attempts that ended so, a minute after each other; the newest is first, as in the API."""
    attempts = [
        Attempt(
            number=number,
            cause=ENDS[end][0],
            reason=ENDS[end][1],
            start_time=START,
            running_time=None if end == "preempted before it ran" else START,
            end_time=START + timedelta(minutes=number),
        )
        for number, end in enumerate(ends)
    ]
    return SliceJobStatus(attempts=attempts[::-1])


@pytest.mark.parametrize(("backoff", "ends", "seconds"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_the_wait_before_the_next_attempt(backoff: dict[str, int], ends: list[str], seconds: int) -> None:
    status = history(ends)
    due = next_try(status, spec(retries={"backoff": backoff}))
    ended = status.attempts[0].end_time
    assert ended is not None
    assert (due - ended if due else timedelta()) == timedelta(seconds=seconds)


def test_what_deletes_pods_at_once_costs_no_attempt_a_second() -> None:
    assert sum(UNSTARTED_DELAYS) >= 600


LIMITS: dict[str, tuple[dict[str, int], dict[str, int], tuple[str, str] | None]] = {
    "below both": ({"failures": 1, "preemptions": 1}, {"maxFailures": 2, "maxPreemptions": 2}, None),
    "failures": ({"failures": 2}, {"maxFailures": 2}, ("Failed", "FailureLimitExceeded")),
    "preemptions": ({"preemptions": 2}, {"maxPreemptions": 2}, ("Preempted", "PreemptionLimitExceeded")),
    "preemptions first": (
        {"failures": 2, "preemptions": 2},
        {"maxFailures": 2, "maxPreemptions": 2},
        ("Preempted", "PreemptionLimitExceeded"),
    ),
}


@pytest.mark.row("E2-51")
@pytest.mark.parametrize(("counts", "limits", "end"), LIMITS.values(), ids=LIMITS.keys())
def test_the_preemption_limit_is_looked_at_before_the_failure_limit(
    counts: dict[str, int], limits: dict[str, int], end: tuple[str, str] | None
) -> None:
    status = history(["preempted", "failed"])
    last = status.attempts[0].model_copy(update={"message": "host 0 of slice 0 exited with code 1"})
    status = status.model_copy(update={"attempts": (last, *status.attempts[1:]), **counts})
    found = verdict(status, spec(retries=limits))
    assert (found and (found[0], found[1].reason)) == end
    if found is not None:
        limit = limits["maxPreemptions" if end == LIMITS["preemptions"][2] else "maxFailures"]
        assert f" {limit} used up by attempts" in found[1].message
        assert found[1].message.endswith("last cause: host 0 of slice 0 exited with code 1")


DISABLED: dict[str, tuple[list[str], tuple[str, str] | None]] = {
    "a failure": (["failed"], ("Failed", "attempt 0 failed and retries are disabled")),
    "a failure after a preemption": (["preempted", "failed"], ("Failed", "attempt 1 failed and retries are disabled")),
    "a failure after failures": (["failed", "failed"], ("Failed", "attempt 1 failed and retries are disabled")),
    "a preemption after a failure": (
        ["failed", "preempted"],
        ("Preempted", "attempt 1 preempted and retries are disabled"),
    ),
    "an end that is not charged": (["failed", "preempted", "suspended"], None),
}


@pytest.mark.parametrize(("ends", "expected"), DISABLED.values(), ids=DISABLED.keys())
def test_where_retries_were_disabled_meanwhile_only_the_last_attempt_counts(
    ends: list[str], expected: tuple[str, str] | None
) -> None:
    counts = {"failures": ends.count("failed"), "preemptions": ends.count("preempted")}
    found = verdict(history(ends).model_copy(update=counts), spec(retries={"enabled": False}))
    assert (found and (found[0], found[1].message.partition(";")[0])) == expected


STARTS: dict[str, tuple[list[str], dict[str, int], bool]] = {
    "three in a row": (["CannotStart"] * 3, {}, True),
    "two in a row": (["CannotStart"] * 2, {}, False),
    "a failure between": (["CannotStart", "CannotStart", "ExitCode", "CannotStart"], {}, False),
    "a wait between": (["CannotStart", "CannotStart", "CapacityReleased", "CannotStart"], {}, True),
    "another limit": (["CannotStart"], {"maxStartFailures": 1}, True),
}


@pytest.mark.parametrize(("reasons", "limits", "over"), STARTS.values(), ids=STARTS)
def test_a_command_that_never_starts_ends_the_job(reasons: list[str], limits: dict[str, int], over: bool) -> None:
    attempts = tuple(
        Attempt(number=number, start_time=START, end_time=START, reason=reason, cause=Cause.FAILURE, message="no entry")
        for number, reason in reversed(list(enumerate(reasons)))
    )
    found = verdict(SliceJobStatus(attempts=attempts, failures=len(reasons)), spec(retries=limits))
    assert (found is not None) is over
    if found is not None:
        assert (found[0], found[1].reason) == (Phase.FAILED, "StartFailureLimitExceeded")
        assert "retries.maxStartFailures" in found[1].message
        assert found[1].message.endswith("last cause: no entry")


def test_a_repair_of_ten_minutes_is_outlasted() -> None:
    assert sum(INFRASTRUCTURE_DELAYS) >= 600


@pytest.mark.parametrize(
    ("fields", "happens", "seconds"),
    [
        pytest.param({"retries": {"backoff": BACKOFF}}, lambda pod: pod.exits(1), 10, id="a failure"),
        pytest.param({}, lambda pod: pod.fails("UnexpectedAdmissionError", "no healthy devices"), 10, id="a refusal"),
    ],
)
def test_no_pod_is_made_before_the_wait_is_over_and_people_can_read_until_when(
    fields: dict[str, Any], happens: Any, seconds: int
) -> None:
    world = World(slices=1, hosts=2, **fields).run()
    happens(world.pod(0, 0))
    world.step()
    ended = world.now
    world.obey()
    waiting = world.step(seconds=1)
    due = ended + timedelta(seconds=seconds)
    assert not actions_of(waiting, CreatePods)
    assert waiting.wake_at == due
    running = world.condition("Running")
    assert running is not None
    assert rfc3339(due) in running.message
    world.now = due - timedelta(seconds=1)
    assert not actions_of(world.step(), CreatePods)
    assert actions_of(world.step(seconds=1), CreatePods)


CHARGED: list[tuple[Cause, str, str, list[str]]] = [
    (Cause.FAILURE, "AttemptFailed", "failure", ["failures"]),
    (Cause.PREEMPTION, "AttemptPreempted", "preemption", ["preemptions"]),
    (Cause.INFRASTRUCTURE, "AttemptLostToInfrastructure", "preemption", ["preemptions", "infrastructure_failures"]),
    (Cause.UNCHARGED, "AttemptEnded", "", ["uncharged"]),
]


@pytest.mark.parametrize(("cause", "event", "budget", "counts"), CHARGED, ids=[one[0] for one in CHARGED])
def test_what_a_cause_is_charged_to(cause: Cause, event: str, budget: str, counts: list[str]) -> None:
    row = charge_of(cause)
    assert (row.event, row.budget.noun if row.budget else "") == (event, budget)
    before, after = SliceJobStatus(), charged(SliceJobStatus(), cause)
    assert after == before.model_copy(update=dict.fromkeys(counts, 1))


def test_every_cause_has_a_row_and_a_count_and_where_it_is_charged_a_state_of_lost_time() -> None:
    assert CHARGES.keys() == set(Cause)
    assert {state for (state,) in LOST.values()} <= Account.model_fields.keys()
    before = SliceJobStatus()
    assert all(charged(before, cause) != before for cause in Cause)

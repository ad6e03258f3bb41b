"""What is counted of a job's attempts follows from two looks at its status, however many writes lie between them."""

import re
from datetime import timedelta
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api.ledger import Account, Ledger, Loss
from slipway.api.status import Attempt, Cause, Condition, ConditionType, Phase, Root, SliceJobStatus
from slipway.core.accounting.measures import (
    SUCCESS,
    Begun,
    Ended,
    Measure,
    Passed,
    TimedStep,
    Took,
    fenced_since,
    lost_share,
    measures,
)
from slipway.core.model.pods import Pod
from slipway.core.planner.status.waiting import WAITING_REASONS, waiting_reason
from tests.core.build import START, World
from tests.places import ROOT


def at(seconds: float) -> Any:
    return START + timedelta(seconds=seconds)


def attempt(number: int, start: float, run: float | None = None, end: float | None = None, **fields: Any) -> Attempt:
    lost = fields.pop("lost", None)
    return Attempt(
        number=number,
        start_time=at(start),
        running_time=None if run is None else at(run),
        end_time=None if end is None else at(end),
        root=None if lost is None else Root(time=at(lost)),
        **fields,
    )


def status(*newest_first: Attempt, phase: Phase = Phase.RUNNING, **fields: Any) -> SliceJobStatus:
    number = newest_first[0].number if newest_first else None
    return SliceJobStatus(phase=phase, attempt=number, attempts=newest_first, **fields)


def a_pod(number: int, host: int, created: float, bound: float) -> Pod:
    body: dict[str, Any] = {
        "metadata": {
            "name": f"train-{number}-0-{host}",
            "creationTimestamp": at(created),
            "labels": {"slipway.dev/attempt": str(number), "slipway.dev/host": str(host)},
        },
        "status": {"conditions": [{"type": "PodScheduled", "status": "True", "lastTransitionTime": at(bound)}]},
    }
    return msgspec.convert(body, Pod)


def seen(before: SliceJobStatus, after: SliceJobStatus, *pods: Pod, now: float = 1000) -> list[Measure]:
    return list(measures(before, after, pods, at(now)))


FAILED: dict[str, Any] = {"cause": Cause.FAILURE, "reason": "ExitCode"}
NEW = SliceJobStatus()


def test_the_first_attempt_is_no_restart() -> None:
    assert seen(NEW, status(attempt(0, 1), phase=Phase.STARTING)) == [Begun(None)]


def test_the_start_is_divided_by_the_last_pod_created_and_the_last_one_bound() -> None:
    pods = (a_pod(0, 0, 1, 5), a_pod(0, 1, 3, 2), a_pod(1, 0, 500, 500))
    assert seen(status(attempt(0, 1)), status(attempt(0, 1, 9)), *pods) == [
        Took(TimedStep.CREATE, 2),
        Took(TimedStep.SCHEDULE, 2),
        Took(TimedStep.START, 4),
    ]


def test_a_start_of_which_a_pod_is_not_known_to_be_bound_is_not_divided() -> None:
    unbound = Pod(metadata=a_pod(0, 1, 3, 2).metadata)
    assert seen(status(attempt(0, 1)), status(attempt(0, 1, 9)), a_pod(0, 0, 1, 5), unbound) == []


def test_an_attempt_that_is_charged_was_detected_and_fenced() -> None:
    ended = status(attempt(0, 1, 9, 30, lost=28, reason="ExitCode"), phase=Phase.RESTARTING)
    assert seen(status(attempt(0, 1, 9)), ended) == []
    # The backoff between the charge and the next attempt belongs to neither.
    charged = status(attempt(0, 1, 9, 30, lost=28, **FAILED), phase=Phase.RESTARTING)
    assert seen(ended, charged, now=37) == [
        Ended("failure", "ExitCode"),
        Took(TimedStep.DETECT, 2, Cause.FAILURE),
        Took(TimedStep.FENCE, 7, Cause.FAILURE),
    ]
    again = status(attempt(1, 60), *charged.attempts)
    assert seen(charged, again) == [Begun(Cause.FAILURE)]
    assert seen(again, status(attempt(1, 60, 70), *charged.attempts)) == [Took(TimedStep.RECOVERY, 42, Cause.FAILURE)]


def test_a_charge_and_the_next_attempt_in_one_write_are_counted_in_their_order() -> None:
    ended = status(attempt(3, 1, 9, 30, lost=28, reason="NodeLost"))
    after = status(attempt(4, 36), attempt(3, 1, 9, 30, lost=28, reason="NodeLost", cause=Cause.PREEMPTION))
    assert seen(ended, after, now=99) == [
        Ended("preemption", "NodeLost"),
        Took(TimedStep.DETECT, 2, Cause.PREEMPTION),
        Took(TimedStep.FENCE, 6, Cause.PREEMPTION),
        Begun(Cause.PREEMPTION),
    ]


def test_what_ends_uncharged_at_once_has_no_fence() -> None:
    suspended = attempt(0, 1, 9, 30, cause=Cause.UNCHARGED, reason="Suspended")
    assert seen(status(attempt(0, 1, 9)), status(suspended, phase=Phase.SUSPENDED)) == [Ended("uncharged", "Suspended")]


def test_a_success_is_counted_once() -> None:
    done = status(attempt(0, 1, 9, 30, reason="Succeeded"), phase=Phase.SUCCEEDED)
    assert seen(status(attempt(0, 1, 9)), done) == [Ended(SUCCESS, "Succeeded")]
    assert seen(done, done) == []


def test_a_program_that_ended_before_all_hosts_were_seen_running_has_no_start() -> None:
    done = status(attempt(0, 1, 30, 30, reason="Succeeded"), phase=Phase.SUCCEEDED)
    assert seen(status(attempt(0, 1)), done, a_pod(0, 0, 1, 2)) == [Ended(SUCCESS, "Succeeded")]


def test_a_recovery_spans_attempts_that_never_ran() -> None:
    lost, late = attempt(0, 1, 9, 30, lost=20, **FAILED), attempt(1, 40, None, 50, **FAILED)
    before = status(attempt(2, 60), late, lost)
    assert seen(before, status(attempt(2, 60, 80), late, lost)) == [Took(TimedStep.RECOVERY, 60, Cause.FAILURE)]


def test_a_job_that_was_suspended_meanwhile_did_not_recover() -> None:
    resumed = Condition(
        type=ConditionType.SUSPENDED, status="False", reason="NotSuspended", last_transition_time=at(50)
    )
    lost = attempt(0, 1, 9, 30, **FAILED)
    before = status(attempt(1, 60), lost, conditions=(resumed,))
    assert seen(before, status(attempt(1, 60, 80), lost, conditions=(resumed,))) == []


def test_a_failure_in_the_second_in_which_the_job_was_created_is_recovered_from() -> None:
    created = Condition(
        type=ConditionType.SUSPENDED, status="False", reason="NotSuspended", last_transition_time=at(0.2)
    )
    lost = attempt(0, 0.2, 0.7, 0.9, lost=0, **FAILED)
    before = status(attempt(1, 1), lost, conditions=(created,))
    assert seen(before, status(attempt(1, 1, 4), lost, conditions=(created,))) == [
        Took(TimedStep.RECOVERY, 4, Cause.FAILURE)
    ]


def test_clocks_that_disagree_make_no_step_negative() -> None:
    ended = status(attempt(0, 1, 9, 30, lost=31, reason="ExitCode"))
    found = seen(ended, status(attempt(0, 1, 9, 30, lost=31, **FAILED)), now=29)
    assert [one.seconds for one in found if isinstance(one, Took)] == [0, 0]


LIVES = st.lists(st.sampled_from([Cause.FAILURE, Cause.PREEMPTION, Cause.UNCHARGED]), min_size=1, max_size=6)


@given(LIVES, st.data())
def test_whichever_writes_are_seen_every_attempt_is_counted_once(causes: list[Cause], data: st.DataObject) -> None:
    """A life of attempts, each begun, running, ended, judged; some of the statuses in between are never looked at."""
    past: tuple[Attempt, ...] = ()
    story = [NEW]
    for number, cause in enumerate(causes):
        first = 100 * number
        one = attempt(number, first)
        later = [one, attempt(number, first, first + 10), attempt(number, first, first + 10, first + 20)]
        later.append(later[-1].model_copy(update={"cause": cause, "reason": "Any"}))
        story += [status(step, *past) for step in later]
        past = (later[-1], *past)
    looked_at = [NEW, *(one for one in story[1:-1] if data.draw(st.booleans())), story[-1]]
    found = [one for before, after in pairwise(looked_at) for one in seen(before, after)]
    assert [one for one in found if isinstance(one, Begun)] == [Begun(None), *map(Begun, causes[:-1])]
    assert [one for one in found if isinstance(one, Ended)] == [Ended(cause, "Any") for cause in causes]


def test_time_is_counted_once_the_ledger_accounts_for_it() -> None:
    def ledger(until: float, **seconds: Any) -> Ledger:
        return Ledger(until=at(until), seconds=Account(**seconds), chip_seconds=Account(running=8.0))

    before = status(attempt(0, 1, 3), ledger=ledger(3, starting=3.0, running=2.0))
    after = status(
        attempt(0, 1, 3),
        ledger=ledger(9, starting=3.0, running=6.0, lost_to_failure=Loss(detect=1.0, fence=1.5)),
    )
    assert seen(before, after) == [Passed("running", 4.0, 0.0), Passed("lost_to_failure", 2.5, 0.0)]
    assert seen(after, after) == []


SHARES: dict[str, tuple[SliceJobStatus, float]] = {
    "never ran, and lost an attempt": (status(attempt(1, 50), attempt(0, 0, None, 40, **FAILED)), 1.0),
    "runs": (status(attempt(0, 0, 10)), 0.0),
    "was down once": (status(attempt(1, 50, 60), attempt(0, 0, 0, 40, **FAILED)), 0.2),
    "is down": (status(attempt(1, 95), attempt(0, 0, 0, 90, lost=80, **FAILED)), 0.2),
    "is down and not judged": (status(attempt(0, 0, 0, 90, reason="ExitCode")), 0.1),
    "was suspended": (status(attempt(1, 50, 60), attempt(0, 0, 0, 40, cause=Cause.UNCHARGED)), 0.0),
    "failed before it ran again": (
        status(attempt(2, 40, 50), attempt(1, 30, None, 35, **FAILED), attempt(0, 0, 0, 20, **FAILED)),
        0.3,
    ),
    "ended": (status(attempt(1, 10, 30), attempt(0, 0, 0, 10, **FAILED), completion_time=at(40)), 0.5),
}


@pytest.mark.parametrize("case", SHARES)
def test_what_part_of_its_time_a_job_lost(case: str) -> None:
    seen_status, share = SHARES[case]
    assert lost_share(START, seen_status, at(100)) == pytest.approx(share)


def condition(kind: ConditionType, value: str, reason: str, since: float) -> Condition:
    return Condition(type=kind, status=value, reason=reason, last_transition_time=at(since))


OVERDUE = condition(ConditionType.CLEANUP_PENDING, "True", "PodsNotTerminating", 70)
FENCES: dict[str, tuple[SliceJobStatus, float | None]] = {
    "runs": (status(attempt(0, 0, 10)), None),
    "ended and not judged": (status(attempt(0, 0, 10, 40)), 40),
    "judged": (status(attempt(0, 0, 10, 40, **FAILED)), None),
    "suspended, and pods stay": (status(attempt(0, 0, 10, 40, cause=Cause.UNCHARGED), conditions=(OVERDUE,)), 40),
    "a stale pod stays while the attempt runs": (status(attempt(1, 50, 60), conditions=(OVERDUE,)), 70),
    "succeeded": (status(attempt(0, 0, 10, 40), phase=Phase.SUCCEEDED), None),
}


@pytest.mark.parametrize("case", FENCES)
def test_since_when_pods_of_an_ended_attempt_may_still_run(case: str) -> None:
    seen_status, since = FENCES[case]
    assert fenced_since(seen_status) == (None if since is None else at(since))


def test_why_a_job_waits_is_the_reason_of_its_condition_running() -> None:
    said = condition(ConditionType.RUNNING, "False", "Unschedulable", 0)
    assert waiting_reason(status(phase=Phase.WAITING_FOR_CAPACITY, conditions=(said,))) == "Unschedulable"
    assert waiting_reason(NEW) == "Pending"
    assert waiting_reason(status(attempt(0, 0, 10, 40), phase=Phase.RESTARTING)) == "WaitingForOldPods"
    assert waiting_reason(status(attempt(0, 0, 10))) is None
    assert waiting_reason(status(phase=Phase.SUSPENDED)) is None


def test_what_a_new_job_waits_for_has_a_word_in_the_table() -> None:
    world = World(slices=2, hosts=2)
    world.begin()
    plan = world.plan()
    assert waiting_reason(plan.status) in WAITING_REASONS


def test_the_reasons_of_a_queued_job_that_the_page_lists_have_a_word_in_the_table() -> None:
    section = (ROOT / "docs/kueue.md").read_text().partition("## What a job shows")[2].partition("\n## ")[0]
    listed = {word for row in re.findall(r"(?m)^\| (`.*?) \|", section) for word in re.findall(r"`(\w+)`", row)}
    assert listed
    assert listed <= set(WAITING_REASONS)

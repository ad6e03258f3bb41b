"""Where the time of a job goes: states that never overlap, from the dates of the attempts."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api.progress import ProgressState
from slipway.api.status import (
    Attempt,
    Cause,
    Condition,
    ConditionType,
    Phase,
    Resolved,
    Root,
    SliceCounts,
    SliceJobStatus,
)
from slipway.core.accounting import ledger
from slipway.core.accounting.ledger import Sums, account_at, by_state, sums
from slipway.core.model.container_states import ContainerState, Terminated
from slipway.core.planner.contract.snapshot import Printed
from slipway.core.planner.status.ledger import _released
from tests.core.build import START, PodHandle, World

NOW = 100.0
CHIPS = 4
SHAPE = Resolved(
    hosts=2, chips_per_host=CHIPS, coordinator_port=1, schedule_seconds=1, start_seconds=1, grace_period_seconds=1,
    template_hash="",
)  # fmt: skip


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def attempt(number: int, start: float, **given: Any) -> Attempt:
    """Times are seconds since the creation of the job; `failed` is when its first host did."""
    root = Root(time=at(given.pop("failed"))) if "failed" in given else None
    dated = {name: at(value) if name.endswith("_time") else value for name, value in given.items()}
    return Attempt(number=number, start_time=at(start), root=root, **dated)


def status(*oldest_first: Attempt, phase: Phase = Phase.RUNNING, **given: Any) -> SliceJobStatus:
    newest_first = tuple(reversed(oldest_first))
    number = newest_first[0].number if newest_first else None
    return SliceJobStatus(phase=phase, attempt=number, attempts=newest_first, resolved=SHAPE, **given)


def condition(kind: ConditionType, since: float, value: str = "True") -> Condition:
    return Condition(type=kind, status=value, reason="Any", last_transition_time=at(since))


RAN: dict[str, Any] = {"scheduled_time": 4, "running_time": 10}
LOST = {**RAN, "failed": 38, "end_time": 40, "charged_time": 45}
EVICTED = {**RAN, "reason": "PreemptedByQueue", "end_time": 40}
AGAIN = attempt(1, 50, scheduled_time=60, running_time=70)


def lost_to(word: str) -> dict[tuple[str, ...], float]:
    parts = {"detect": 2.0, "fence": 5.0, "delay": 5.0, "schedule": 10.0, "start": 10.0}
    return {(word, part): seconds for part, seconds in parts.items()}


BEGUN = {("waiting_for_capacity",): 3.0, ("starting",): 7.0}
CASES: dict[str, tuple[SliceJobStatus, Sums]] = {
    "no operator has seen it": (SliceJobStatus(), {("starting",): 100.0}),
    "waits in a queue": (status(attempt(0, 1), phase=Phase.QUEUED), {("starting",): 1.0, ("queued",): 99.0}),
    "waits for nodes": (
        status(attempt(0, 1), phase=Phase.WAITING_FOR_CAPACITY),
        {("starting",): 1.0, ("waiting_for_capacity",): 99.0},
    ),
    "pulls images": (
        status(attempt(0, 1), phase=Phase.STARTING, conditions=(condition(ConditionType.CAPACITY_AVAILABLE, 30),)),
        {("starting",): 71.0, ("waiting_for_capacity",): 29.0},
    ),
    "runs": (status(attempt(0, 1, **RAN)), BEGUN | {("running",): 90.0}),
    "runs after a queue": (
        status(attempt(0, 1, admitted_time=3, **RAN)),
        {("starting",): 7.0, ("queued",): 2.0, ("waiting_for_capacity",): 1.0, ("running",): 90.0},
    ),
    "waits in a queue before its first attempt": (
        SliceJobStatus(phase=Phase.QUEUED, queued_time=at(1)),
        {("starting",): 1.0, ("queued",): 99.0},
    ),
    "was admitted before its first attempt": (
        status(attempt(0, 31, queued_time=1, admitted_time=30, scheduled_time=34, running_time=40)),
        {("starting",): 8.0, ("queued",): 29.0, ("waiting_for_capacity",): 3.0, ("running",): 60.0},
    ),
    "was preempted by its queue, and its pods terminate": (
        status(attempt(0, 1, cause=Cause.PREEMPTION, **EVICTED, charged_time=40), phase=Phase.RESTARTING),
        BEGUN | {("running",): 30.0, ("lost_to_preemption", "fence"): 60.0},
    ),
    "was preempted by its queue, and waits in it": (
        status(
            attempt(0, 1, cause=Cause.PREEMPTION, **EVICTED, charged_time=40), phase=Phase.QUEUED, queued_time=at(45)
        ),
        BEGUN | {("running",): 30.0, ("lost_to_preemption", "fence"): 5.0, ("lost_to_preemption", "queue"): 55.0},
    ),
    "was preempted by its queue, and runs again": (
        status(
            attempt(0, 1, cause=Cause.PREEMPTION, **EVICTED, charged_time=40),
            attempt(1, 50, queued_time=45, admitted_time=49, scheduled_time=60, running_time=70),
        ),
        BEGUN
        | {("running",): 60.0}
        | {
            ("lost_to_preemption", part): seconds
            for part, seconds in {"fence": 5.0, "queue": 4.0, "delay": 1.0, "schedule": 10.0, "start": 10.0}.items()
        },
    ),
    "failed, and was evicted before its next attempt": (
        status(
            attempt(0, 1, cause=Cause.FAILURE, reason="ExitCode", **LOST),
            attempt(1, 50, queued_time=46, admitted_time=48, scheduled_time=60, running_time=70),
        ),
        BEGUN
        | {("running",): 58.0}
        | lost_to("lost_to_failure")
        | {("lost_to_failure", "delay"): 3.0, ("lost_to_failure", "queue"): 2.0},
    ),
    "was stopped by its queue, and waits in it": (
        status(
            attempt(0, 1, cause=Cause.UNCHARGED, **EVICTED | {"reason": "StoppedByQueue"}),
            phase=Phase.QUEUED,
            queued_time=at(45),
        ),
        BEGUN | {("running",): 30.0, ("cleaning_up",): 5.0, ("queued",): 55.0},
    ),
    "was resumed, and waits in its queue": (
        status(
            attempt(0, 1, cause=Cause.UNCHARGED, **EVICTED | {"reason": "Suspended"}),
            phase=Phase.QUEUED,
            queued_time=at(80),
            ledger=ledger.Ledger(until=at(80), seconds=ledger.Account(running=80.0)),
        ),
        {("running",): 80.0, ("queued",): 20.0},
    ),
    "was suspended in its queue": (
        SliceJobStatus(
            phase=Phase.SUSPENDED,
            conditions=(condition(ConditionType.SUSPENDED, 44),),
            queued_time=at(1),
            admitted_time=at(44),
        ),
        {("starting",): 1.0, ("queued",): 43.0, ("suspended",): 56.0},
    ),
    "the pods of an attempt that restarts are gated": (
        status(
            attempt(0, 1, cause=Cause.FAILURE, reason="ExitCode", **LOST),
            attempt(1, 50, admitted_time=54, scheduled_time=60, running_time=70),
        ),
        BEGUN
        | {("running",): 58.0}
        | lost_to("lost_to_failure")
        | {("lost_to_failure", "queue"): 4.0, ("lost_to_failure", "schedule"): 6.0},
    ),
    "failed, and runs again": (
        status(attempt(0, 1, cause=Cause.FAILURE, reason="ExitCode", **LOST), AGAIN),
        BEGUN | {("running",): 58.0} | lost_to("lost_to_failure"),
    ),
    "was preempted, and runs again": (
        status(attempt(0, 1, cause=Cause.PREEMPTION, reason="NodeLost", **LOST), AGAIN),
        BEGUN | {("running",): 58.0} | lost_to("lost_to_preemption"),
    ),
    "lost its infrastructure, and runs again": (
        status(attempt(0, 1, cause=Cause.INFRASTRUCTURE, reason="TPUUnavailable", **LOST), AGAIN),
        BEGUN | {("running",): 58.0} | lost_to("lost_to_infrastructure"),
    ),
    "failed 8 s after its last checkpoint": (
        status(attempt(0, 1, cause=Cause.FAILURE, reason="ExitCode", checkpoint_time=30, **LOST), AGAIN),
        BEGUN | {("running",): 50.0, ("lost_to_failure", "work"): 8.0} | lost_to("lost_to_failure"),
    ),
    "failed before its first checkpoint": (
        status(attempt(0, 1, cause=Cause.FAILURE, reason="ExitCode", checkpoint_time=10, **LOST), AGAIN),
        BEGUN | {("running",): 30.0, ("lost_to_failure", "work"): 28.0} | lost_to("lost_to_failure"),
    ),
    "printed a checkpoint after it was broken": (
        status(attempt(0, 1, cause=Cause.FAILURE, reason="ExitCode", checkpoint_time=39, **LOST), AGAIN),
        BEGUN | {("running",): 58.0} | lost_to("lost_to_failure"),
    ),
    "was suspended after a checkpoint": (
        status(
            attempt(0, 1, cause=Cause.UNCHARGED, reason="Suspended", checkpoint_time=20, **RAN, end_time=40),
            phase=Phase.SUSPENDED,
            conditions=(condition(ConditionType.SUSPENDED, 44),),
        ),
        BEGUN | {("running",): 30.0, ("cleaning_up",): 4.0, ("suspended",): 56.0},
    ),
    "ended, and is not charged yet": (
        status(attempt(0, 1, reason="ExitCode", **RAN, failed=38, end_time=40), phase=Phase.RESTARTING),
        BEGUN | {("running",): 28.0, ("lost_to_failure", "detect"): 2.0, ("lost_to_failure", "fence"): 60.0},
    ),
    "is suspended": (
        status(
            attempt(0, 1, cause=Cause.UNCHARGED, reason="Suspended", **RAN, end_time=40),
            phase=Phase.SUSPENDED,
            conditions=(condition(ConditionType.SUSPENDED, 44),),
        ),
        BEGUN | {("running",): 30.0, ("cleaning_up",): 4.0, ("suspended",): 56.0},
    ),
    "has succeeded": (
        status(attempt(0, 1, **RAN, end_time=80, reason="Succeeded"), phase=Phase.SUCCEEDED, completion_time=at(81)),
        BEGUN | {("running",): 70.0, ("cleaning_up",): 1.0},
    ),
    "an older version wrote no date of the nodes": (
        status(attempt(0, 1, running_time=10)),
        {("starting",): 10.0, ("running",): 90.0},
    ),
    "a clock that is behind dated the nodes": (
        status(attempt(0, 1, scheduled_time=0, running_time=10)),
        {("starting",): 10.0, ("running",): 90.0},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_each_second_is_in_one_state(case: str) -> None:
    given, expected = CASES[case]
    found = sums(account_at(START, given, at(NOW)).seconds)
    assert found == pytest.approx(expected)


def test_a_job_that_runs_holds_all_its_chips_from_the_last_binding_on() -> None:
    slices = SliceCounts(requested=2, granted=2, ready=2)
    found = account_at(START, status(attempt(0, 1, **RAN), slices=slices), at(NOW))
    assert by_state(found.chip_seconds) == {"starting": 6 * 4 * CHIPS, "running": 90 * 4 * CHIPS}


STEPS = st.lists(st.floats(0, 100), min_size=1, max_size=40)


@given(STEPS, st.sampled_from([1, 2]), st.randoms(use_true_random=False))
def test_the_sums_cover_the_time_and_never_shrink(steps: list[float], slices: int, random: Any) -> None:
    pattern = r"(?P<step>\d+)|saved (?P<checkpoint>\d+)"
    world = World(
        slices=slices, hosts=2, retries={"maxFailures": 5, "maxPreemptions": 5}, progress={"pattern": pattern}
    )
    before = world.begin().status.ledger
    for seconds in steps:
        handles = [one for one in world.all_pods() if not one.now.ended]
        if handles and random.random() < 0.8:
            handle = random.choice(handles)
            happen = (handle.runs, lambda one=handle: one.exits(random.choice((0, 1))), world.obey)
            random.choice(happen)()
        if random.random() < 0.5 and (number := world.status.attempt) is not None:
            saved = world.now - timedelta(seconds=random.randrange(-5, 60))
            progress = ProgressState(attempt=number, step=1, checkpoint=1, checkpoint_time=saved)
            world.printed = random.choice((None, Printed(number, opened=True), Printed(number, True, None, progress)))
        world.step(seconds)
        ledger = world.status.ledger
        assert ledger is not None
        found = sums(ledger.seconds)
        assert sum(found.values()) == pytest.approx((ledger.until - world.job.created).total_seconds(), abs=0.01)
        now = account_at(world.job.created, world.status, world.now)
        over = world.status.completion_time or world.now
        assert sum(sums(now.seconds).values()) == pytest.approx(
            (max(over, ledger.until) - world.job.created).total_seconds(), abs=0.01
        )
        if before is not None:
            assert ledger.until >= before.until
            assert all(found.get(state, 0.0) >= passed for state, passed in sums(before.seconds).items())
        before = ledger


DELAYS = st.lists(st.integers(0, 50), min_size=4, max_size=4)
ROUNDS = st.lists(st.tuples(DELAYS, st.integers(0, 500), st.integers(0, 3)), min_size=1, max_size=4)
"""Of each attempt: seconds from pod to pod until each is bound, seconds that they run, and which one fails."""


@given(ROUNDS)
def test_the_chips_of_a_finished_job_are_those_of_its_pods_while_they_were_bound(rounds: list[Any]) -> None:
    tpu = {"accelerator": {"type": "v5p-16"}, "hosts": None}
    world, held = World(slices=2, retries={"maxFailures": 5}, **tpu), 0.0
    for number, (delays, seconds, failing) in enumerate(rounds, start=1):
        while not (pods := [pod for pod in world.all_pods() if not pod.now.ended]):
            world.step(10)
        since: dict[tuple[int, int, int], datetime] = {}
        assert len(pods) == len(delays)
        for pod, delay in zip(pods, delays, strict=True):
            world.step(delay)
            pod.binds()
            since[pod.key] = world.now
        for pod in pods:
            pod.runs()
        world.step(seconds)
        for pod in pods if number == len(rounds) else (pods[failing],):
            pod.exits(0 if number == len(rounds) else 1)
        # The others terminate in the same moment, as soon as they are deleted.
        held += sum((world.now - moment).total_seconds() for moment in since.values())
        world.until_restarted()
    ledger = world.status.ledger
    assert ledger is not None
    assert world.status.phase is Phase.SUCCEEDED
    assert sum(sums(ledger.chip_seconds).values()) == pytest.approx(CHIPS * held, abs=0.01)


def test_the_ledger_is_never_written_for_itself_alone() -> None:
    world = World(slices=1, hosts=2).run()
    written = world.status
    world.step(3600)
    assert world.status == written


@pytest.mark.parametrize(
    ("runs", "exits"),
    [
        pytest.param(2, -1, id="it fails before all run"),
        pytest.param(8, 4, id="its attempt ends before all run, and before it fails"),
    ],
)
def test_no_time_is_lost_to_a_cause_before_it_is_known_by_the_clocks_of_kubelets(runs: int, exits: int) -> None:
    """A host runs and another exits at these seconds by their kubelets' clocks; it is 0 and 3 in truth."""
    world = World(slices=1, hosts=2).begin()
    began = world.now
    world.pod(0, 0).runs()
    world.pod(0, 1).runs(since=began + timedelta(seconds=runs))
    world.step()
    world.now = began + timedelta(seconds=3)
    world.pod(0, 0).exits(1, at=began + timedelta(seconds=exits))
    world.answers = False
    world.step()
    world.step(seconds=40)
    assert world.condition("CleanupPending") is not None
    ended = world.attempt
    assert ended.root is not None
    assert ended.root.time is not None
    assert ended.running_time is not None
    assert (ended.cause, ended.root.time < ended.running_time) == (None, True)
    assert world.status.ledger is not None
    assert not [state for state in sums(world.status.ledger.seconds) if state[0].startswith("lost")]


NO_DATE = ContainerState(terminated=Terminated(137, "ContainerStatusUnknown", "", None))
ENDS: dict[str, tuple[Callable[[PodHandle], Any], int]] = {
    "a kubelet says when": (lambda pod: pod.is_deleted(30).exits(1, at=START + timedelta(seconds=20)), 20),
    "a node refuses it": (lambda pod: pod.fails("UnexpectedAdmissionError"), 10),
    "a kubelet that does not know its container, after its deletion": (
        lambda pod: pod.is_deleted(30)._worker(NO_DATE, "Failed"),
        130,
    ),
    "a kubelet that does not know its container": (lambda pod: pod._worker(NO_DATE, "Failed"), 10),
}


@pytest.mark.parametrize(("ends", "seconds"), ENDS.values(), ids=ENDS.keys())
def test_a_pod_holds_its_chips_until(ends: Callable[[PodHandle], Any], seconds: int) -> None:
    world = World(hosts=2).begin()
    world.now = START + timedelta(seconds=100)
    pod = ends(world.pod(0, 0).runs())
    assert _released(pod.now, None, START + timedelta(seconds=10)) == START + timedelta(seconds=seconds)

"""What people are told of in Events, and that nothing is left out or told twice."""

from collections.abc import Callable
from datetime import timedelta

import pytest

from slipway.api.status import Attempt, Cause, Phase, SliceJobStatus
from slipway.core.planner.status.events import EventCursor, cursor_of, news
from tests.core.build import START, PodHandle, World, spec


def ended(number: int, cause: Cause | None) -> Attempt:
    return Attempt(number=number, start_time=START, end_time=START + timedelta(seconds=9), cause=cause, message="gone")


def status(phase: Phase, *attempts: Attempt) -> SliceJobStatus:
    return SliceJobStatus(phase=phase, attempts=attempts, failures=1, preemptions=2)


@pytest.mark.parametrize(
    ("told", "now", "expected"),
    [
        pytest.param(EventCursor(), status(Phase.PENDING), ["Pending"], id="the first phase"),
        pytest.param(EventCursor(Phase.RUNNING), status(Phase.RUNNING), [], id="nothing new"),
        pytest.param(
            EventCursor(Phase.RUNNING), status(Phase.RUNNING, ended(0, None)), [], id="an end without a cause yet"
        ),
        pytest.param(
            EventCursor(Phase.RESTARTING),
            status(Phase.STARTING, ended(0, Cause.PREEMPTION)),
            ["AttemptPreempted: attempt 0 (preemption 2 of 1000000): gone", "Starting"],
            id="a charge, then the phase it led to",
        ),
        pytest.param(
            EventCursor(Phase.RUNNING, judged=0),
            status(Phase.RUNNING, ended(2, Cause.FAILURE), ended(1, Cause.UNCHARGED), ended(0, Cause.FAILURE)),
            ["AttemptEnded: attempt 1 (not charged): gone", "AttemptFailed: attempt 2 (failure 1 of 10): gone"],
            id="two attempts that nobody was told of, oldest first",
        ),
    ],
)
def test_news(told: EventCursor, now: SliceJobStatus, expected: list[str]) -> None:
    found = [f"{one.reason}: {one.message}" if one.message else one.reason for one in news(told, now, spec())]
    assert found == expected


def test_failures_are_warnings_and_preemptions_are_not() -> None:
    now = status(Phase.FAILED, ended(1, Cause.FAILURE), ended(0, Cause.PREEMPTION))
    assert [one.warning for one in news(EventCursor(), now, spec())] == [False, True, True]


def test_a_whole_story_is_told_once() -> None:  # E2-59, E2-60
    world = World(slices=1, hosts=2).run()
    world.pod(0, 1).exits(3)
    world.until_restarted()
    world.run()
    for handle in world.all_pods():
        if handle.key[0] == world.status.attempt:
            handle.exits(0)
    world.settle()
    assert (
        world.told
        == [*("Pending", "Starting", "Running", "Restarting", "AttemptFailed", "Starting", "Running", "Succeeded")][
            -len(world.told) :
        ]
    )
    assert cursor_of(world.status).phase is Phase.SUCCEEDED
    assert [one.reason for one in world.status.attempts] == ["Succeeded", "ExitCode"]


@pytest.mark.parametrize(
    ("slices", "seconds", "writes"),
    [
        pytest.param(1, 4, 1, id="a small job that runs within 4 s: only that it runs"),
        pytest.param(1, 29, 1, id="a small job that runs within 30 s: only that it runs"),
        pytest.param(1, 70, 3, id="a small job that takes longer: every 30 s how far it is"),
        pytest.param(16, 24, 1, id="256 hosts within 25 s: only that they run"),
        pytest.param(64, 59, 1, id="1,024 hosts within a minute: only that they run"),
        pytest.param(64, 130, 3, id="1,024 hosts: every minute"),
    ],
)
def test_how_often_the_start_of_an_attempt_is_written(slices: int, seconds: int, writes: int) -> None:
    world = World(slices=slices, hosts=16).begin()
    seen = [world.status]
    slots = list(world.pods)
    for second in range(seconds):
        for key in slots[second * len(slots) // seconds : (second + 1) * len(slots) // seconds]:
            PodHandle(world, key).runs()
        world.step(seconds=1)
        if world.status != seen[-1]:
            seen.append(world.status)
    assert (world.status.phase, len(seen) - 1) == (Phase.RUNNING, writes)


@pytest.mark.parametrize(
    ("happens", "seconds"),
    [
        pytest.param(lambda pod: pod.binds().waits("CreateContainerError"), 5, id="a container that does not start"),
        pytest.param(lambda pod: pod.unschedulable(), 5, id="no node"),
        pytest.param(lambda pod: pod.exits(0), 5, id="a host that is done"),
        pytest.param(lambda pod: pod.binds(), 30, id="a node was found"),
        pytest.param(lambda pod: pod.runs(), 30, id="one of several hosts runs"),
    ],
)
def test_what_holds_a_start_up_is_written_sooner_than_counts(
    happens: Callable[[PodHandle], PodHandle], seconds: int
) -> None:
    world = World(hosts=4).begin()
    happens(world.pod(0, 1))
    before = world.status
    world.step(seconds=seconds - 1)
    assert world.status == before
    world.step(seconds=1)
    assert world.status != before

"""What a program prints of its progress: how lines are read, what of it is shown, and what work counts as saved."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api.progress import PatternError, Progress, ProgressState, compiled
from slipway.api.status import Phase
from slipway.controller.seen.progress_log import LINE_BYTES, Reading
from slipway.core.accounting.ledger import sums
from slipway.core.planner.contract.snapshot import Printed
from slipway.core.planner.status.progress import FIRST_AFTER, LOGS_FORBIDDEN, STEPS_AFTER, Source, source
from tests.core.build import START, World
from tests.core.manifests.test_ray import Head

PATTERN = r"step (?P<step>\d+)(/(?P<total>\d+))?|saved checkpoint (?P<checkpoint>\d+)"
ASKED = {"pattern": PATTERN, "total": 1000}


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def line(seconds: float, text: str) -> bytes:
    """As a kubelet sends it with `timestamps=true`."""
    return f"{at(seconds):%Y-%m-%dT%H:%M:%S.%f}123Z {text}".encode()


def reading(known: ProgressState | None = None, **asked: Any) -> Reading:
    return Reading(Source(0, "train-0-0-0", "uid", "worker", Progress.model_validate(ASKED | asked), known))


def state(*lines: bytes, known: ProgressState | None = None, **asked: Any) -> dict[str, Any]:
    """What these lines come to, without what is absent; times in seconds after the start."""
    found = reading(known, **asked)
    found.begin()
    for one in lines:
        found.take(one)
    progress = found.seen().progress
    return {
        name: (value - START).total_seconds() if isinstance(value, datetime) else value
        for name, value in (progress or ())
        if name != "attempt" and value is not None
    }


def steps(step: int, time: float, *, first: int, since: float, rate: float | None = None, **more: Any) -> Any:
    known = {"step": step, "time": time, "first_step": first, "first_time": since, "total": 1000} | more
    return known | ({"rate": rate} if rate is not None else {})


KNOWN = ProgressState(attempt=0, step=20, time=at(20), first_step=0, first_time=at(0), checkpoint=10,
                      checkpoint_time=at(11))  # fmt: skip
READ: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "nothing of it": ({"lines": [line(1, "compiling"), line(2, "stepping")]}, {}),
    "one step": ({"lines": [line(1, "step 7")]}, steps(7, 1, first=7, since=1)),
    "the last step, and how fast it came": (
        {"lines": [line(1, "step 10"), line(3, "loss 2"), line(5, "step 30")]},
        steps(30, 5, first=10, since=1, rate=5.0),
    ),
    "a line that says of how many": ({"lines": [line(1, "step 7/50")]}, steps(7, 1, first=7, since=1, total=50)),
    "the steps went back": (
        {"lines": [line(1, "step 90"), line(2, "step 10"), line(4, "step 14")]},
        steps(14, 4, first=10, since=2, rate=2.0),
    ),
    "a checkpoint": (
        {"lines": [line(1, "step 7"), line(2, "saved checkpoint 7")]},
        steps(7, 1, first=7, since=1, checkpoint=7, checkpoint_time=2),
    ),
    "a checkpoint alone": ({"lines": [line(2, "saved checkpoint 7")]},
                           {"checkpoint": 7, "checkpoint_time": 2, "total": 1000}),
    "only the first match of a line": ({"lines": [line(1, "step 7, step 8")]}, steps(7, 1, first=7, since=1)),
    "no step that is no whole number": ({"lines": [line(1, "step -7"), line(2, "step x")]}, {}),
    "no number that is too large": ({"lines": [line(1, "step " + "9" * 40)]}, {}),
    "the beginning of a long line": (
        {"lines": [line(1, "step 7 " + "x" * LINE_BYTES), line(2, "x" * LINE_BYTES + "step 8")]},
        steps(7, 1, first=7, since=1),
    ),
    "no line without a time": ({"lines": [b"unable to retrieve container logs: step 7", b"", b"step 7"]}, {}),
    "bytes that are no text": ({"lines": [line(1, "step 7 ") + b"\xff\xfe"]}, steps(7, 1, first=7, since=1)),
    "stderr after a later line of stdout": (
        {"lines": [line(2, "step 8"), line(1.999, "step 7")]},
        steps(8, 2, first=8, since=2),
    ),
    "a stream that goes on from what is known": (
        {"known": KNOWN, "lines": [line(40, "step 40")]},
        steps(40, 40, first=0, since=0, rate=1.0, checkpoint=10, checkpoint_time=11),
    ),
    "a stream that repeats what is known": (
        {"known": KNOWN, "lines": [line(10, "step 10"), line(11, "saved checkpoint 10"), line(20, "step 20")]},
        steps(20, 20, first=0, since=0, rate=1.0, checkpoint=10, checkpoint_time=11),
    ),
    "a checkpoint in the moment of a known step": (
        {"known": KNOWN, "lines": [line(20, "step 20"), line(20, "saved checkpoint 20")]},
        steps(20, 20, first=0, since=0, rate=1.0, checkpoint=20, checkpoint_time=20),
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", READ)
def test_what_lines_come_to(case: str) -> None:
    given_, expected = READ[case]
    assert state(*given_["lines"], known=given_.get("known")) == expected


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60), st.booleans()), max_size=30), st.data())
def test_streams_that_break_anywhere_come_to_what_one_comes_to(
    printed: list[tuple[int, int, bool]], data: st.DataObject
) -> None:
    moment, lines = 0, []
    for passed, number, saved in printed:
        moment += passed + 1
        lines.append((moment, line(moment, f"saved checkpoint {number}" if saved else f"step {number}")))
    broken = reading()
    sent = 0
    while sent < len(lines) or not lines:
        since = broken.begin()
        count = data.draw(st.integers(1, len(lines))) if lines else 0
        stream = [one for moment, one in lines if since is None or at(moment) >= since]
        known = len([moment for moment, _ in lines[:sent] if since is None or at(moment) >= since])
        for one in stream[: known + count]:
            broken.take(one)
        # As what a status has of it, which another process reads.
        sent += count
        broken = reading(broken.seen().progress)
        if not lines:
            break
    whole = reading()
    whole.begin()
    for _, one in lines:
        whole.take(one)
    assert broken.seen().progress == whole.seen().progress


PATTERNS = {
    "no regular expression": ("step (?P<step>", "RE2 does not take it: missing"),
    "what takes more than linear time": (r"(?P<step>\d+)(?=x)", "invalid perl operator"),
    "a pattern that is too large": (r".{0,999}x.{0,999}y(?P<step>\d)", "pattern too large"),
    "no group step": (r"step (\d+)", "it has no group step: name the digits of the step"),
    "a group that means nothing": (r"(?P<step>\d+) (?P<loss>\d+)", "no group may be named loss: the names are step"),
}


@pytest.mark.parametrize("case", PATTERNS)
def test_patterns_that_are_refused(case: str) -> None:
    pattern, words = PATTERNS[case]
    with pytest.raises(PatternError, match=words):
        compiled(pattern)
    world = World(progress={"pattern": pattern})
    world.settle()
    accepted = world.condition("Accepted")
    assert accepted is not None
    assert (world.status.phase, accepted.reason) == (Phase.INVALID, "InvalidSpec")
    assert accepted.message.startswith(f"spec.progress.pattern '{pattern.replace(chr(92), chr(92) * 2)}': ")
    assert words in accepted.message


def test_a_pattern_that_becomes_unusable_leaves_the_running_attempt_alone() -> None:
    world = World(progress=ASKED).run()
    world.fields["progress"] = {"pattern": "("}
    world.settle()
    assert (world.status.phase, world.attempt.end_time) == (Phase.RUNNING, None)
    assert source(world.job, world.pods.values()) is None


def where(world: World) -> tuple[int, str, str] | None:
    found = source(world.job, world.pods.values())
    return (found.attempt, found.pod, found.container) if found is not None else None


def test_the_log_is_that_of_rank_0_once_it_has_started_and_until_its_attempt_ends() -> None:
    world = World(hosts=2, progress=ASKED).begin()
    assert where(world) is None
    world.pod(0, 1).runs()
    assert where(world) is None
    world.pod(0, 0).runs()
    assert where(world) == (0, "train-0-0-0", "worker")
    world.run()
    world.pod(0, 1).exits(1)
    world.until_restarted()
    assert where(world) is None
    world.pod(0, 0).runs()
    assert where(world) == (1, "train-1-0-0", "worker")


def test_the_log_of_a_ray_job_is_that_of_its_entrypoint() -> None:
    world = World(progress=ASKED, ray={"entrypoint": "python train.py"}).begin()
    world.pod(0, 0).runs()
    assert where(world) is None
    Head(world).starts()
    assert where(world) == (0, "train-0-head", "driver")


def test_no_log_is_read_for_jobs_that_do_not_ask_and_none_of_copies() -> None:
    world = World().run()
    assert where(world) is None


def test_a_new_leader_goes_on_from_what_the_status_has() -> None:
    world = World(progress=ASKED).run()
    world.printed = Printed(0, opened=True, progress=ProgressState(attempt=0, step=5, time=world.now))
    world.settle()
    found = source(world.job, world.pods.values())
    assert found is not None
    assert found.known == world.status.progress


def printed(world: World, step: int, attempt: int = 0, **more: Any) -> None:
    world.printed = Printed(attempt, opened=True, progress=ProgressState(attempt=attempt, step=step, time=world.now,
                                                                        **more))  # fmt: skip


def shown(world: World) -> int | None:
    return world.status.progress.step if world.status.progress is not None else None


def test_progress_is_written_soon_at_first_and_then_once_a_minute() -> None:
    world = World(progress=ASKED).run()
    world.written = world.now
    printed(world, 1)
    decision = world.step()
    assert (shown(world), decision.wake_at) == (None, world.now + FIRST_AFTER)
    world.step(FIRST_AFTER.total_seconds())
    assert shown(world) == 1
    printed(world, 2)
    decision = world.step(1)
    assert (shown(world), decision.wake_at) == (1, world.now - timedelta(seconds=1) + STEPS_AFTER)
    printed(world, 3)
    world.step(STEPS_AFTER.total_seconds())
    assert shown(world) == 3


def test_nothing_is_written_while_nothing_is_printed() -> None:
    world = World(progress=ASKED).run()
    printed(world, 1)
    world.step(600)
    before = world.status
    decision = world.step(3600)
    assert (world.status, decision.wake_at) == (before, None)


def test_progress_is_written_with_whatever_else_is_written() -> None:
    world = World(progress=ASKED).run()
    printed(world, 1)
    world.step(600)
    printed(world, 2)
    world.pod(0, 0).exits(1)
    world.settle()
    assert (shown(world), world.status.failures) == (2, 1)


def test_the_last_step_is_shown_when_it_is_read_after_the_end() -> None:
    world = World(progress=ASKED).run()
    world.pod(0, 0).exits(0)
    world.settle()
    printed(world, 1000)
    world.step(600)
    assert (world.status.phase, shown(world)) == (Phase.SUCCEEDED, 1000)
    world.settle()


def test_the_progress_of_an_attempt_is_shown_until_the_next_one_prints() -> None:
    world = World(progress=ASKED).run()
    printed(world, 70)
    world.step(600)
    world.pod(0, 0).exits(1)
    world.until_restarted()
    world.run()
    world.printed = Printed(1, opened=True)
    world.step(600)
    assert shown(world) == 70
    printed(world, 60, attempt=1)
    world.step(600)
    assert shown(world) == 60


def test_progress_goes_with_its_field() -> None:
    world = World(progress=ASKED).run()
    printed(world, 1)
    world.step(600)
    del world.fields["progress"]
    world.step(600)
    assert world.status.progress is None


def test_a_log_that_may_not_be_read_is_said_so() -> None:
    world = World(progress=ASKED).run()
    assert world.condition("ProgressVisible") is None
    world.printed = Printed(0, problem=LOGS_FORBIDDEN)
    world.step()
    found = world.condition("ProgressVisible")
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", *LOGS_FORBIDDEN)
    world.printed = None
    world.settle()
    assert world.condition("ProgressVisible") == found
    world.printed = Printed(0, opened=True)
    world.step()
    found = world.condition("ProgressVisible")
    assert found is not None
    assert (found.status, found.reason) == ("True", "LogRead")


# What is known when the attempt ends 100 s after it began to run; how much of that was lost, None for nothing of it.
LOST: dict[str, tuple[str, Printed | None, float | None]] = {
    "a checkpoint after 70 s": (
        PATTERN,
        Printed(0, opened=True, progress=ProgressState(attempt=0, checkpoint=7, checkpoint_time=at(72))),
        30.0,
    ),
    "no checkpoint": (PATTERN, Printed(0, opened=True, progress=ProgressState(attempt=0, step=7, time=at(72))), 100.0),
    "no line at all": (PATTERN, Printed(0, opened=True), 100.0),
    "a log that was not read": (PATTERN, Printed(0), None),
    "a log that may not be read": (PATTERN, Printed(0, problem=LOGS_FORBIDDEN), None),
    "nothing": (PATTERN, None, None),
    "the log of another attempt": (PATTERN, Printed(1, opened=True), None),
    "a pattern without checkpoints": (
        r"(?P<step>\d+)",
        Printed(0, opened=True, progress=ProgressState(attempt=0, step=7, time=at(72))),
        None,
    ),
    "a checkpoint of before it ran": (
        PATTERN,
        Printed(0, opened=True, progress=ProgressState(attempt=0, checkpoint=7, checkpoint_time=at(-5))),
        100.0,
    ),
    "a checkpoint by a clock that is ahead": (
        PATTERN,
        Printed(0, opened=True, progress=ProgressState(attempt=0, checkpoint=7, checkpoint_time=at(500))),
        0.0,
    ),
}


@pytest.mark.parametrize("case", LOST)
def test_work_after_the_last_checkpoint_is_lost(case: str) -> None:
    pattern, read, lost = LOST[case]
    world = World(progress={"pattern": pattern}).begin()
    world.now = at(2)
    world.pod(0, 0).runs()
    world.settle()
    assert world.attempt.running_time == at(2)
    world.now, world.printed = at(102), read
    world.pod(0, 0).exits(1)
    world.settle()
    assert world.status.ledger is not None
    found = sums(world.status.ledger.seconds)
    assert found.get(("lost_to_failure", "work")) == (lost or None)
    assert found.get(("running",), 0.0) == 100.0 - (lost or 0.0)
    ended = world.status.attempts[-1]
    assert (ended.checkpoint_time is None) == (lost is None)


@pytest.mark.parametrize("read", [None, Printed(0, opened=True)], ids=["nothing", "nothing yet of a log it has opened"])
def test_what_an_earlier_leader_has_written_counts_where_nothing_else_is_known(read: Printed | None) -> None:
    world = World(progress=ASKED).begin()
    world.now = at(2)
    world.pod(0, 0).runs()
    world.settle()
    world.now = at(80)
    printed(world, 7, checkpoint=7, checkpoint_time=at(72))
    world.step()
    world.now, world.printed = at(102), read
    world.step()
    world.pod(0, 0).exits(1)
    world.settle()
    assert world.status.attempts[-1].checkpoint_time == at(72)


def test_a_checkpoint_that_is_read_while_the_pods_go_counts() -> None:
    world = World(hosts=2, progress=ASKED).run()
    world.printed = Printed(0, opened=True)
    world.pod(0, 0).exits(1)
    world.settle()
    assert world.attempt.checkpoint_time == world.attempt.running_time
    saved = world.now - timedelta(seconds=1)
    world.printed = replace(world.printed, progress=ProgressState(attempt=0, checkpoint=9, checkpoint_time=saved))
    world.until_restarted()
    assert world.status.attempts[-1].checkpoint_time == saved

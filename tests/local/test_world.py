"""What a decision on this machine's jobs is made from."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from slipway.api.status import Attempt, SliceJobStatus
from slipway.core.manifests.ray.cluster import HAS_JOINED
from slipway.local.containers.container_state import Deletion
from slipway.local.supervisor.cache import NOT_FOLLOWED, REMOVAL_SHOWS_SECONDS
from slipway.local.supervisor.cache import JobCache as Machine
from tests.core.build import World
from tests.local.test_hosts import head
from tests.local.test_seen import FINISHED, STARTED, container


def test_no_log_is_followed_here_and_a_job_that_asks_says_so() -> None:
    world = World(progress={"pattern": r"(?P<step>\d+)"}).run()
    world.printed = Machine(cast(Any, None)).snapshot(world.job).printed
    world.settle()
    found = world.condition("ProgressVisible")
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", *NOT_FOLLOWED)
    assert world.status.progress is None


@dataclass
class Removals:
    """An engine that has killed a container, and shows one look later what became of it, as Podman does."""

    later: dict[str, Any] | None
    looks: int = 0

    def states(self) -> dict[str, str]:
        return {"abc": "exited"}

    def inspect(self, container_id: str) -> dict[str, Any] | None:
        self.looks += 1
        return container("exited", ExitCode=137) if self.looks == 1 else self.later

    def tail(self, container_id: str) -> str:
        return ""


@pytest.mark.parametrize(
    ("later", "removed"),
    [
        pytest.param(None, True, id="it is gone"),
        pytest.param(container("removing", ExitCode=137), True, id="it is being removed"),
        pytest.param(container("exited", ExitCode=137), False, id="it was only killed"),
    ],
)
def test_a_container_that_was_killed_just_now_may_be_one_that_somebody_removes(
    later: dict[str, Any] | None, *, removed: bool
) -> None:
    engine, clock = Removals(later), Clock()
    clock.time = FINISHED
    world = Machine(cast(Any, engine), cast(Any, clock))
    world.observe(())
    assert clock.time - FINISHED == timedelta(seconds=REMOVAL_SHOWS_SECONDS)
    assert [pod.terminating for pod in world.pods.values()] == ([] if later is None else [removed])


@pytest.mark.parametrize(
    ("state", "seconds"),
    [
        pytest.param({"ExitCode": 137}, 5, id="it was killed long ago"),
        pytest.param({"ExitCode": 1}, 0, id="it has ended by itself"),
        pytest.param({"ExitCode": 137, "OOMKilled": True}, 0, id="it has run out of memory"),
    ],
)
def test_nothing_waits_for_the_removal_of_any_other(state: dict[str, Any], seconds: float) -> None:
    engine, clock = Heads([container("exited", **state)]), Clock()
    clock.time = before = FINISHED + timedelta(seconds=seconds)
    Machine(cast(Any, engine), cast(Any, clock)).observe(())
    assert clock.time == before


@pytest.mark.parametrize(
    ("deleting", "missed"),
    [pytest.param(False, ["abc"], id="it was there"), pytest.param(True, [], id="its deletion was under way")],
)
def test_what_is_gone_after_a_loss_of_the_engine_is_missed(missed: list[str], *, deleting: bool) -> None:
    """Whether the engine has done what it was asked before it was lost, nobody can tell."""
    engine, clock = Heads([container("running")]), Clock()
    before = Machine(cast(Any, engine), cast(Any, clock))
    before.observe(())
    if deleting:
        before.deleting("abc", Deletion(clock.now(), 10))
    engine.found.clear()
    after = Machine(cast(Any, engine), cast(Any, clock))
    after.remember(before)
    after.observe(())
    assert (after.pods, [one.pod.metadata.uid for one in after.snapshot(World().job).vanished]) == ({}, missed)


@pytest.mark.parametrize(
    ("seconds", "by_this_process", "stopped"),
    [
        pytest.param(1, False, True, id="after it, by another process"),
        pytest.param(0, False, False, id="with it"),
        pytest.param(-1, False, False, id="before it"),
        pytest.param(1, True, False, id="after it, by this process, which knows what it has deleted"),
    ],
)
def test_what_terminates_after_the_end_of_its_attempt_was_stopped_by_slipway(
    seconds: int, *, by_this_process: bool, stopped: bool
) -> None:
    """The engine does not say who has stopped a container, and the process that did may be gone."""
    engine, clock = Heads([container("exited", ExitCode=143)]), Clock()
    clock.time = FINISHED + timedelta(minutes=1)
    world = Machine(cast(Any, engine), cast(Any, clock))
    world.observe(())
    begun = SliceJobStatus(attempt=2, attempts=[Attempt(number=2, start_time=STARTED)])
    ended_at = FINISHED - timedelta(seconds=seconds)
    ended = begun.model_copy(update={"attempts": [Attempt(number=2, start_time=STARTED, end_time=ended_at)]})
    if by_this_process:
        world.writes(replace(World().job, status=begun), ended)
    [pod] = world.snapshot(replace(World().job, status=ended)).pods
    assert pod.deletion_requested_at == (ended_at if stopped else None)


def test_a_host_of_which_something_still_runs_is_yet_to_be_stopped() -> None:
    host = head()
    host.worker["State"] |= {"Status": "running"}
    for one in host.others.values():
        one["State"] |= {"Status": "exited", "ExitCode": 1, "FinishedAt": FINISHED.isoformat()}
    engine, clock = Heads([host.worker, *host.others.values()]), Clock()
    clock.time = FINISHED + timedelta(minutes=1)
    world = Machine(cast(Any, engine), cast(Any, clock))
    world.observe(())
    [seen] = world.pods.values()
    ended = Attempt(number=seen.attempt, start_time=STARTED, end_time=STARTED)
    [pod] = world.snapshot(replace(World().job, status=SliceJobStatus(attempt=seen.attempt, attempts=[ended]))).pods
    assert (pod.may_run, pod.terminating) == (True, False)


@dataclass
class Heads:
    """An engine with the containers of a Ray head, and what it was asked about the workers."""

    found: list[dict[str, Any]]
    answers: bool | None = False
    """What a command in the driver's container has found; None while it runs."""
    asked: list[tuple[str, Sequence[str]]] = field(default_factory=list)

    def states(self) -> dict[str, str]:
        return {one["Id"]: one["State"]["Status"] for one in self.found}

    def inspect(self, container: str) -> dict[str, Any]:
        return next(one for one in self.found if one["Id"] == container)

    def tail(self, container: str) -> str:
        return f"the log of {container}"

    def ask(self, container: str, command: Sequence[str]) -> str | None:
        self.asked.append((container, command))
        return "exec"

    def answer(self, command: str) -> bool | None:
        return self.answers


class Clock:
    """A machine whose time passes when it is told."""

    def __init__(self) -> None:
        self.time = datetime(2026, 1, 1, tzinfo=UTC)
        self.name = "here"

    def now(self) -> datetime:
        return self.time

    def booted_at(self) -> datetime:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.time += timedelta(seconds=seconds)


def waiting() -> tuple[Machine, Heads, Clock]:
    """A Ray head that waits for its workers, as it was first looked at."""
    host, clock = head(), Clock()
    engine = Heads([host.worker, *host.others.values()])
    world = Machine(cast(Any, engine), cast(Any, clock))
    world.observe(())
    return world, engine, clock


def test_a_head_is_asked_once_a_second_until_all_workers_have_joined() -> None:
    world, engine, clock = waiting()
    assert (world.pods["worker"].started, world.joining.due()) == (False, 0.1)
    world.observe(())
    world.observe(())
    assert engine.asked == [("worker", HAS_JOINED)]
    assert world.joining.due() == 1.0
    clock.time += timedelta(seconds=1)
    engine.answers = True
    world.observe(())
    assert world.joining.due() == 0.1
    world.observe(())
    assert (world.pods["worker"].started, world.joining.due()) == (True, None)
    world.observe(())
    assert engine.asked == [("worker", HAS_JOINED)] * 2
    # Another process that takes over finds it out anew.
    Machine(cast(Any, engine), cast(Any, clock)).observe(())
    assert len(engine.asked) == 3


def test_a_question_that_is_never_answered_is_not_asked_again_and_holds_up_nothing() -> None:
    world, engine, clock = waiting()
    engine.answers = None
    for _ in range(3):
        clock.time += timedelta(seconds=60)
        world.observe(())
    assert len(engine.asked) == 1
    assert not world.pods["worker"].started


def test_a_head_that_is_being_deleted_is_not_asked() -> None:
    world, engine, clock = waiting()
    world.deleting("worker", Deletion(clock.time, 30))
    clock.time += timedelta(seconds=60)
    world.observe(())
    assert (len(engine.asked), world.joining.due()) == (1, None)


def test_the_last_words_of_a_ray_that_has_ended_are_those_of_the_head() -> None:
    host = head(ray=1)
    world = Machine(cast(Any, Heads([host.worker, *host.others.values()])))
    world.observe(())
    end = world.pods["worker"].worker
    assert end is not None
    assert end.terminated is not None
    assert (end.terminated.exit_code, end.terminated.message) == (1, "the log of proxy")


@pytest.mark.parametrize("told", ["before the look", "after the look"])
def test_a_removal_is_dated_by_the_engine(told: str) -> None:
    [found] = engine = [container("running")]
    world = Machine(cast(Any, Heads(engine)))
    world.observe(())
    removed = world.clock() - timedelta(seconds=3)
    engine.clear()
    if told == "before the look":
        world.destroyed(found["Id"], removed)
    world.observe(())
    if told == "after the look":
        world.destroyed(found["Id"], removed)
        world.observe(())
    assert [one.at for one in world._vanished.values()] == [removed]
    assert not world._destroyed


def test_what_is_removed_during_a_look_is_gone_in_it() -> None:
    class Slow(Heads):
        def inspect(self, container: str) -> dict[str, Any]:
            # A host fails because of another that was removed when the states were read already.
            world.destroyed("removed", world.clock())
            return super().inspect(container)

    gone, fails = container("running") | {"Id": "removed"}, container("running") | {"Id": "fails"}
    engine = Slow([gone, fails])
    world = Machine(cast(Any, Heads(engine.found)))
    world.observe(())
    world.containers = cast(Any, engine)
    fails["State"]["Status"] = "exited"
    world.observe({"fails"})
    assert list(world._vanished) == ["removed"]
    assert list(world.pods) == ["fails"]

"""What a decision on this machine's jobs is made from."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest

from slipway.docker_engine.world import NOT_FOLLOWED
from slipway.docker_engine.world import World as Machine
from slipway.planner.ray import HAS_JOINED
from tests.docker_engine.test_hosts import head
from tests.docker_engine.test_seen import container
from tests.planner.build import World


def test_no_log_is_followed_here_and_a_job_that_asks_says_so() -> None:
    world = World(progress={"pattern": r"(?P<step>\d+)"}).run()
    world.printed = Machine(cast(Any, None)).snapshot(world.job).printed
    world.settle()
    found = world.condition("ProgressVisible")
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", *NOT_FOLLOWED)
    assert world.status.progress is None


@dataclass
class Heads:
    """An engine with the containers of a Ray head, and what it was asked about the workers."""

    found: list[dict[str, Any]]
    joined: bool = False
    asked: list[tuple[str, Sequence[str]]] = field(default_factory=list)

    def states(self) -> dict[str, str]:
        return {one["Id"]: one["State"]["Status"] for one in self.found}

    def inspect(self, container: str) -> dict[str, Any]:
        return next(one for one in self.found if one["Id"] == container)

    def tail(self, container: str) -> str:
        return f"the log of {container}"

    def succeeds(self, container: str, command: Sequence[str]) -> bool:
        self.asked.append((container, command))
        return self.joined


def test_a_head_is_asked_until_all_workers_have_joined() -> None:
    host = head()
    engine = Heads([host.worker, *host.others.values()])
    world = Machine(cast(Any, engine))
    world.observe(())
    assert (world.pods["worker"].started, world.joining) == (False, True)
    engine.joined = True
    world.observe(())
    assert (world.pods["worker"].started, world.joining) == (True, False)
    world.observe(())
    assert engine.asked == [("worker", HAS_JOINED)] * 2
    # Another process that takes over finds it out anew.
    assert Machine(cast(Any, engine)).observe(()) is not None
    assert len(engine.asked) == 3


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

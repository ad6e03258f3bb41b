"""What a decision on this machine's jobs is made from."""

from typing import Any, cast

from slipway.docker_engine.world import NOT_FOLLOWED
from slipway.docker_engine.world import World as Machine
from tests.planner.build import World


def test_no_log_is_followed_here_and_a_job_that_asks_says_so() -> None:
    world = World(progress={"pattern": r"(?P<step>\d+)"}).run()
    world.printed = Machine(cast(Any, None)).snapshot(world.job).printed
    world.settle()
    found = world.condition("ProgressVisible")
    assert found is not None
    assert (found.status, found.reason, found.message) == ("False", *NOT_FOLLOWED)
    assert world.status.progress is None

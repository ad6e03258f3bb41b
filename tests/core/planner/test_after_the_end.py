"""What becomes of a job that has ended: its status stays as it is, and the record goes when its time is over."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from slipway.api.profile import ProfileSpec
from slipway.core.model.site import NO_CHART, Choice, Profile
from slipway.core.planner.contract.actions import DeleteJob
from slipway.core.validation.site import site_of
from tests.core.build import World, actions_of


def under(world: World, choice: Choice) -> World:
    """The same world, whose job is under another profile now."""
    world.sited = lambda given, _: site_of(given, NO_CHART, choice)
    return world


def default(generation: int = 1, **defaults: Any) -> Choice:
    return Choice(Profile("default", generation, ProfileSpec.model_validate({"defaults": defaults})))


BROKEN = Choice(problem=("ProfileInvalid", "SliceJobProfile default cannot be applied"))


def ended(choice: Choice, **fields: Any) -> World:
    """A job that succeeded under that profile."""
    world = under(World(**fields), choice).run()
    world.pod(0, 0).exits(0)
    world.settle()
    assert world.status.phase == "Succeeded"
    return world


TTL = "ttlSecondsAfterFinished"
LIVES: dict[str, tuple[dict[str, Any], Choice, Choice, int | None]] = {
    "no default": ({}, Choice(), Choice(), None),
    "a default that came later": ({}, Choice(), default(ttlSecondsAfterFinished=60), None),
    "a default that came later beside others": (
        {},
        default(shmSize="1Gi"),
        default(2, ttlSecondsAfterFinished=60),
        None,
    ),
    "the default when it ended": ({}, default(ttlSecondsAfterFinished=60), default(ttlSecondsAfterFinished=60), 60),
    "a default made shorter": ({}, default(ttlSecondsAfterFinished=600), default(2, ttlSecondsAfterFinished=60), 600),
    "a default made longer": ({}, default(ttlSecondsAfterFinished=60), default(2, ttlSecondsAfterFinished=600), 60),
    "a default taken away": ({}, default(ttlSecondsAfterFinished=60), Choice(), 60),
    "a profile broken later": ({}, default(ttlSecondsAfterFinished=60), BROKEN, 60),
    "its own": ({TTL: 0}, default(ttlSecondsAfterFinished=60), default(2, ttlSecondsAfterFinished=600), 0),
    "its own without a default": ({TTL: 60}, Choice(), Choice(), 60),
}


@pytest.mark.parametrize(("fields", "then", "now", "seconds"), LIVES.values(), ids=LIVES.keys())
def test_a_finished_job_lives_by_its_own_time_or_by_the_default_when_it_ended(
    fields: dict[str, Any], then: Choice, now: Choice, seconds: int | None
) -> None:
    world = ended(then, **fields)
    end = world.status.completion_time
    assert end is not None
    decision = under(world, now).step()
    if seconds is None:
        world.now += timedelta(days=400)
        assert actions_of(world.step(), DeleteJob) == []
        return
    if seconds:
        assert (decision.wake_at, actions_of(decision, DeleteJob)) == (end + timedelta(seconds=seconds), [])
    world.now = end + timedelta(seconds=seconds)
    assert actions_of(world.step(), DeleteJob) == [DeleteJob()]


def test_the_time_of_a_job_can_be_set_after_its_end() -> None:
    world = ended(default(ttlSecondsAfterFinished=60))
    world.fields[TTL] = 600
    assert actions_of(world.step(300), DeleteJob) == []
    world.fields[TTL] = 100
    assert actions_of(world.step(), DeleteJob) == [DeleteJob()]


def succeeds(world: World) -> None:
    world.pod(0, 0).exits(0)


def is_cancelled(world: World) -> None:
    world.fields["cancel"] = True


@pytest.mark.parametrize("end", [succeeds, is_cancelled])
@pytest.mark.parametrize(
    "later", [default(2, terminationGracePeriodSeconds=99), BROKEN], ids=["other values", "broken"]
)
def test_nothing_is_written_of_a_finished_job_when_its_profile_changes(
    end: Callable[[World], None], later: Choice
) -> None:
    world = under(World(), default(terminationGracePeriodSeconds=7)).run()
    end(world)
    world.settle()
    world.obey()
    world.settle()
    before = world.status
    assert before.resolved is not None
    assert (before.phase is not None and before.phase.final, before.resolved.grace_period_seconds) == (True, 7)
    assert under(world, later).step(5).status == before

"""The process's clock does not step when the machine's does."""

import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.controller.clock import ENOUGH_ANSWERS, PATIENCE_SECONDS, Clock


@pytest.mark.parametrize("jump", [-86400.0, 3600.0])
@pytest.mark.row("B-67")
def test_a_step_of_the_wall_clock_is_not_seen(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    clock = Clock()
    before = clock.now()
    real = time.time  # noqa: TID251
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    assert timedelta(0) <= clock.now() - before < timedelta(seconds=5)


def test_it_begins_at_the_walls_time() -> None:
    assert abs(Clock().now() - datetime.now(UTC)) < timedelta(seconds=5)


@pytest.mark.row("B-67")
def test_the_servers_dates_put_a_wrong_clock_right() -> None:
    seconds = 0.0
    clock = Clock(lambda: 1_000_000.0, lambda: seconds)
    right = datetime.fromtimestamp(1_000_300, UTC)
    clock.heard(right, asked=0.0)
    assert clock.now() == right
    seconds = 7.5
    assert clock.now() == right + timedelta(seconds=7.5)
    assert clock.at(right + timedelta(seconds=10)) == 10.0


@pytest.mark.parametrize(
    ("shown", "took", "expected"),
    [
        pytest.param(100, 0.0, 100.0, id="behind: at least the date"),
        pytest.param(99, 0.0, 99.5, id="within the second that the date names: nothing to put right"),
        pytest.param(98, 0.0, 99.0, id="ahead: at most a second after the date"),
        pytest.param(98, 0.4, 99.0, id="ahead, and the answer took a while: it may have been dated at its end"),
        pytest.param(98, 0.6, 99.5, id="as far ahead as the answer took: nothing to put right"),
    ],
)
def test_a_date_bounds_the_present(shown: int, took: float, expected: float) -> None:
    seconds = 0.0
    clock = Clock(lambda: 99.5 - took, lambda: seconds)
    seconds = took
    clock.heard(datetime.fromtimestamp(shown, UTC), asked=0.0)
    assert clock.now() == datetime.fromtimestamp(expected, UTC)


class World:
    """A clock, and API servers whose clocks are wrong by some seconds."""

    def __init__(self, machine: float = 0.0) -> None:
        self.seconds = 1000.0
        self.clock = Clock(lambda: self.seconds + machine, lambda: self.seconds)

    def answer(self, wrong_by: float, took: float = 0.0) -> None:
        asked = self.seconds
        date = datetime.fromtimestamp(int(self.seconds + took / 2 + wrong_by), UTC)
        self.seconds += took
        self.clock.heard(date, asked)

    @property
    def offset(self) -> float:
        return -self.clock.at(datetime.fromtimestamp(0, UTC))


STEPS = st.lists(
    st.tuples(st.floats(0, 100), st.sampled_from((0.0, 3.0, -7.0)), st.floats(0, 5)), min_size=1, max_size=80
)


@given(machine=st.floats(-1e5, 1e5), steps=STEPS)
def test_it_never_goes_back_whatever_the_servers_say(machine: float, steps: list[tuple[float, float, float]]) -> None:
    world = World(machine)
    world.answer(0.0)
    shown = world.clock.now()
    for passes, wrong_by, took in steps:
        world.seconds += passes
        before = world.clock.now()
        world.answer(wrong_by, took)
        assert shown <= before <= world.clock.now()
        shown = world.clock.now()


@given(machine=st.floats(-1e5, 1e5), steps=STEPS)
def test_two_servers_that_disagree_do_not_move_it_to_and_fro(
    machine: float, steps: list[tuple[float, float, float]]
) -> None:
    world = World(machine)
    world.answer(3.0)
    offsets = [world.offset]
    for passes, _, took in steps:
        world.seconds += passes
        for wrong_by in (0.0, 3.0):
            world.answer(wrong_by, took)
            offsets.append(world.offset)
    # The first answer leaves a second open, which is put right later.
    assert all(later > earlier - 1.0 for earlier, later in pairwise(offsets))
    assert 2.0 - 1e-3 <= offsets[-1] - 0.0 <= 4.0 + 1e-3


def test_a_server_that_is_set_back_is_followed_in_the_end_without_going_back() -> None:
    world = World()
    world.answer(30.0)
    shown = world.clock.now()
    for _ in range(ENOUGH_ANSWERS + 1):
        world.seconds += PATIENCE_SECONDS / ENOUGH_ANSWERS
        world.answer(0.0)
        assert world.clock.now() >= shown
        shown = world.clock.now()
    assert -1.0 <= world.offset <= 1.0


@pytest.mark.parametrize("wrong_by", [691_200.0, 3600.0])
def test_no_single_answer_moves_it_far_ahead(wrong_by: float) -> None:
    world = World()
    for _ in range(3 * ENOUGH_ANSWERS):
        world.seconds += PATIENCE_SECONDS / ENOUGH_ANSWERS
        world.answer(0.0)
        world.answer(wrong_by)
        assert -1.0 <= world.offset <= 1.0


def test_a_machine_that_slept_is_put_right_at_once() -> None:
    seconds, slept = 1000.0, 0.0
    clock = Clock(lambda: seconds + slept, lambda: seconds)
    clock.heard(datetime.fromtimestamp(1000, UTC), asked=1000.0)
    slept = 10_800.0
    clock.heard(datetime.fromtimestamp(11_800, UTC), asked=1000.0)
    assert clock.now() == datetime.fromtimestamp(11_800, UTC)


def test_far_ahead_it_follows_once_many_answers_say_so() -> None:
    world = World()
    world.answer(0.0)
    for _ in range(ENOUGH_ANSWERS + 1):
        world.seconds += PATIENCE_SECONDS / ENOUGH_ANSWERS
        world.answer(3600.0)
    assert 3599.0 <= world.offset <= 3601.0


def test_servers_that_are_wrong_both_ways_say_nothing_of_it() -> None:
    world = World()
    world.answer(0.0)
    for _ in range(3 * ENOUGH_ANSWERS):
        world.seconds += PATIENCE_SECONDS / ENOUGH_ANSWERS
        world.answer(3600.0)
        world.answer(-3600.0)
    assert -1.0 <= world.offset <= 1.0

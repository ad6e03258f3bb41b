"""The process's clock does not step when the machine's does."""

import time
from datetime import UTC, datetime, timedelta

import pytest

from slipway.shell.clock import Clock


@pytest.mark.parametrize("jump", [-86400.0, 3600.0])
def test_a_step_of_the_wall_clock_is_not_seen(monkeypatch: pytest.MonkeyPatch, jump: float) -> None:  # B-67
    clock = Clock()
    before = clock.now()
    real = time.time  # noqa: TID251
    monkeypatch.setattr(time, "time", lambda: real() + jump)
    assert timedelta(0) <= clock.now() - before < timedelta(seconds=5)


def test_it_begins_at_the_walls_time() -> None:
    assert abs(Clock().now() - datetime.now(UTC)) < timedelta(seconds=5)


def test_the_servers_dates_put_a_wrong_clock_right() -> None:  # B-67
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
        pytest.param(98, 0.4, 99.4, id="ahead, and the answer took a while"),
    ],
)
def test_a_date_bounds_the_present(shown: int, took: float, expected: float) -> None:
    seconds = 0.0
    clock = Clock(lambda: 99.5 - took, lambda: seconds)
    seconds = took
    clock.heard(datetime.fromtimestamp(shown, UTC), asked=0.0)
    assert clock.now() == datetime.fromtimestamp(expected, UTC)

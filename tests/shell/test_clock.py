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

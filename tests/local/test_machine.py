"""What this machine does for the supervisors of all its users."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Event, Thread

import pytest

from slipway.local.conversion.devices import Device, Inventory
from slipway.local.supervisor import this_machine
from slipway.local.supervisor.this_machine import Machine
from tests.waiting import START_SECONDS

CHIP = Inventory({"tpu": (Device("tpu", 0, "/dev/accel0"),)})


def test_a_machine_that_is_renamed_is_the_same_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by DHCP, in another network. The pods of a supervisor are bound to the node of the former name."""
    here = Machine()
    for name in ("before", "after"):
        monkeypatch.setattr(this_machine, "gethostname", lambda name=name: name)
        assert here.name == "before"


@pytest.mark.parametrize(
    ("clock_is_set", "hour"),
    [
        pytest.param(timedelta(hours=2), 9, id="forward, as after a virtual machine was paused"),
        pytest.param(timedelta(hours=-2), 7, id="back, as by the first answer of a time server"),
    ],
)
def test_a_machine_whose_clock_is_set_was_not_started_again(
    clock_is_set: timedelta, hour: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The containers that run would be lost, as those of a Node that was created again after them."""
    booted, here = datetime(2026, 1, 1, 9, tzinfo=UTC), Machine()
    monkeypatch.setattr(this_machine, "_BOOT_TIME", tmp_path / "stat")
    for said in (booted, booted + clock_is_set):
        (tmp_path / "stat").write_text(f"cpu 1 2 3\nbtime {said.timestamp():.0f}\n")
        found = here.booted_at()
    assert found == booted.replace(hour=hour)


def test_two_users_do_not_choose_devices_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has jobs of its own, and the devices are the same."""
    chooses = Event()

    def of_another_user() -> None:
        with Machine().choosing_devices():
            chooses.set()

    monkeypatch.setattr(Inventory, "read", lambda: CHIP)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "one"))
    with Machine().choosing_devices():
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "other"))
        thread = Thread(target=of_another_user)
        thread.start()
        assert not chooses.wait(0.5)
    assert chooses.wait(START_SECONDS)
    thread.join()

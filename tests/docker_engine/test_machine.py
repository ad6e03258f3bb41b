"""What this machine does for the supervisors of all its users."""

from pathlib import Path
from threading import Event, Thread

import pytest

from slipway.docker_engine import machine
from slipway.docker_engine.conversion.devices import Device, Inventory
from slipway.docker_engine.machine import Machine
from tests.waiting import PATIENCE

CHIP = Inventory({"tpu": (Device("tpu", 0, "/dev/accel0"),)})


def test_a_machine_that_is_renamed_is_the_same_node(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by DHCP, in another network. The pods of a supervisor are bound to the node of the former name."""
    here = Machine()
    for name in ("before", "after"):
        monkeypatch.setattr(machine, "gethostname", lambda name=name: name)
        assert here.name == "before"


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
    assert chooses.wait(PATIENCE)
    thread.join()

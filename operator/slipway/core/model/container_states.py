"""What a kubelet reports of a container: its state, the one before, and the devices that it has."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final

from msgspec import field
from msgspec.structs import force_setattr

from slipway.core.model.parts import Part, keep_once

_LAST_SIGNAL: Final = 64


def signal_of(exit_code: int) -> int | None:
    """The signal that ended a program, by its exit code; None where it is an exit code of the program's own."""
    return exit_code - 128 if 128 < exit_code <= 128 + _LAST_SIGNAL else None


class Terminated(Part, frozen=True):
    """How a container ended."""

    exit_code: int
    reason: str = ""
    message: str = ""
    finished_at: datetime | None = None
    started_at: datetime | None = None


class Waiting(Part, frozen=True):
    """Why a container has not started."""

    reason: str = ""
    message: str = ""


class Running(Part, frozen=True):
    """Since when a container runs."""

    started_at: datetime | None = None


class ContainerState(Part, frozen=True):
    """Exactly one of the three."""

    waiting: Waiting | None = None
    running: Running | None = None
    terminated: Terminated | None = None


class Device(Part, frozen=True):
    """A device that a container has, such as one chip; `resource_id` is its name at the device plugin or driver."""

    resource_id: str = field(default="", name="resourceID")
    health: str = "Unknown"


class Devices(Part, frozen=True):
    """The devices that a container has of one resource."""

    name: str
    resources: tuple[Device, ...] = ()


class ContainerStatus(Part, frozen=True):
    """A container as the kubelet last reported it."""

    name: str
    state: ContainerState = ContainerState()
    last_state: ContainerState = ContainerState()
    """Its state before the kubelet restarted it."""
    allocated_resources_status: tuple[Devices, ...] = ()
    """Its unhealthy devices; of the others, which are nearly all, nothing is kept."""

    def __post_init__(self) -> None:
        """Keep only unhealthy devices, and the name once."""
        keep_once(self, ("name",))
        if self.allocated_resources_status:
            force_setattr(self, "allocated_resources_status", tuple(_unhealthy(self.allocated_resources_status)))


def _unhealthy(given: Iterable[Devices]) -> Iterator[Devices]:
    for devices in given:
        if unhealthy := tuple(device for device in devices.resources if device.health == "Unhealthy"):
            yield Devices(devices.name, unhealthy)

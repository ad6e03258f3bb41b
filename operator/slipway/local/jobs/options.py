"""What a job is told about this machine beside its SliceJob: the engine, the network, the images, devices."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from slipway.core.model.parts import Body
from slipway.local.conversion.devices import (
    NO_DEVICES,
    WHICHEVER,
    Assigned,
    DeviceMapping,
    GpuChoice,
    Inventory,
    assign,
)
from slipway.local.engine.address import Address

DEFAULT_ENGINE: Final = Address()


@dataclass(frozen=True, slots=True)
class Options:
    """How the containers of a job are made on this machine."""

    engine: Address = DEFAULT_ENGINE
    """The engine on which the job was submitted."""
    network: str | None = None
    """A Docker network that exists; None for one of the job's own."""
    images: Mapping[str, str] = field(default_factory=dict)
    """The id of each image when the job was submitted, by reference."""
    ulimits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Soft and hard limit by name."""
    devices: tuple[DeviceMapping, ...] = ()
    """Devices of this machine that every container gets."""
    without_devices: bool = False
    """Whether the containers get no TPU chips and no GPUs, to try a job where there are none."""
    gpus: GpuChoice = WHICHEVER
    """Which GPUs they get."""
    overlaid: str = ""
    """Id of the image over which a folder was laid for the worker's; empty without one."""
    profile: Mapping[str, Any] | None = None
    """The SliceJobProfile that the job was submitted with: its `name` and its `spec`."""

    def assigned(self, inventory: Inventory, bodies: Sequence[Body], used: Mapping[str, str]) -> Sequence[Assigned]:
        """The devices of each pod, where `used` has the owner of each device that is in use.

        Raises:
            Shortage: when too few are free.
        """
        if self.without_devices:
            return [NO_DEVICES] * len(bodies)
        return assign(inventory.chosen(self.gpus), [extended_resources(body) for body in bodies], used)

    def to_json(self) -> dict[str, Any]:
        """The options as they are stored with the job."""
        return asdict(self)

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Options":
        """Stored options; what another version has stored besides is left alone."""
        return cls(
            engine=Address(**stored["engine"]),
            network=stored["network"],
            images=stored["images"],
            ulimits={name: (soft, hard) for name, (soft, hard) in stored["ulimits"].items()},
            devices=tuple(DeviceMapping(**device) for device in stored["devices"]),
            without_devices=stored["without_devices"],
            gpus=GpuChoice(*map(tuple, stored["gpus"].values())) if stored.get("gpus") else WHICHEVER,
            overlaid=stored.get("overlaid", ""),
            profile=stored.get("profile"),
        )


def extended_resources(body: Body) -> dict[str, str]:
    """The devices that a pod asks for, by the name of the extended resource."""
    limits: dict[str, Any] = {}
    for container in body["spec"]["containers"]:
        limits |= container.get("resources", {}).get("limits", {})
    return {name: str(value) for name, value in limits.items() if "/" in name}

"""The accelerators of this machine, and which of them a container gets.

On a cluster device plugins choose the devices of a pod. Here Slipway chooses them itself, the lowest that are free, and
writes them into a label of the container: so what is in use is read again from the containers that there are.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from slipway.api import names
from slipway.api.resources import amount
from slipway.core.explain.wording import listed

LABEL_DEVICES: Final = f"{names.GROUP}/devices"
"""Label of a container: the ids of its devices, separated by commas."""
KINDS: Final[Mapping[str, str]] = MappingProxyType(
    {
        names.TPU_RESOURCE: "tpu",
        "nvidia.com/gpu": "nvidia",
        "amd.com/gpu": "amd",
        "gpu.intel.com/i915": "intel",
        "gpu.intel.com/xe": "intel",
    }
)
"""The extended resources that this machine can have, and the kind of device behind each."""
UNLIMITED: Final = -1
_GOOGLE, _AMD, _INTEL = "0x1ae0", "0x1002", "0x8086"
"""Vendors of PCI devices."""
_CHIP_BOUNDS: Final = {1: "1,1,1", 2: "1,2,1", 4: "2,2,1", 8: "2,4,1"}
"""How so many chips of a machine stand, as GKE's device plugin says it."""


@dataclass(frozen=True, slots=True)
class DeviceMapping:
    """A device node that a container gets."""

    src: str
    """Its path on this machine."""
    dst: str
    """Its path in the container."""
    permissions: str = "rwm"
    """Letters of r (read), w (write) and m (make nodes)."""


@dataclass(frozen=True, slots=True)
class Device:
    """One accelerator."""

    kind: str
    """One of the values of KINDS."""
    number: int
    path: str
    """Its device node."""
    uuid: str = ""
    """Of a GPU of NVIDIA, whose driver tells it: GPU- and its number in hexadecimal."""

    @property
    def id(self) -> str:
        """What names it on this machine, such as tpu:0."""
        return f"{self.kind}:{self.number}"

    def has(self, name: str) -> bool:
        """Whether a person means it by a number or a UUID."""
        return name.lower() in (str(self.number), self.uuid.lower())


@dataclass(frozen=True, slots=True)
class Assigned:
    """The devices of one container, and what it needs to use them."""

    ids: tuple[str, ...] = ()
    devices: tuple[DeviceMapping, ...] = ()
    requests: tuple[Mapping[str, Any], ...] = ()
    """DeviceRequests of the Engine API."""
    groups: tuple[int, ...] = ()
    """Groups that may open the device nodes."""
    ulimits: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Soft and hard limit by name; UNLIMITED for none."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment that tells of the devices."""
    variables_if_privileged: Mapping[str, str] = field(default_factory=dict)
    """What a privileged container is told besides: it sees all devices of the machine."""

    @property
    def label(self) -> str:
        """The value of LABEL_DEVICES."""
        return ",".join(self.ids)


NO_DEVICES: Final = Assigned()


class Shortage(ValueError):
    """This machine has fewer free devices than are asked for."""

    def __init__(self, resource: str, asked: int, inventory: "Inventory", used: Mapping[str, str]) -> None:
        """`asked` is the sum over all containers, `used` has the owner of each device that has one."""
        super().__init__(resource, asked, inventory, used)
        self.resource = resource
        self.asked = asked
        self._there = inventory.devices.get(KINDS[resource], ())
        self._used = used

    @property
    def may_pass(self) -> bool:
        """Whether there are enough once others have given theirs back."""
        return self.asked <= len(self._there)

    def __str__(self) -> str:
        there = [device.id for device in self._there]
        owners: dict[str, list[str]] = {}
        for one in there:
            if one in self._used:
                owners.setdefault(self._used[one], []).append(one)
        has = f"this machine has {len(there)}" + (f" ({listed(there)})" if there else "")
        taken = "; ".join(f"{owner} uses {listed(owners[owner])}" for owner in sorted(owners))
        return f"{self.resource} {self.asked} is asked for, and {has}" + (f", of which {taken}" if taken else "")


@dataclass(frozen=True, slots=True)
class GpuChoice:
    """Which GPUs a job gets, where it says more of them than how many for each host (E1-11, E1-12)."""

    ids: tuple[str, ...] = ()
    """Numbers or UUIDs of the GPUs that its hosts share among them; whichever are free if empty."""
    capabilities: tuple[str, ...] = ()
    """What of NVIDIA's driver the containers see, such as compute and utility; what the image says if empty."""


WHICHEVER: Final = GpuChoice()


@dataclass(frozen=True, slots=True)
class Inventory:
    """The accelerators of a machine."""

    devices: Mapping[str, tuple[Device, ...]] = field(default_factory=dict)
    """Those of each kind, lowest number first."""
    shared: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Device nodes that every container with a device of the kind needs besides its own."""
    groups: tuple[int, ...] = ()
    """Groups that may open the nodes of GPUs of AMD."""
    capabilities: tuple[str, ...] = WHICHEVER.capabilities
    """What of NVIDIA's driver is given with its GPUs."""

    @property
    def gpus(self) -> tuple[Device, ...]:
        """Its GPUs, of any vendor."""
        return tuple(device for kind, ones in self.devices.items() if kind != "tpu" for device in ones)

    def unknown(self, choice: GpuChoice) -> tuple[str, ...]:
        """Those ids of a choice that no GPU here has."""
        return tuple(one for one in choice.ids if not any(gpu.has(one) for gpu in self.gpus))

    def chosen(self, choice: GpuChoice) -> "Inventory":
        """The same machine with no other GPUs than those."""
        devices = {
            kind: tuple(
                device for device in ones if kind == "tpu" or not choice.ids or any(map(device.has, choice.ids))
            )
            for kind, ones in self.devices.items()
        }
        return replace(self, devices=devices, capabilities=choice.capabilities)

    @classmethod
    def read(cls, root: Path = Path("/")) -> "Inventory":
        """Read it from the device nodes, from sysfs and from the groups below `root`."""
        dev = root / "dev"
        chips = tuple(_numbered("tpu", root, "dev", r"accel(\d+)"))
        containers: tuple[str, ...] = ()
        if not chips and (dev / "vfio/vfio").exists():
            chips = tuple(
                device for device in _numbered("tpu", root, "dev/vfio", r"(\d+)") if _is_tpu(root, device.number)
            )
            containers = ("/dev/vfio/vfio",)
        cards = {vendor: tuple(_rendering(root, kind, vendor)) for kind, vendor in (("amd", _AMD), ("intel", _INTEL))}
        found = {
            "tpu": chips,
            "nvidia": tuple(_nvidia(root)),
            "amd": cards[_AMD] if (dev / "kfd").exists() else (),
            "intel": cards[_INTEL],
        }
        shared = {"tpu": containers, "amd": ("/dev/kfd",), "intel": ("/dev/dri",)}
        return cls({kind: ones for kind, ones in found.items() if ones}, shared, tuple(_groups(root)))


def assign(
    inventory: Inventory, resources: Sequence[Mapping[str, str]], used: Mapping[str, str]
) -> tuple[Assigned, ...]:
    """Choose the devices of several containers, one after the other: all of them, or none.

    Args:
        inventory: what the machine has.
        resources: the limits of each container; what is no device is passed over.
        used: the owner of each device that is in use, by its id.

    Raises:
        Shortage: when too few are free for all.
    """
    counts = [_counts(one) for one in resources]
    free = {kind: [device for device in ones if device.id not in used] for kind, ones in inventory.devices.items()}
    for resource in KINDS:
        # i915 and xe are two words for the same devices.
        alike = [other for other in KINDS if KINDS[other] == KINDS[resource]]
        asked = sum(count.get(other, 0) for count in counts for other in alike)
        if asked > len(free.get(KINDS[resource], ())) and any(count.get(resource) for count in counts):
            raise Shortage(resource, asked, inventory, used)
    return tuple(_assigned(inventory, [_take(free, KINDS[name], n) for name, n in count.items()]) for count in counts)


def ids_of(label: str) -> tuple[str, ...]:
    """The ids of the devices in a value of LABEL_DEVICES."""
    return tuple(one for one in label.split(",") if one)


def _counts(resources: Mapping[str, str]) -> dict[str, int]:
    """How many devices are asked for, by resource; what is 0 is left out."""
    return {name: count for name in KINDS if (count := int(amount(resources.get(name, 0)) or 0))}


def _take(free: dict[str, list[Device]], kind: str, count: int) -> list[Device]:
    taken, free[kind] = free[kind][:count], free[kind][count:]
    return taken


def _assigned(inventory: Inventory, taken: Sequence[list[Device]]) -> Assigned:
    """What a container with these devices gets; each list has devices of one kind."""
    devices = [one for ones in taken for one in ones]
    kinds = dict.fromkeys(device.kind for device in devices)
    chips = [device.number for device in devices if device.kind == "tpu"]
    nvidia = [str(device.number) for device in devices if device.kind == "nvidia"]
    # Of GPUs of Intel all are seen: their programs look through the whole folder.
    own = [device.path for device in devices if device.kind in ("tpu", "amd")]
    paths = [*own, *(path for kind in kinds for path in inventory.shared.get(kind, ()))]
    request = {"Driver": "nvidia", "DeviceIDs": nvidia, "Capabilities": [[*inventory.capabilities, "gpu"]]}
    part = 0 < len(chips) < len(inventory.devices.get("tpu", ()))
    return Assigned(
        ids=tuple(device.id for device in devices),
        devices=tuple(DeviceMapping(path, path) for path in paths),
        requests=(request,) if nvidia else (),
        groups=inventory.groups if "amd" in kinds else (),
        # libtpu pins the memory that the chips read and write.
        ulimits={"memlock": (UNLIMITED, UNLIMITED)} if chips else {},
        variables=_bounds(len(chips)) if part else {},
        variables_if_privileged={"TPU_VISIBLE_CHIPS": ",".join(map(str, chips))} if part else {},
    )


def _bounds(chips: int) -> dict[str, str]:
    """What libtpu is told of a part of the chips, where the machine itself would tell it of all."""
    bounds = _CHIP_BOUNDS.get(chips)
    return {"TPU_CHIPS_PER_HOST_BOUNDS": bounds, "TPU_HOST_BOUNDS": "1,1,1"} if bounds is not None else {}


def _numbered(kind: str, root: Path, folder: str, pattern: str) -> Iterator[Device]:
    """The device nodes in a folder whose names match, by their numbers."""
    paths = (root / folder).iterdir() if (root / folder).is_dir() else ()
    found = {int(match[1]): path.name for path in paths if (match := re.fullmatch(pattern, path.name))}
    for number in sorted(found):
        yield Device(kind, number, f"/{folder}/{found[number]}")


def _nvidia(root: Path) -> Iterator[Device]:
    """The GPUs of NVIDIA, numbered as nvidia-smi numbers them: by their addresses on the PCI bus."""
    nodes = {device.number: device for device in _numbered("nvidia", root, "dev", r"nvidia(\d+)")}
    told = (path.read_text() for path in sorted((root / "proc/driver/nvidia/gpus").glob("*/information")))
    facts = [dict(re.findall(r"^(GPU UUID|Device Minor):\s*(\S+)", text, re.MULTILINE)) for text in told]
    ordered = [(nodes.pop(int(fact.get("Device Minor", -1)), None), fact.get("GPU UUID", "")) for fact in facts]
    known = [(node, uuid) for node, uuid in ordered if node is not None]
    for number, (node, uuid) in enumerate([*known, *((node, "") for node in nodes.values())]):
        # Where the driver tells nothing, the number of the node is the best guess.
        yield replace(node, number=number if known else node.number, uuid=uuid)


def _is_tpu(root: Path, group: int) -> bool:
    """Whether a group of PCI devices has a TPU chip; where sysfs says nothing of it, it is taken for one."""
    vendors = [
        path.read_text().strip() for path in (root / f"sys/kernel/iommu_groups/{group}").glob("devices/*/vendor")
    ]
    return not vendors or _GOOGLE in vendors


def _rendering(root: Path, kind: str, vendor: str) -> Iterator[Device]:
    """The GPUs of a vendor, in the order of their nodes."""
    nodes = [device.path for device in _numbered(kind, root, "dev/dri", r"renderD(\d+)")]
    of_vendor = [path for path in nodes if _vendor(root, Path(path).name) == vendor]
    for number, path in enumerate(of_vendor):
        yield Device(kind, number, path)


def _vendor(root: Path, node: str) -> str:
    path = root / f"sys/class/drm/{node}/device/vendor"
    return path.read_text().strip() if path.is_file() else ""


def _groups(root: Path) -> Iterator[int]:
    """The ids of the groups video and render, which own the nodes of GPUs."""
    path = root / "etc/group"
    for line in path.read_text().splitlines() if path.is_file() else ():
        name, _, rest = line.partition(":")
        number = rest.split(":")[1] if rest.count(":") >= 1 else ""
        if name in ("video", "render") and number.isdigit():
            yield int(number)

"""The devices of a machine, made of empty files, and who gets them."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as some

from slipway.local.conversion.devices import (
    KINDS,
    UNLIMITED,
    Assigned,
    Device,
    DeviceMapping,
    GpuChoice,
    Inventory,
    Shortage,
    assign,
    ids_of,
)


def machine(root: Path, *nodes: str, **files: str) -> Inventory:
    """A machine with these device nodes; further files by path, `__` for `/`."""
    for node in nodes:
        path = root / "dev" / node
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    for name, text in files.items():
        path = root / name.replace("__", "/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return Inventory.read(root)


def vendor(node: str, number: str) -> dict[str, str]:
    return {f"sys__class__drm__{node}__device__vendor": number + "\n"}


def mapped(*paths: str) -> tuple[DeviceMapping, ...]:
    return tuple(DeviceMapping(path, path) for path in paths)


def assign_one(inventory: Inventory, resources: Mapping[str, str], used: Mapping[str, str]) -> Assigned:
    [found] = assign(inventory, [resources], used)
    return found


def ids(inventory: Inventory, kind: str) -> list[str]:
    return [one.id for one in inventory.devices.get(kind, ())]


def test_a_machine_without_devices(tmp_path: Path) -> None:
    found = machine(tmp_path, "null", "nvidiactl", "nvidia-uvm", "vfio/vfio", "accel", "dri/card0")
    assert found.devices == {}
    assert assign_one(found, {"cpu": "2", "memory": "1Gi"}, {}) == Assigned()


def test_chips_with_device_nodes_of_their_own(tmp_path: Path) -> None:  # E1-23
    found = machine(tmp_path, "accel10", "accel2", "accel0", "accel1")
    assert ids(found, "tpu") == ["tpu:0", "tpu:1", "tpu:2", "tpu:10"]
    got = assign_one(found, {"google.com/tpu": "4"}, {})
    assert got.devices == mapped("/dev/accel0", "/dev/accel1", "/dev/accel2", "/dev/accel10")
    assert got.ulimits == {"memlock": (UNLIMITED, UNLIMITED)}
    assert (got.variables, got.variables_if_privileged) == ({}, {}), "the machine says what all chips are"


def test_chips_behind_vfio(tmp_path: Path) -> None:  # E1-23
    found = machine(tmp_path, "vfio/vfio", "vfio/0", "vfio/1", "vfio/devices")
    got = assign_one(found, {"google.com/tpu": "1"}, {"tpu:0": "job a"})
    assert got.ids == ("tpu:1",)
    assert got.devices == mapped("/dev/vfio/1", "/dev/vfio/vfio")


def test_a_group_of_vfio_that_is_no_tpu(tmp_path: Path) -> None:
    sysfs = "sys__kernel__iommu_groups__{}__devices__0000:00:05.0__vendor"
    files = {sysfs.format(7): "0x10de\n", sysfs.format(8): "0x1ae0\n"}
    assert ids(machine(tmp_path, "vfio/vfio", "vfio/7", "vfio/8", **files), "tpu") == ["tpu:8"]


def test_a_part_of_the_chips_is_told_what_it_is(tmp_path: Path) -> None:
    found = machine(tmp_path, *(f"accel{number}" for number in range(8)))
    [_, got] = assign(found, [{"google.com/tpu": "4"}] * 2, {})
    assert got.variables == {"TPU_CHIPS_PER_HOST_BOUNDS": "2,2,1", "TPU_HOST_BOUNDS": "1,1,1"}
    assert got.variables_if_privileged == {"TPU_VISIBLE_CHIPS": "4,5,6,7"}
    assert assign_one(found, {"google.com/tpu": "3"}, {}).variables == {}, "three chips have no shape"


def test_gpus_of_nvidia(tmp_path: Path) -> None:  # E1-12, N-27
    found = machine(tmp_path, "nvidia0", "nvidia1", "nvidia2", "nvidiactl", "nvidia-uvm")
    got = assign_one(found, {"nvidia.com/gpu": "2"}, {"nvidia:0": "job a"})
    assert got.requests == ({"Driver": "nvidia", "DeviceIDs": ["1", "2"], "Capabilities": [["gpu"]]},)
    assert (got.devices, got.label) == ((), "nvidia:1,nvidia:2")


# As NVIDIA's driver tells of its GPUs: nodes in another order than the addresses, by which nvidia-smi counts.
NVIDIA: Final = {
    f"proc__driver__nvidia__gpus__0000:{bus}:00.0__information": f"Model: \t\t NVIDIA L4\n"
    f"IRQ:   \t\t 42\nGPU UUID: \t GPU-{digit * 8}-{digit * 4}-{digit * 4}-{digit * 4}-{digit * 12}\n"
    f"Bus Location: \t 0000:{bus}:00.0\nDevice Minor: \t {minor}\n"
    for bus, digit, minor in (("3b", "a", 1), ("af", "b", 0))
}
FIRST: Final = "GPU-aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaaaaa"


def test_gpus_of_nvidia_are_numbered_as_nvidia_smi_does(tmp_path: Path) -> None:
    found = machine(tmp_path, "nvidia0", "nvidia1", **NVIDIA)
    assert [(one.number, one.path, one.uuid[:7]) for one in found.gpus] == [
        (0, "/dev/nvidia1", "GPU-aaa"),
        (1, "/dev/nvidia0", "GPU-bbb"),
    ]


CHOICES: Final = {
    "by number": (GpuChoice(("1",)), ["1"]),
    "by UUID": (GpuChoice((FIRST,)), ["0"]),
    "by UUID in capitals": (GpuChoice((FIRST.upper(),)), ["0"]),
    "whichever": (GpuChoice(), ["0"]),
}


@pytest.mark.row("E1-11", "E1-12")
@pytest.mark.parametrize(("choice", "expected"), CHOICES.values(), ids=CHOICES)
def test_gpus_are_chosen(tmp_path: Path, choice: GpuChoice, expected: list[str]) -> None:
    found = machine(tmp_path, "nvidia0", "nvidia1", **NVIDIA)
    assert found.unknown(choice) == ()
    [request] = assign_one(found.chosen(choice), {"nvidia.com/gpu": "1"}, {}).requests
    assert request["DeviceIDs"] == expected


@pytest.mark.row("E1-12")
def test_what_of_the_driver_is_given_can_be_said(tmp_path: Path) -> None:
    found = machine(tmp_path, "nvidia0").chosen(GpuChoice(capabilities=("compute", "utility")))
    [request] = assign_one(found, {"nvidia.com/gpu": "1"}, {}).requests
    assert request["Capabilities"] == [["compute", "utility", "gpu"]]


def test_gpus_that_are_chosen_do_not_take_the_chips_away(tmp_path: Path) -> None:
    found = machine(tmp_path, "accel0", "nvidia0", "nvidia1")
    assert ids(found.chosen(GpuChoice(("1",))), "tpu") == ["tpu:0"]
    assert found.unknown(GpuChoice(("0", "7", "GPU-cccc"))) == ("7", "GPU-cccc")
    with pytest.raises(Shortage, match=r"nvidia.com/gpu 2 is asked for, and this machine has 1 \(nvidia:1\)"):
        assign_one(found.chosen(GpuChoice(("1",))), {"nvidia.com/gpu": "2"}, {})


def test_gpus_of_amd(tmp_path: Path) -> None:  # N-28
    groups = "root:x:0:\nvideo:x:44:me\nrender:x:109:\nvideogames:x:1000:\nbroken\n"
    files = {**vendor("renderD128", "0x1002"), **vendor("renderD129", "0x8086"), **vendor("renderD130", "0x1002")}
    nodes = ("kfd", "dri/card0", "dri/renderD128", "dri/renderD129", "dri/renderD130")
    found = machine(tmp_path, *nodes, **files, etc__group=groups)
    got = assign_one(found, {"amd.com/gpu": "2"}, {})
    assert got.devices == mapped("/dev/dri/renderD128", "/dev/dri/renderD130", "/dev/kfd")
    assert (got.groups, got.ids) == ((44, 109), ("amd:0", "amd:1"))


def test_gpus_of_amd_without_their_driver(tmp_path: Path) -> None:
    assert machine(tmp_path, "dri/renderD128", **vendor("renderD128", "0x1002")).devices == {}


@pytest.mark.parametrize("resource", ["gpu.intel.com/i915", "gpu.intel.com/xe"])
def test_gpus_of_intel(tmp_path: Path, resource: str) -> None:  # N-29
    found = machine(tmp_path, "dri/card0", "dri/renderD128", **vendor("renderD128", "0x8086"))
    got = assign_one(found, {resource: "1"}, {})
    assert (got.devices, got.groups, got.ids) == (mapped("/dev/dri"), (), ("intel:0",))


def test_a_container_with_two_kinds(tmp_path: Path) -> None:
    got = assign_one(machine(tmp_path, "accel0", "nvidia0"), {"google.com/tpu": "1", "nvidia.com/gpu": "1"}, {})
    assert ids_of(got.label) == got.ids == ("tpu:0", "nvidia:0")


def test_count_0_is_none(tmp_path: Path) -> None:  # F-53
    assert assign_one(machine(tmp_path, "nvidia0"), {"nvidia.com/gpu": "0"}, {}) == Assigned()


def test_no_label_no_devices() -> None:
    assert ids_of("") == ()


SHORT: dict[str, tuple[list[dict[str, str]], dict[str, str], str]] = {
    "none there": ([{"amd.com/gpu": "1"}], {}, "amd.com/gpu 1 is asked for, and this machine has 0"),
    "too few there": (
        [{"google.com/tpu": "4"}],
        {},
        "google.com/tpu 4 is asked for, and this machine has 2 (tpu:0 and tpu:1)",
    ),
    "too few for all": (
        [{"google.com/tpu": "1"}] * 3,
        {},
        "google.com/tpu 3 is asked for, and this machine has 2 (tpu:0 and tpu:1)",
    ),
    "others use them": (
        [{"google.com/tpu": "2"}],
        {"tpu:0": "job a", "tpu:7": "job b"},
        "google.com/tpu 2 is asked for, and this machine has 2 (tpu:0 and tpu:1), of which job a uses tpu:0",
    ),
    "two words for GPUs of Intel": (
        [{"gpu.intel.com/i915": "1"}, {"gpu.intel.com/xe": "1"}],
        {},
        "gpu.intel.com/i915 2 is asked for, and this machine has 0",
    ),
}


@pytest.mark.parametrize(("asked", "used", "message"), SHORT.values(), ids=SHORT.keys())
def test_too_few(tmp_path: Path, asked: list[dict[str, str]], used: dict[str, str], message: str) -> None:
    found = machine(tmp_path, "accel0", "accel1")
    with pytest.raises(Shortage) as caught:
        assign(found, asked, used)
    assert str(caught.value) == message


counts = some.dictionaries(some.sampled_from(sorted(KINDS)), some.integers(0, 3).map(str), max_size=3)
inventories = some.dictionaries(some.sampled_from(sorted(set(KINDS.values()))), some.integers(0, 8)).map(
    lambda sizes: Inventory(
        {kind: tuple(Device(kind, n, f"/dev/{kind}{n}") for n in range(size)) for kind, size in sizes.items()}
    )
)


@given(inventories, some.lists(counts, max_size=4), some.data())
def test_no_device_twice(inventory: Inventory, asked: list[Mapping[str, str]], data: some.DataObject) -> None:
    every = sorted(one.id for ones in inventory.devices.values() for one in ones)
    used = dict.fromkeys(data.draw(some.sets(some.sampled_from(every)) if every else some.just(set())), "another")
    free = {kind: [one for one in every if one.startswith(f"{kind}:") and one not in used] for kind in KINDS.values()}
    wanted = dict.fromkeys(KINDS.values(), 0)
    for resource, count in (pair for one in asked for pair in one.items()):
        wanted[KINDS[resource]] += int(count)
    if short := {kind for kind in wanted if wanted[kind] > len(free[kind])}:
        with pytest.raises(Shortage) as caught:
            assign(inventory, asked, used)
        assert KINDS[caught.value.resource] in short
        assert caught.value.asked == wanted[KINDS[caught.value.resource]]
        return
    got = assign(inventory, asked, used)
    given_out = [one for each in got for one in each.ids]
    assert len(set(given_out)) == len(given_out), "no two containers share"
    assert not set(given_out) & used.keys(), "nothing that is used"
    for kind in wanted:
        of_kind = [one for one in given_out if one.startswith(f"{kind}:")]
        assert of_kind == free[kind][: wanted[kind]], "the lowest first"
    assert [len(each.ids) for each in got] == [sum(map(int, one.values())) for one in asked]
    assert assign(inventory, asked, used) == got

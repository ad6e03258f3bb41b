"""What a job is told about its machine is stored with it, and read again by whatever version comes."""

import json

from slipway.local.conversion.devices import DeviceMapping, GpuChoice
from slipway.local.engine.address import Address
from slipway.local.jobs.options import Options

EVERYTHING = Options(
    engine=Address("unix:///engine.sock"),
    network="ours",
    images={"app": "sha256:1"},
    ulimits={"memlock": (-1, -1)},
    devices=(DeviceMapping("/dev/fuse", "/dev/fuse", "rw"),),
    without_devices=True,
    gpus=GpuChoice(("0", "GPU-aa"), ("compute",)),
    overlaid="sha256:2",
    profile={"name": "here", "spec": {}},
)


def test_what_is_stored_is_read_again() -> None:
    for options in (EVERYTHING, Options()):
        assert Options.from_json(json.loads(json.dumps(options.to_json()))) == options


def test_what_an_earlier_version_stored_is_read() -> None:
    stored = Options().to_json()
    for field in ("gpus", "overlaid", "profile"):
        del stored[field]
    assert Options.from_json(stored) == Options()

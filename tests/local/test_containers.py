"""What is asked of an engine that refuses a part of it."""

from typing import Any, cast

import pytest

from slipway.local.containers.containers import LABEL_HOME, Containers, EngineRefuses
from tests.local_simulation.engine import refusal


class Jammed:
    """An engine that removes no container, starts one the second time, and may take no files."""

    def __init__(self, *, unpacks: bool) -> None:
        self.unpacks = unpacks
        self.done: list[str] = []
        self.started = False

    def inspect_container(self, container: str) -> dict[str, Any]:
        host = {"Mounts": [{"Type": "volume", "Target": "/scratch"}], "ReadonlyRootfs": True}
        labels = {LABEL_HOME: "home"}
        return {"Name": "/train", "Image": "i", "HostConfig": host, "Config": {"Labels": labels}, "State": {}}

    def create_container_from_config(self, body: dict[str, Any]) -> dict[str, str]:
        self.done.append("create a second container")
        return {"Id": f"second {len(self.done)}"}

    def put_archive(self, container: str, path: str, data: bytes) -> None:
        if not self.unpacks:
            raise refusal(500, "no space left on device")
        self.done.append(f"unpack {container}")

    def remove_container(self, container: str, *, force: bool) -> None:
        raise refusal(500, "driver failed to remove root filesystem")

    def start(self, container: str) -> None:
        if not self.started:
            self.started = True
            raise refusal(500, "the engine is out of sorts")
        self.done.append(f"start {container}")


def test_a_container_starts_although_what_opened_its_volumes_cannot_be_removed_yet() -> None:
    engine = Jammed(unpacks=True)
    containers = Containers(cast(Any, engine), "uid")
    with pytest.raises(EngineRefuses, match="out of sorts"):
        containers.start("train")
    assert containers.start("train") == ""
    opened = ["create a second container", "unpack second 1", "create a second container", "unpack second 3"]
    assert engine.done == [*opened, "start train"]


class WithoutPort(Jammed):
    """Podman, which says only in its answer why a container cannot be started."""

    def inspect_container(self, container: str) -> dict[str, Any]:
        return super().inspect_container(container) | {"HostConfig": {}, "State": {"Status": "created", "Error": ""}}

    def start(self, container: str) -> None:
        raise refusal(500, "cannot listen on the TCP port: listen tcp4 :18080: bind: address already in use")


def test_a_port_that_is_in_use_is_why_a_container_cannot_be_started() -> None:
    containers = Containers(cast(Any, WithoutPort(unpacks=True)), "uid")
    assert containers.start("train").endswith("address already in use")


def test_a_container_does_not_start_with_volumes_that_only_root_can_write_to() -> None:
    engine = Jammed(unpacks=False)
    with pytest.raises(EngineRefuses, match="no space left"):
        Containers(cast(Any, engine), "uid").start("train")
    assert engine.done == ["create a second container"]

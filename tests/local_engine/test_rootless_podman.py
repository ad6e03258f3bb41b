"""Podman that a user runs without being root: some of the tests of dockerd, with such a one."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.local.servers import tool
from tests.local_engine.engine import Dockerd, User, engine_of
from tests.local_engine.test_endings import (
    test_a_job_that_fails_goes_on_within_its_budget,
    test_a_start_error_is_told_at_once,
    test_what_is_done_to_a_container_by_hand,
)
from tests.local_engine.test_hosts import ON_ONE_NETWORK, test_hosts_find_each_other_and_the_coordinator
from tests.local_engine.test_podman import CONFIGURATION, PACKAGES
from tests.local_engine.test_rootless import (
    ADMINISTRATOR,
    NOBODY,
    shared,
    test_root_of_a_container_is_the_user_on_this_machine,
)

pytestmark = pytest.mark.thorough

__all__ = [
    "shared",
    "test_a_job_that_fails_goes_on_within_its_budget",
    "test_a_start_error_is_told_at_once",
    "test_hosts_find_each_other_and_the_coordinator",
    "test_root_of_a_container_is_the_user_on_this_machine",
    "test_what_is_done_to_a_container_by_hand",
]

ROOTLESS: Final = {"slirp4netns": "slirp4netns", "newuidmap": "uidmap", "setpriv": "util-linux"}
# The locks of Podman are a file there. The shell waits, so it is what ends with unshare, which setpriv would not.
_OWN_MEMORY: Final = 'mount -t tmpfs tmpfs /dev/shm; "$@"; exit'


class RootlessPodman(Dockerd):
    """Podman's service as nobody, in a user namespace that it makes itself."""

    shows_removals = False

    def command(self) -> list[str]:
        (self.folder / "ids").write_text("nobody:100000:65536\n")
        config = self.folder / "containers.conf"
        config.write_text(CONFIGURATION)
        for path in (self.folder, self.folder / "run"):
            path.mkdir(exist_ok=True)
            os.chown(path, NOBODY, NOBODY)
        # Podman leaves a process behind that holds its user namespace: it ends with the namespace of processes.
        return [
            tool("unshare"), "--mount", "--mount-proc", "--pid", "--fork", "--kill-child",
            "sh", "-euc", ADMINISTRATOR, "sh", str(self.folder), "sh", "-euc", _OWN_MEMORY, "sh",
            tool("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
            tool("env"), f"HOME={self.folder}", f"XDG_RUNTIME_DIR={self.folder / 'run'}", f"CONTAINERS_CONF={config}",
            tool("podman"), "system", "service", "--time=0", self.host,
        ]  # fmt: skip

    def stop(self) -> None:
        """The same as to kill it: unshare holds SIGTERM back while it waits."""
        self.kill()


@pytest.fixture(scope="module")
def dockerd() -> Iterator[Dockerd]:
    with engine_of(RootlessPodman, PACKAGES | ROOTLESS) as found:
        yield found


# Podman lists no network of that name, and a container of a user may not ping there.
def test_hosts_reach_each_other_on_the_network_of_the_machine(user: User, shared: dict[str, Any]) -> None:
    (Path(shared["volumes"][0]["hostPath"]["path"]) / "seen").touch()
    asks = "wget -q -O - http://$peer:${SLIPWAY_COORDINATOR_ADDRESS#*:}/"
    user.submit(ON_ONE_NETWORK.replace("ping -c 1 -w 9 $peer", asks), "train", "--network", "host", hosts=2, **shared)
    assert user.ended()["phase"] == "Succeeded"
    said = ["answer of 0", "0-0-0.train is here", "0-0-1.train is here"]
    logs = user.slipway("logs", "train").out.splitlines()
    assert logs == [f"[0/{host}] {line}" for host in (0, 1) for line in said]

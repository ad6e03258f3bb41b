"""Podman speaks the API of the Docker engine: some of the tests of that, with Podman."""

from collections.abc import Iterator
from typing import Final

import pytest

from tests.local.servers import tool
from tests.local_engine.engine import Dockerd, engine_of
from tests.local_engine.test_endings import (
    test_a_job_that_fails_goes_on_within_its_budget,
    test_a_start_error_is_told_at_once,
    test_what_is_done_to_a_container_by_hand,
)
from tests.local_engine.test_hosts import test_hosts_find_each_other_and_the_coordinator

pytestmark = pytest.mark.thorough

__all__ = [
    "test_a_job_that_fails_goes_on_within_its_budget",
    "test_a_start_error_is_told_at_once",
    "test_hosts_find_each_other_and_the_coordinator",
    "test_what_is_done_to_a_container_by_hand",
]

PACKAGES: Final = {
    "podman": "podman", "runc": "runc", "unshare": "util-linux", "busybox": "busybox-static",
    "/usr/lib/podman/netavark": "netavark", "/usr/lib/podman/aardvark-dns": "aardvark-dns",
}  # fmt: skip
CONFIGURATION: Final = """
[containers]
# Not every machine lets its root raise them, as Podman does by default.
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
runtime = "runc"
[network]
network_backend = "netavark"
"""


class Podman(Dockerd):
    """Podman's service instead of dockerd. Containers do not end with it."""

    shows_removals = False

    def command(self) -> list[str]:
        config = self.folder / "containers.conf"
        config.write_text(CONFIGURATION)
        # Where the DNS server has its files is no option: a /run of its own keeps them from those of others.
        return [
            tool("unshare"), "--mount", "sh", "-c", 'mount -t tmpfs tmpfs /run && exec "$@"', "sh",
            tool("env"), f"CONTAINERS_CONF={config}", tool("podman"), f"--root={self.folder / 'data'}",
            f"--runroot={self.folder / 'run'}", f"--tmpdir={self.folder / 'tmp'}",
            f"--network-config-dir={self.folder / 'networks'}", "system", "service", "--time=0", self.host,
        ]  # fmt: skip


@pytest.fixture(scope="module")
def dockerd() -> Iterator[Dockerd]:
    with engine_of(Podman, PACKAGES) as found:
        yield found

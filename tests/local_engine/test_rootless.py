"""An engine that a user runs without being root: some of the tests of dockerd, with such a one."""

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.local.servers import PACKAGES, tool
from tests.local_engine.engine import Dockerd, User, engine_of, shared_folder
from tests.local_engine.test_endings import (
    test_a_job_that_fails_goes_on_within_its_budget,
    test_a_start_error_is_told_at_once,
)
from tests.local_engine.test_hosts import test_hosts_find_each_other_and_the_coordinator

pytestmark = pytest.mark.thorough

__all__ = [
    "test_a_job_that_fails_goes_on_within_its_budget",
    "test_a_start_error_is_told_at_once",
    "test_hosts_find_each_other_and_the_coordinator",
]

ROOTLESS: Final = {
    "rootlesskit": "rootlesskit", "slirp4netns": "slirp4netns", "newuidmap": "uidmap", "setpriv": "util-linux",
    "unshare": "util-linux",
}  # fmt: skip
NOBODY: Final = 65534
# What an administrator would have set up: ids for the user's containers, and a device for their network.
ADMINISTRATOR: Final = """
for one in /etc/subuid /etc/subgid; do touch $one; mount --bind "$1/ids" $one; done
mkdir -p /dev/net; mount -t tmpfs tmpfs /dev/net; mknod -m 666 /dev/net/tun c 10 200
shift; exec "$@"
"""
# In the copy of /run; as dockerd-rootless.sh does.
_OWN_RUN: Final = 'rm -f /run/docker /run/containerd /run/xtables.lock; exec "$@"'


class Rootless(Dockerd):
    """dockerd as nobody, in a user namespace that rootlesskit makes."""

    def command(self) -> list[str]:
        (self.folder / "ids").write_text("nobody:100000:65536\n")
        for path in (self.folder, self.folder / "data", self.folder / "run"):
            path.mkdir(exist_ok=True)
            os.chown(path, NOBODY, NOBODY)
        return [
            tool("unshare"), "--mount", "sh", "-euc", ADMINISTRATOR, "sh", str(self.folder),
            tool("setpriv"), f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups",
            tool("env"), f"HOME={self.folder}", f"XDG_RUNTIME_DIR={self.folder / 'run'}",
            tool("rootlesskit"), f"--state-dir={self.folder / 'run/kit'}", "--net=slirp4netns", "--mtu=65520",
            "--slirp4netns-sandbox=false", "--slirp4netns-seccomp=false", "--disable-host-loopback",
            "--port-driver=builtin", "--copy-up=/etc", "--copy-up=/run", "--propagation=rslave",
            "sh", "-c", _OWN_RUN, "sh", tool("dockerd"), "--rootless", f"--host={self.host}",
            f"--data-root={self.folder / 'data'}", f"--exec-root={self.folder / 'run/exec'}",
            f"--pidfile={self.folder / 'run/pid'}",
        ]  # fmt: skip


@pytest.fixture(scope="module")
def dockerd() -> Iterator[Dockerd]:
    with engine_of(Rootless, PACKAGES | ROOTLESS) as found:
        yield found


@pytest.fixture
def shared(dockerd: Dockerd) -> dict[str, Any]:
    """A folder that the engine's user may enter, which that of a test is not."""
    folder = Path(tempfile.mkdtemp(dir=dockerd.folder))
    os.chown(folder, NOBODY, NOBODY)
    return shared_folder(folder)


def test_root_of_a_container_is_the_user_on_this_machine(user: User, shared: dict[str, Any]) -> None:
    user.submit("id -u; touch /shared/file", **shared)
    assert user.ended()["phase"] == "Succeeded"
    assert user.slipway("logs", "train").out == "0\n"
    made = Path(shared["volumes"][0]["hostPath"]["path"]) / "file"
    assert made.stat().st_uid == NOBODY

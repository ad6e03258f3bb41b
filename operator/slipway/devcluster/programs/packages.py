"""Debian packages that real nodes need: installed when that is possible, named when it is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterable
from pathlib import Path

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.progress import StepReporter, step

# What is looked for -> the Debian package that brings it.
CONTROL_PLANE = {"openssl": "openssl"}
NODES = {
    **CONTROL_PLANE,
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "/usr/lib/cni/bridge": "containernetworking-plugins",
    "iptables": "iptables",
    "conntrack": "conntrack",
    "ip": "iproute2",
    "mount": "mount",
    "nsenter": "util-linux",
    "unshare": "util-linux",
    "busybox": "busybox-static",
}
IMAGES = {"mmdebstrap": "mmdebstrap"}

_SEARCH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/local/sbin", "/usr/sbin", "/sbin"])


def find_tool(name: str) -> str | None:
    """Return the full path of a program, also when the system folders are not on PATH."""
    if name.startswith("/"):
        return name if Path(name).exists() else None
    return shutil.which(name, path=_SEARCH)


def missing(needed: dict[str, str]) -> list[str]:
    """Return the packages whose files are not there."""
    return sorted({package for tool, package in needed.items() if find_tool(tool) is None})


def ensure(needed: dict[str, str], progress: StepReporter) -> None:
    """Install the missing packages with apt-get, or say which they are."""
    lacking = missing(needed)
    if not lacking:
        return
    names = " ".join(lacking)
    if os.geteuid() != 0 or shutil.which("apt-get", path=_SEARCH) is None:
        raise LocalClusterError(
            f"This machine lacks {names}.",
            hint=f"Install them, on Debian or Ubuntu with `sudo apt-get install {names}`.",
        )
    with step(progress, f"Installing {names}"):
        _apt(["update"])
        _apt(["install", "-y", "--no-install-recommends", *lacking])
    if still := missing(needed):
        raise LocalClusterError(f"apt-get reported success, yet {' '.join(still)} is still not usable.")


def _apt(arguments: Iterable[str]) -> None:
    """Run apt-get without questions and without letting packages start their services."""
    with tempfile.TemporaryDirectory(prefix="slipway-apt-") as folder:
        # containerd's package starts a service; invoke-rc.d asks this program first, and 101 means "do not".
        refuse = Path(folder) / "policy-rc.d"
        refuse.write_text("#!/bin/sh\nexit 101\n")
        refuse.chmod(0o755)
        result = subprocess.run(
            ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", *arguments],
            env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "POLICYRCD": str(refuse), "RUNLEVEL": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode != 0:
        tail = "\n".join((result.stdout + result.stderr).splitlines()[-6:])
        raise LocalClusterError(f"apt-get {' '.join(arguments)} failed:\n{tail}")

"""The control groups of real nodes: made before a kubelet starts, removed after all of it has ended."""

from __future__ import annotations

import contextlib
from pathlib import Path

from slipway.devcluster.errors import LocalClusterError
from slipway.devcluster.processes import PATIENCE, wait_until

ROOT = Path("/sys/fs/cgroup")


def controllers() -> list[Path]:
    """Return the top folder of each hierarchy: one for each v1 controller, or the only one of v2."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    if not ROOT.is_dir():
        raise LocalClusterError("This machine has no control groups at /sys/fs/cgroup, which real nodes need.")
    return sorted(path for path in ROOT.iterdir() if path.is_dir() and not path.is_symlink())


def create(name: str) -> None:
    """Make a group in every hierarchy and give it what its children will need."""
    for top in controllers():
        group = top / name
        with contextlib.suppress(FileExistsError):
            group.mkdir()
        if top == ROOT:
            _delegate(top)
            _delegate(group)
        if (top / "cpuset.cpus").exists() and (group / "cpuset.cpus").exists() and top != ROOT:
            for file in ("cpuset.cpus", "cpuset.mems"):
                (group / file).write_text((top / file).read_text())


def _delegate(group: Path) -> None:
    """Under v2, let the children of a group use every controller that the group has."""
    for controller in (group / "cgroup.controllers").read_text().split():
        with contextlib.suppress(OSError):
            (group / "cgroup.subtree_control").write_text(f"+{controller}")


def remove(name: str) -> None:
    """Remove a group and all below it; its processes must have ended."""
    for top in controllers():
        group = top / name
        # The last processes of a killed node leave their groups a moment after they died.
        if not wait_until(lambda: _removed(group), PATIENCE, 0.05):  # noqa: B023 - called before the next round
            raise LocalClusterError(f"The control group {group} cannot be removed: something still runs in it.")


def _removed(group: Path) -> bool:
    if not group.exists():
        return True
    for folder in sorted((path for path in group.rglob("*") if path.is_dir()), key=lambda p: -len(p.parts)):
        with contextlib.suppress(OSError):
            folder.rmdir()
    with contextlib.suppress(OSError):
        group.rmdir()
    return not group.exists()


def matching(prefix: str) -> list[str]:
    """Return the names of all groups whose name begins so, in any hierarchy."""
    return sorted({path.name for top in controllers() for path in top.glob(f"{prefix}*") if path.is_dir()})

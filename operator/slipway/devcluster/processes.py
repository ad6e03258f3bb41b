"""Starting processes that outlive us, and ending exactly those.

A pid alone is no identity: after a crash or a reboot it may belong to a stranger. A process is ours when pid,
start time and boot all match what was recorded. A process that was started but not recorded, because we were
killed in between, still carries the cluster's folder in its environment, and sees that folder.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from pydantic import BaseModel

from slipway.devcluster import paths
from slipway.devcluster.errors import LocalClusterError

MARKER = "SLIPWAY_CLUSTER_DIR"
PATIENCE = 180.0
"""Seconds that a busy machine may take for what takes a moment; a process that dies is noticed at once."""


class ProcessRecord(BaseModel):
    """A process that we started, and how to know it again."""

    pid: int
    start_ticks: int
    boot_id: str
    command: list[str]
    log: Path

    def alive(self) -> bool:
        """Whether this very process still runs."""
        if self.boot_id != boot_id():
            return False
        _reap(self.pid)
        return start_ticks(self.pid) == self.start_ticks


def boot_id() -> str:
    """Return the identity of the machine's current boot."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def start_ticks(pid: int) -> int | None:
    """Return when a process started, in clock ticks since boot; None when it is gone or only a zombie."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    # The name, in brackets, may itself hold brackets and spaces.
    fields = text.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


def _reap(pid: int) -> None:
    """Collect the exit status if the process is a child of ours, so that it does not stay a zombie."""
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def environment(cluster_dir: Path, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the small environment that components get: no proxies, no surprises, and our marker."""
    kept = {key: os.environ[key] for key in ("HOME", "LANG", "TZ") if key in os.environ}
    path = os.environ.get("PATH", "") + ":/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {**kept, "PATH": path, MARKER: str(cluster_dir), **(extra or {})}


def start(
    command: Sequence[str], log: Path, cluster_dir: Path, extra_env: Mapping[str, str] | None = None
) -> ProcessRecord:
    """Start a process in a session of its own, with its output appended to a log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    actions = [
        (os.POSIX_SPAWN_OPEN, 0, "/dev/null", os.O_RDONLY, 0),
        (os.POSIX_SPAWN_OPEN, 1, str(log), flags, 0o644),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]
    env = environment(cluster_dir, extra_env)
    # posix_spawn rather than Popen: the child is meant to outlive this process, and Popen warns about that.
    try:
        pid = os.posix_spawnp(command[0], list(command), env, file_actions=actions, setsid=True)
    except OSError as error:
        raise LocalClusterError(f"Cannot start {command[0]}: {error.strerror}.") from error
    return ProcessRecord(pid=pid, start_ticks=start_ticks(pid) or 0, boot_id=boot_id(), command=list(command), log=log)


def children(pid: int) -> list[int]:
    """Return the direct children of a process."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found.extend(int(child) for child in task.read_text().split())
    return found


def end(records: Iterable[ProcessRecord], grace: float = 0.0) -> None:
    """End process groups: SIGTERM and up to `grace` seconds of patience, then SIGKILL. Strangers are left alone."""
    targets = [record for record in records if record.alive()]
    if grace > 0:
        for record in targets:
            signal_group(record, signal.SIGTERM)
        wait_gone(targets, grace)
    for record in targets:
        signal_group(record, signal.SIGKILL)
    if not wait_gone(targets, PATIENCE):
        names = ", ".join(f"{Path(record.command[0]).name} (pid {record.pid})" for record in targets if record.alive())
        raise LocalClusterError(f"These processes do not end: {names}.", hint="Look at `ps -o pid,stat,wchan`.")


def signal_group(record: ProcessRecord, number: signal.Signals) -> None:
    """Send a signal to a process and its group, unless it is gone."""
    if record.alive():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(record.pid, number)


def pause(record: ProcessRecord) -> None:
    """Stop a process and its group; a thread that is at work may go on for a moment, and is waited for."""
    signal_group(record, signal.SIGSTOP)
    wait_until(lambda: all(state == "T" for state in _thread_states(record.pid)), 5.0, 0.002)


def _thread_states(pid: int) -> list[str]:
    states = []
    for stat in Path(f"/proc/{pid}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            states.append(stat.read_text().rpartition(")")[2].split()[0])
    return states


def wait_gone(records: Iterable[ProcessRecord], timeout: float) -> bool:
    """Wait until none of the processes runs; False when the time is over."""
    return wait_until(lambda: not any(record.alive() for record in records), timeout, 0.02)


def wait_until(condition: Callable[[], bool], timeout: float, interval: float = 0.05) -> bool:
    """Ask again and again until the condition holds; False when the time is over."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() >= deadline:
            return False
        time.sleep(interval)
    return True


def _read(pid: int, ticks: int) -> ProcessRecord:
    command = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
    return ProcessRecord(pid=pid, start_ticks=ticks, boot_id=boot_id(), command=command or ["?"], log=Path(os.devnull))


def marked(cluster_dir: Path) -> list[ProcessRecord]:
    """Find every process that carries the cluster's marker and sees its folder, recorded or not."""
    wanted = f"{MARKER}={cluster_dir}".encode()
    records = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        with contextlib.suppress(OSError):
            if wanted not in (entry / "environ").read_bytes().split(b"\0") or not _sees(entry / "root", cluster_dir):
                continue
            pid, ticks = int(entry.name), start_ticks(int(entry.name))
            # Groups are killed whole: the leader stands for its members.
            if ticks is not None and os.getpgid(pid) == pid:
                records.append(_read(pid, ticks))
    return records


def _sees(root: Path, cluster_dir: Path) -> bool:
    """Whether this very folder is there for a process: a container may have a cluster of its own at the same path."""
    # A node covers /var/lib, where the folder may be, and has its own part of the folder in another place.
    nodes = ((Path(paths.INSIDE_NODE), folder) for folder in cluster_dir.glob("nodes/*"))
    return any(_same(root / there.relative_to("/"), here) for there, here in ((cluster_dir, cluster_dir), *nodes))


def _same(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except OSError:
        return False

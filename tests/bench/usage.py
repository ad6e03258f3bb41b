"""CPU time and memory of processes, and of strangers on the same machine."""

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE_SECONDS = 1.0
_BUSY = (0, 1, 2, 5, 6)
"""user, nice, system, irq, softirq of /proc/stat."""


def cpu_seconds(pid: int) -> float:
    """CPU time that a process has used, its ended children included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(int(one) for one in fields[11:15]) / _TICKS


def peak_mib(pid: int) -> float:
    """Most memory that a process has ever held, in MiB."""
    return _status(pid, "VmHWM")


def now_mib(pid: int) -> float:
    """Memory that a process holds, in MiB."""
    return _status(pid, "VmRSS")


def _status(pid: int, field: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field):
            return int(line.split()[1]) / 1024
    return 0.0


async def calm(cores: float, seconds: float) -> None:
    """Wait until the machine uses fewer cores than that, or until the time is over."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        before = _machine()
        await asyncio.sleep(_SAMPLE_SECONDS)
        if (_machine() - before) / _SAMPLE_SECONDS < cores:
            return


def _machine() -> float:
    fields = Path("/proc/stat").read_text().splitlines()[0].split()[1:]
    return sum(int(fields[index]) for index in _BUSY) / _TICKS


@dataclass(frozen=True)
class Reading:
    """CPU seconds at one moment."""

    machine: float
    parts: dict[str, float]

    @classmethod
    def of(cls, pids: dict[str, int]) -> "Reading":
        """Read now; our own process is the part named `driver`."""
        return cls(_machine(), {name: cpu_seconds(pid) for name, pid in (pids | {"driver": os.getpid()}).items()})

    def since(self, before: "Reading") -> dict[str, float]:
        """CPU seconds of each part in between; `foreign` is what everybody else on the machine used."""
        used = {name: value - before.parts.get(name, 0.0) for name, value in self.parts.items()}
        return used | {"foreign": max(0.0, self.machine - before.machine - sum(used.values()))}

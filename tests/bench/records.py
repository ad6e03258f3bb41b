"""What one turn of one system gave."""

from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec


@dataclass
class Record:
    """Figures of one system in one repetition of one workload."""

    workload: str
    system: str
    repetition: int
    pods: int
    """Pods that the workload is about: created, or to be replaced."""
    profile: str = "unthrottled"
    times: dict[str, float] = field(default_factory=dict)
    """Seconds since just before the first request or the fault."""
    requests: dict[str, int] = field(default_factory=dict)
    """`user verb resource` -> count, all service accounts."""
    cpu: dict[str, float] = field(default_factory=dict)
    """CPU seconds of each process; `foreign` is the rest of the machine."""
    span: float = 0.0
    """Seconds over which requests and CPU were counted."""
    peak_mib: float = 0.0
    """Most memory of the controller."""
    rss_mib: float = 0.0
    """Memory of the controller in the end."""
    lists: int = 1
    """Lists of the observer: above 1 its watch was cut, and moments may be late."""
    problem: str = ""
    """Why the figures are incomplete."""
    processor: str = ""
    """On which the figures were taken."""

    def plain(self) -> dict[str, Any]:
        """As JSON."""
        rounded = {name: round(value, 4) for name, value in self.times.items()}
        return asdict(self) | {
            "times": rounded,
            "cpu": {name: round(value, 3) for name, value in self.cpu.items()},
            "span": round(self.span, 2),
            "peak_mib": round(self.peak_mib, 1),
            "rss_mib": round(self.rss_mib, 1),
        }


@dataclass
class Run:
    """All records of one run, and where and when it was made."""

    machine: dict[str, Any]
    records: list[Record] = field(default_factory=list)

    def save(self, path: Path) -> None:
        """Write as JSON, one record a line."""
        lines = [msgspec.json.encode(one.plain()).decode() for one in self.records]
        path.parent.mkdir(parents=True, exist_ok=True)
        machine = msgspec.json.encode(self.machine).decode()
        path.write_text(f'{{"machine": {machine},\n"records": [\n' + ",\n".join(lines) + "\n]}\n")


def load(path: Path) -> Run:
    """Read what `save` wrote."""
    return msgspec.json.decode(path.read_bytes(), type=Run)

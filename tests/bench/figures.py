"""Medians, spreads and ratios of a run's records."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from statistics import median

from tests.bench import audit
from tests.bench.records import Record, Run

Measure = Callable[[Record], float | None]


@dataclass(frozen=True)
class Spread:
    """Median, least and most of some repetitions."""

    middle: float
    least: float
    most: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> "Spread | None":
        """None when there is nothing to tell, or half of it did not come in time."""
        known = [one for one in values if one is not None]
        return cls(median(known), min(known), max(known)) if known and median(known) < inf else None

    def text(self, digits: int = 2) -> str:
        """Such as `1.20 (1.10-1.40)`."""
        if self.least == self.most:
            return f"{self.middle:.{digits}f}"
        most = "∞" if self.most == inf else f"{self.most:.{digits}f}"
        return f"{self.middle:.{digits}f} ({self.least:.{digits}f}–{most})"


def moment(name: str) -> Measure:
    """Seconds until something: longer than all that came where a problem kept it from coming, None where none did."""
    return lambda record: record.times.get(name, inf if record.problem else None)


def cpu_per_pod(*parts: str) -> Measure:
    """CPU milliseconds of some processes for each pod; None where the work was not done."""

    def measure(record: Record) -> float | None:
        if record.problem or not record.pods or not record.span:
            return None
        return 1000 * sum(record.cpu.get(one, 0.0) for one in parts) / record.pods

    return measure


def writes_per_pod(record: Record) -> float | None:
    """Writes of everybody for each pod."""
    return audit.writes(record.requests) / record.pods if record.pods else None


class Figures:
    """The records of a run by workload, profile and system."""

    def __init__(self, run: Run) -> None:
        self._records: dict[tuple[str, str], dict[str, list[Record]]] = {}
        for record in run.records:
            systems = self._records.setdefault((record.workload, record.profile), {})
            systems.setdefault(record.system, []).append(record)

    def workloads(self, prefix: str = "") -> list[tuple[str, str]]:
        """(workload, profile) of all that was run, in its order."""
        return [one for one in self._records if one[0].startswith(prefix)]

    def systems(self, workload: tuple[str, str]) -> list[str]:
        """Systems that went through a workload."""
        return list(self._records.get(workload, {}))

    def records(self, workload: tuple[str, str], system: str) -> list[Record]:
        """Repetitions of one system."""
        return self._records.get(workload, {}).get(system, [])

    def value(self, workload: tuple[str, str], system: str, measure: Measure) -> Spread | None:
        """A measure over the repetitions."""
        return Spread.of(measure(one) for one in self.records(workload, system))

    def ratio(self, workload: tuple[str, str], system: str, base: str, measure: Measure) -> Spread | None:
        """How many times the base's figure, each repetition compared with the base's in the same one."""
        bases = {one.repetition: measure(one) for one in self.records(workload, base)}
        ratios = []
        for one in self.records(workload, system):
            mine, theirs = measure(one), bases.get(one.repetition)
            if mine is not None and theirs and theirs < inf:
                ratios.append(mine / theirs)
        return Spread.of(ratios)

"""What Slipway wants to reach, and whether a run shows it."""

from collections.abc import Iterator
from dataclasses import dataclass

from tests.bench.command_line import CLICK, WORKLOAD
from tests.bench.figures import Figures, Measure, Spread, cpu_per_pod, moment
from tests.bench.records import Record

US = "slipway"
PEERS = ("jobset", "kuberay")
CREATE_LIMITS = {64: 1.5, 512: 1.3, 2048: 1.2, 8192: 1.2}
COMMAND_LIMIT = 1.5
FIRST_LIMIT, REACT_LIMIT = 3.0, 2.0
PLAN_SECONDS = 0.015
RSS_MIB, RSS_PODS = 150.0, 10_000
"""Memory wanted up to so many pods."""
STATUS_WRITES = 3
LEVEL = 1.1
"""How many times the least CPU for each pod the most may be, over numbers of equal jobs."""
WRITERS = cpu_per_pod("controller", "kube-apiserver")


@dataclass(frozen=True)
class Verdict:
    """One target: what is wanted, what was seen."""

    what: str
    wanted: str
    seen: str
    met: bool


def verdicts(figures: Figures) -> Iterator[Verdict]:
    """Every target that the run has figures for."""
    free = [one for one in figures.workloads() if one[1] == "unthrottled"]
    for workload in free:
        kind = workload[0].split()[0]
        yield from _times(figures, workload, kind)
        if kind in ("create", "burst", "restart"):
            yield from _peer(figures, workload, WRITERS, "CPU of operator and API server", "ms/pod", PEERS)
            yield from _writes(figures, workload)
        if kind == "queued":
            yield from _peer(figures, workload, moment("drained"), "all have run", "s", PEERS)
        if kind == "idle":
            yield from _memory(figures, workload)
        if kind == "plan":
            yield from _planning(figures, workload)
        if workload[0] == WORKLOAD:
            yield from _commands(figures, workload)
    yield from _level(figures)


def _times(figures: Figures, workload: tuple[str, str], kind: str) -> Iterator[Verdict]:
    if kind == "create":
        yield from _ratio(figures, workload, "first", "first pod", FIRST_LIMIT)
        limit = CREATE_LIMITS.get(int(workload[0].split()[1]), 1.5)
        yield from _ratio(figures, workload, "exist", "all exist", limit)
        yield from _ratio(figures, workload, "running", "all running", limit)
    elif kind in ("burst", "restart"):
        yield from _ratio(figures, workload, "exist", "all exist", 1.5)
    if kind in ("restart", "loss"):
        yield from _ratio(figures, workload, "react", "first reaction", REACT_LIMIT)
        yield from _peer(figures, workload, moment("react"), "first reaction", "s", ("kuberay",))


def _ratio(figures: Figures, workload: tuple[str, str], name: str, what: str, limit: float) -> Iterator[Verdict]:
    if (found := figures.ratio(workload, US, "ceiling", moment(name))) is not None:
        wanted = f"≤ {limit:.1f} × ceiling"
        yield Verdict(f"{workload[0]}: {what}", wanted, f"{found.text()} ×", found.middle <= limit)


def _peer(
    figures: Figures, workload: tuple[str, str], measure: Measure, what: str, unit: str, peers: tuple[str, ...]
) -> Iterator[Verdict]:
    ours = figures.value(workload, US, measure)
    for peer in peers:
        theirs = figures.value(workload, peer, measure)
        if ours is not None and theirs is not None:
            seen = f"{ours.text(3)} {unit}"
            wanted = f"≤ {peer}: {theirs.text(3)} {unit}"
            yield Verdict(f"{workload[0]}: {what}", wanted, seen, ours.middle <= theirs.middle)


def _writes(figures: Figures, workload: tuple[str, str]) -> Iterator[Verdict]:
    records = [one for one in figures.records(workload, US) if one.span]
    if not records:
        return
    creates = max(_count(one, "create pods") / one.pods for one in records)
    yield Verdict(f"{workload[0]}: creates of pods", "1 for each", f"{creates:.3f}", creates == 1.0)
    jobs = int(workload[0].split()[1].partition("x")[0]) if workload[0].startswith("burst") else 1
    status = max(_count(one, "patch slicejobs/status") / jobs for one in records)
    yield Verdict(
        f"{workload[0]}: status writes of a job", f"≤ {STATUS_WRITES}", f"{status:.2f}", status <= STATUS_WRITES
    )


def _count(record: Record, what: str) -> int:
    return sum(count for name, count in record.requests.items() if name.startswith(f"{US} {what}"))


def _level(figures: Figures) -> Iterator[Verdict]:
    found: dict[int, float] = {}
    for workload in figures.workloads("alone "):
        jobs, _, pods = workload[0].removeprefix("alone ").partition("x")
        spread = figures.value(workload, US, cpu_per_pod("controller"))
        if pods == "8" and spread is not None:
            found[int(jobs)] = spread.middle
    if len(found) > 1:
        least, most = min(found.values()), max(found.values())
        what = f"CPU of the operator, {min(found)} to {max(found)} jobs of 8 pods"
        yield Verdict(what, "level within 10 %", f"{least:.2f} to {most:.2f} ms/pod", most <= LEVEL * least)


def _memory(figures: Figures, workload: tuple[str, str]) -> Iterator[Verdict]:
    asked = [one for one in figures.records(workload, US) if one.pods <= RSS_PODS]
    if (found := Spread.of(one.peak_mib for one in asked)) is not None:
        yield Verdict(f"{workload[0]}: memory", f"≤ {RSS_MIB:.0f} MiB", f"{found.text(0)} MiB", found.middle <= RSS_MIB)


def _commands(figures: Figures, workload: tuple[str, str]) -> Iterator[Verdict]:
    for name in ("help", "completion"):
        if (found := figures.ratio(workload, US, CLICK, moment(name))) is not None:
            wanted = f"≤ {COMMAND_LIMIT:.1f} × {CLICK}"
            yield Verdict(f"{workload[0]}: {name}", wanted, f"{found.text()} ×", found.middle <= COMMAND_LIMIT)


def _planning(figures: Figures, workload: tuple[str, str]) -> Iterator[Verdict]:
    for name in dict.fromkeys(name for record in figures.records(workload, US) for name in record.times):
        if (found := figures.value(workload, US, _milliseconds(name))) is not None:
            what, wanted = f"{workload[0]}: decision ({name})", f"< {1000 * PLAN_SECONDS:.0f} ms"
            yield Verdict(what, wanted, f"{found.text(1)} ms", found.middle < 1000 * PLAN_SECONDS)


def _milliseconds(name: str) -> Measure:
    return lambda record: 1000 * record.times[name] if name in record.times else None

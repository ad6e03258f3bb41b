"""The table of what costs what: of a run's figures those that people ask for first, for the page on performance."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from math import inf
from typing import Final

from tests.bench.figures import Figures, Measure, cpu_per_pod, moment, writes_per_pod
from tests.bench.records import Record, Run

SYSTEMS: Final = {"ceiling": "ceiling", "slipway": "Slipway", "jobset": "JobSet", "kuberay": "KubeRay"}
_PART: Final = re.compile(r"(<!-- generated: costs -->\n).*?(<!-- end -->)", re.DOTALL)
_NUMBERS: Final = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Line:
    """One line of the table."""

    work: str
    """What people call the workload."""
    workload: str
    measured: str
    measure: Measure
    profile: str = "unthrottled"
    is_time: bool = True
    """Whether it is seconds, which are compared with the ceiling's."""
    digits: int = 2


def _seconds(work: str, workload: str, profile: str = "unthrottled", /, **moments: str) -> Iterator[Line]:
    for name, measured in moments.items():
        yield Line(work, workload, f"s {measured}", moment(name), profile)


def _cpu(work: str, workload: str) -> Iterator[Line]:
    both = cpu_per_pod("controller", "kube-apiserver")
    yield Line(work, workload, "CPU ms per pod, controller", cpu_per_pod("controller"), is_time=False)
    yield Line(work, workload, "CPU ms per pod, controller and API server", both, is_time=False, digits=1)


def _memory(work: str, workload: str) -> Iterator[Line]:
    yield Line(work, workload, "MiB of the controller", lambda record: record.rss_mib, is_time=False, digits=0)


def _decisions() -> Iterator[Line]:
    states = {
        "begins": "when it begins, and finds its node pools",
        "waiting": "while it waits for node pools that others have",
        "starting": "while its pods start",
        "running": "while they run",
        "lost_a_pod": "when one has failed",
        "peers_going": "while its peers terminate",
    }
    for name, words in states.items():
        measured = f"ms of a decision {words}"
        yield Line("plan a job of 4,096 hosts", "plan 4096", measured, _milliseconds(name), is_time=False, digits=1)


def _milliseconds(name: str) -> Measure:
    return lambda record: 1000 * record.times[name] if name in record.times else None


def _alone() -> Iterator[Line]:
    for jobs in (50, 100, 500, 2000):
        yield _beside_a_model(f"create {jobs:,} jobs of 8 pods, no API server is busy", f"alone {jobs}x8")
    yield _beside_a_model("create 2,048 pods, no API server is busy", "alone 1x2048")


def _beside_a_model(work: str, workload: str) -> Line:
    return Line(work, workload, "CPU ms per pod, controller", cpu_per_pod("controller"), is_time=False)


EXIST, RUN, REACT, NEW = "until all exist", "until all run", "until the first deletion", "until all new pods run"
LINES: Final = (
    *_seconds("create 64 pods", "create 64", exist=EXIST),
    *_seconds("create 512 pods", "create 512", exist=EXIST, running=RUN),
    *_cpu("create 512 pods", "create 512"),
    Line("create 512 pods", "create 512", "write requests per pod", writes_per_pod, is_time=False),
    *_seconds("create 2,048 pods", "create 2048", exist=EXIST, running=RUN),
    *_cpu("create 2,048 pods", "create 2048"),
    *_seconds("create 8,192 pods", "create 8192", exist=EXIST, running=RUN),
    *_cpu("create 8,192 pods", "create 8192"),
    *_seconds("create 100 jobs of 8 pods", "burst 100x8", exist=EXIST, running=RUN),
    *_cpu("create 100 jobs of 8 pods", "burst 100x8"),
    *_seconds("create 500 jobs of 8 pods", "burst 500x8", exist=EXIST, running=RUN),
    *_cpu("create 500 jobs of 8 pods", "burst 500x8"),
    *_seconds("20 jobs of 8 pods in a queue of Kueue, 5 at once", "queued 20x8", drained="until all have run"),
    *_seconds("200 jobs of 8 pods in a queue of Kueue, 20 at once", "queued 200x8", drained="until all have run"),
    *_seconds("one pod of 256 fails", "restart pod 256", react=REACT, running=NEW),
    *_cpu("one pod of 256 fails", "restart pod 256"),
    *_seconds("the same, shipped", "restart pod 256", "shipped", running=NEW),
    *_seconds("the Node of one pod of 256 is deleted", "restart node 256", react=REACT, running=NEW),
    *_seconds("one pod fails, 1,000 run", "loss 1000", react=REACT),
    *_seconds("one pod fails, 4,000 run", "loss 4000", react=REACT),
    *_seconds("one pod fails, 16,000 run", "loss 16000", react=REACT),
    *_seconds("60 of 100 small jobs lose a pod beside one of 2,048", "restart in a mix 8", react=REACT, running=NEW),
    *_seconds("the big one loses a pod beside them", "restart in a mix 2048", react=REACT, running=NEW),
    *_seconds("a tenth of the Nodes of 50 jobs goes", "rolling 50x8", running_after_last="from the last until all run"),
    *_seconds("the leader is killed, 10,000 pods run, one fails", "takeover 10000", react=REACT, running=NEW),
    *_seconds("all 256 pods succeed", "finish 256", done_after_last="from the last pod to the job's status"),
    *_memory("4,000 pods run, idle", "idle 4000"),
    *_memory("10,000 pods run, idle", "idle 10000"),
    *_memory("10,000 jobs came and went", "idle after 10000 jobs"),
    *_alone(),
    *_decisions(),
)


def page(text: str, run: Run) -> str:
    """The page with the run's machine and table in its generated part."""
    shown = {(line.workload, line.profile) for line in LINES}
    others = {one.processor for one in of_others(run) if (one.workload, one.profile) in shown}
    where = _machine(run)
    if others:
        where += f" Rows with ˣ are from an earlier machine: {' or '.join(sorted(others))}."
    return _PART.sub(lambda found: f"{found[1]}{where}\n\n{table(run)}{found[2]}", text)


def of_others(run: Run) -> list[Record]:
    """Figures that were taken on another machine than the run's last ones."""
    here = run.machine.get("processor")
    return [one for one in run.records if one.processor and one.processor != here]


def _machine(run: Run) -> str:
    told = run.machine
    kernel = ".".join(str(told["kernel"]).split(".")[:2])
    return (
        f"Measured on {told['cores']} cores ({told['processor']}, Linux {kernel}) with Python {told['python']} and "
        f"Kubernetes {told['kubernetes']}."
    )


def table(run: Run) -> str:
    """The lines of which the run has figures, and below them what kept figures from being there."""
    figures, notes = Figures(run), list[str]()
    others = {(one.workload, one.profile) for one in of_others(run)}
    head = ("work", "measured", *SYSTEMS.values())
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for work, lines in groupby(LINES, lambda line: line.work):
        shown = [line for line in lines if figures.systems((line.workload, line.profile))]
        for place, line in enumerate(shown):
            cells = [_cell(figures, line, system, notes) for system in SYSTEMS]
            named = work + " ˣ" * ((line.workload, line.profile) in others)
            rows.append(f"| {' | '.join(('' if place else named, line.measured, *cells))} |".replace("|  |", "| |"))
    said = [f"{_mark(number)} {note}." for number, note in enumerate(notes, 1)]
    return "\n".join([*rows, "", *([" ".join(said), ""] if said else [])])


def _cell(figures: Figures, line: Line, system: str, notes: list[str]) -> str:
    workload = (line.workload, line.profile)
    records = figures.records(workload, system)
    value = figures.value(workload, system, line.measure)
    if value is None:
        return "–" + _noted(records, notes)
    few = 3 if line.is_time and value.middle < 0.1 else line.digits
    text = f"{value.middle:,.{few}f}"
    if late := sum(line.measure(one) == inf for one in records):
        return text + _noted(records, notes, f"{late} of {len(records)} took longer: ")
    ratio = figures.ratio(workload, system, "ceiling", line.measure) if line.is_time and system != "ceiling" else None
    return text if ratio is None else f"{text} ({ratio.middle:.2f})"


def _noted(records: list[Record], notes: list[str], how_often: str = "") -> str:
    problems = [how_often + record.problem for record in records if record.problem]
    if not problems:
        return ""
    if problems[0] not in notes:
        notes.append(problems[0])
    return f" {_mark(notes.index(problems[0]) + 1)}"


def _mark(number: int) -> str:
    return str(number).translate(_NUMBERS)

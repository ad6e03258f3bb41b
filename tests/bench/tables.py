"""A run's figures as Markdown tables: what the terminal shows and what is published."""

from collections.abc import Iterable, Iterator, Sequence

from tests.bench.figures import Figures, Measure, Spread, cpu_per_pod, moment, writes_per_pod
from tests.bench.records import Run
from tests.bench.targets import verdicts

Workload = tuple[str, str]
COLUMNS: dict[str, tuple[str, ...]] = {
    "create": ("exist", "running", "removed"),
    "burst": ("exist", "running", "removed"),
    "restart": ("react", "old_gone", "exist", "running"),
    "finish": ("done", "done_after_last"),
    "queued": ("first", "drained"),
    "loss": ("react", "old_gone", "exist", "running"),
    "mix": (),
    "rolling": ("running_after_last",),
    "takeover": ("react", "old_gone", "exist", "running"),
    "alone": ("running",),
}
"""Moments shown for each kind of workload, by the first word of its name."""


def markdown(run: Run) -> str:
    """The whole report."""
    figures = Figures(run)
    parts = ["## Targets", _table(("target", "wanted", "seen", ""), _target_rows(figures))]
    parts += ["## Times", "Seconds, in brackets how many times the ceiling's; medians (least–most), ∞ for not in time."]
    for kind, moments in COLUMNS.items():
        if moments and (times := list(_time_rows(figures, kind, moments))):
            parts.append(_table(("work", "system", *moments), times))
    parts += ["## Slipway's peers", "How many times Slipway's time they took.", _peers(figures)]
    parts += ["## What it costs", _table(_COST_HEAD, _cost_rows(figures))]
    if rows := list(_growth_rows(figures)):
        parts += [
            "## As the cluster grows",
            "One pod of one job is lost while so many run.",
            _table(_GROWTH_HEAD, rows),
        ]
    parts += ["## Idle", _table(_IDLE_HEAD, _idle_rows(figures))]
    parts += ["## Requests", _table(("work", "system", "user verb resource: count"), _request_rows(figures))]
    return "\n\n".join(parts) + "\n"


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _shown(workload: Workload) -> str:
    return workload[0] if workload[1] == "unthrottled" else f"{workload[0]} ({workload[1]})"


def _said(spread: Spread | None, digits: int = 2) -> str:
    return "–" if spread is None else spread.text(digits)


def _target_rows(figures: Figures) -> Iterator[tuple[str, ...]]:
    for one in verdicts(figures):
        yield one.what, one.wanted, one.seen, "met" if one.met else "**missed**"


def _time_rows(figures: Figures, kind: str, moments: Sequence[str]) -> Iterator[list[str]]:
    for workload in figures.workloads(f"{kind} "):
        for system in figures.systems(workload):
            cells = [_timed(figures, workload, system, moment(one)) for one in moments]
            yield [_shown(workload), system, *cells]


def _timed(figures: Figures, workload: Workload, system: str, measure: Measure) -> str:
    value = figures.value(workload, system, measure)
    ratio = figures.ratio(workload, system, "ceiling", measure)
    text = _said(value, 3 if value is not None and value.middle < 0.1 else 2)
    return text if ratio is None or system == "ceiling" else f"{text} [{ratio.middle:.2f}]"


def _peers(figures: Figures) -> str:
    rows = []
    for kind, moments in COLUMNS.items():
        for workload in figures.workloads(f"{kind} "):
            for peer in ("jobset", "kuberay"):
                found = [figures.ratio(workload, peer, "slipway", moment(one)) for one in moments]
                if any(found):
                    cells = [f"{name} {_said(one, 1)}" for name, one in zip(moments, found, strict=True) if one]
                    rows.append((_shown(workload), peer, ", ".join(cells)))
    return _table(("work", "system", "times Slipway's"), rows)


_COST_HEAD = ("work", "system", "writes/pod", "controller ms/pod", "+ API server ms/pod", "all ms/pod",
              "peak MiB", "foreign cores")  # fmt: skip
_ALL = ("controller", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "etcd", "kwok", "kueue")


def _cost_rows(figures: Figures) -> Iterator[tuple[str, ...]]:
    for workload in figures.workloads():
        for system in figures.systems(workload):
            counted = all(one.span for one in figures.records(workload, system))
            if workload[0].split()[0] not in COLUMNS or not counted:
                continue
            yield (
                _shown(workload),
                system,
                _said(figures.value(workload, system, writes_per_pod)),
                _said(figures.value(workload, system, cpu_per_pod("controller"))),
                _said(figures.value(workload, system, cpu_per_pod("controller", "kube-apiserver")), 1),
                _said(figures.value(workload, system, cpu_per_pod(*_ALL)), 1),
                _said(figures.value(workload, system, lambda one: one.peak_mib), 0),
                _said(figures.value(workload, system, lambda one: one.cpu.get("foreign", 0.0) / one.span)),
            )


_GROWTH_HEAD = ("pods running", "system", "pods replaced", "react", "controller ms/pod", "+ API server ms/pod")


def _growth_rows(figures: Figures) -> Iterator[tuple[str, ...]]:
    for workload in figures.workloads("loss "):
        for system in figures.systems(workload):
            yield (
                _shown(workload).removeprefix("loss "),
                system,
                f"{figures.records(workload, system)[-1].pods}",
                _said(figures.value(workload, system, moment("react")), 3),
                _said(figures.value(workload, system, cpu_per_pod("controller"))),
                _said(figures.value(workload, system, cpu_per_pod("controller", "kube-apiserver")), 1),
            )


_IDLE_HEAD = (
    "pods running",
    "system",
    "controller, % of a core",
    "all parts, % of a core",
    "requests/s",
    "MiB",
    "peak MiB",
)


def _idle_rows(figures: Figures) -> Iterator[tuple[str, ...]]:
    for workload in figures.workloads("idle "):
        for system in figures.systems(workload):
            for one in figures.records(workload, system):
                everything = sum(one.cpu.get(part, 0.0) for part in _ALL)
                yield (
                    workload[0].removeprefix("idle "),
                    system,
                    f"{100 * one.cpu.get('controller', 0.0) / one.span:.2f}",
                    f"{100 * everything / one.span:.1f}",
                    f"{sum(one.requests.values()) / one.span:.2f}",
                    f"{one.rss_mib:.0f}",
                    f"{one.peak_mib:.0f}",
                )


def _request_rows(figures: Figures) -> Iterator[tuple[str, str, str]]:
    for workload in figures.workloads():
        for system in figures.systems(workload):
            one = figures.records(workload, system)[-1]
            if one.requests:
                counts = sorted(one.requests.items(), key=lambda item: -item[1])
                yield _shown(workload), system, ", ".join(f"{name} {count}" for name, count in counts)

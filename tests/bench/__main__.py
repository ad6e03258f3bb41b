"""The benchmark: `python -m tests.bench run quick`, `python -m tests.bench report FILE`."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import click
from rich.console import Console

from slipway.devcluster.programs import binaries, components, packages
from slipway.devcluster.progress import for_console
from tests.bench import command_line, costs, planning, programs, runner, tables
from tests.bench.records import Record, Run, load
from tests.bench.suites import ALONE, SUITES
from tests.bench.systems import SYSTEMS

PUBLISHED = Path("docs/performance")
SUMMARY = Path("docs/performance.md")


@click.group()
def main() -> None:
    """Measure Slipway beside its peers and beside a client that does nothing but create pods."""


@main.command()
@click.argument("suite", type=click.Choice(sorted(SUITES)))
@click.option("--systems", default=",".join(SYSTEMS), show_default=True, help="Only these.")
@click.option("--only", default="", metavar="WORDS", help="Only workloads whose name begins so.")
@click.option("--repetitions", type=click.IntRange(min=1), help="Instead of the suite's own numbers.")
@click.option("--patience", default=20.0, show_default=True, help="Seconds to wait for a quiet machine before a turn.")
@click.option("--out", type=click.Path(path_type=Path), default=Path("bench.json"), show_default=True)
def run(suite: str, systems: str, only: str, repetitions: int | None, patience: float, out: Path) -> None:
    """Measure, and end with the tables."""
    logging.basicConfig(level=logging.WARNING)
    console, wanted = Console(), systems.split(",")
    entries = []
    for entry in SUITES[suite]():
        fit = tuple(one for one in entry.systems if one in wanted)
        if fit and entry.workload.name.startswith(only):
            entries.append(replace(entry, systems=fit, repetitions=repetitions or entry.repetitions))
    prepare(console, {system for entry in entries for system in entry.systems})
    result = Run(runner.machine())
    for one in (planning, command_line):
        if one.WORKLOAD.startswith(only):
            result.records += one.measure()
    alone = [one for one in ALONE[suite] if "slipway" in wanted and one.name.startswith(only)]
    result.records += [asyncio.run(one.run(number)) for number in range(repetitions or 1) for one in alone]
    result.save(out)
    asyncio.run(runner.run(entries, result, out, console, patience))
    print(tables.markdown(result))


def prepare(console: Console, systems: Collection[str]) -> None:
    """Build what the machine lacks."""
    progress = for_console(console)
    packages.ensure(packages.CONTROL_PLANE, progress)
    binaries.ensure([*components.CONTROL_PLANE, *components.SIMULATED], progress)
    built = {"ceiling": programs.CEILING, "jobset": programs.JOBSET, "kuberay": programs.KUBERAY}
    for name, program in built.items():
        if any(one.startswith(name) for one in systems):
            program.ensure()


@main.command()
@click.argument("files", type=click.Path(path_type=Path, exists=True), nargs=-1, required=True)
@click.option(
    "--publish", is_flag=True, help=f"Write tables, figures and picture to {PUBLISHED}, and the table of {SUMMARY}."
)
def report(files: Sequence[Path], publish: bool) -> None:
    """Show the tables of a run, or of several that are parts of one; of a workload in two the later is taken."""
    result = merged(map(load, files))
    text = tables.markdown(result)
    print(text)
    if publish:
        from tests.bench.picture import draw

        PUBLISHED.mkdir(parents=True, exist_ok=True)
        result.save(PUBLISHED / "results.json")
        draw(result, PUBLISHED / "results.svg")
        (PUBLISHED / "results.md").write_text(_published(result, text))
        SUMMARY.write_text(costs.page(SUMMARY.read_text(), result))


def merged(runs: Iterable[Run]) -> Run:
    """Parts of a run as one. Ratios hold within a part only, so no workload is taken from two."""
    result = Run({})
    for run in runs:
        for one in run.records:
            one.processor = one.processor or run.machine.get("processor", "")
        again = {(one.workload, one.profile) for one in run.records}
        kept = [one for one in result.records if (one.workload, one.profile) not in again]
        result = Run(run.machine, kept + run.records)
    return result


def _published(result: Run, text: str) -> str:
    where = ", ".join(f"{name} {value}" for name, value in result.machine.items())
    head = f"# Results\n\nWritten by `make bench`; read [how it is measured](README.md).\n\n{where}\n\n"
    for processor, found in groupby(sorted(costs.of_others(result), key=_processor), _processor):
        head += f"From an earlier machine ({processor}): {', '.join(dict.fromkeys(map(_named, found)))}.\n\n"
    return head + text


def _processor(record: Record) -> str:
    return record.processor


def _named(record: Record) -> str:
    return record.workload if record.profile == "unthrottled" else f"{record.workload} ({record.profile})"


if __name__ == "__main__":
    # Clusters of the benchmark are nobody else's.
    # Told to end, it ends what it started.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.setdefault("SLIPWAY_STATE", str(Path("~/.local/state/slipway-bench").expanduser()))
    main()

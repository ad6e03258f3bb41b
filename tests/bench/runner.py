"""Runs workloads. Systems take turns within each repetition, so that what strangers do to the machine hits all."""

import asyncio
import gc
import platform
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path

from rich.console import Console

from slipway.devcluster.programs.components import KUBERNETES
from tests.bench.observer import Observer
from tests.bench.place import Place, Profile, place
from tests.bench.records import Record, Run
from tests.bench.systems import SYSTEMS, ReplicatedSystem, System
from tests.bench.usage import calm
from tests.bench.workloads import Turn, Workload
from tests.bench.workloads.base import Unfit

GONE_SECONDS = 600.0
REST_SECONDS = 2.0
"""Pause after a turn, in which garbage collection ends."""
CALM_CORES = 0.4
"""Above this somebody else is at work on the machine; a turn waits a while for them to end."""


@dataclass(frozen=True)
class Entry:
    """A workload, the systems that go through it, and how often."""

    workload: Workload
    systems: tuple[str, ...]
    repetitions: int
    profile: Profile = "unthrottled"


def machine() -> dict[str, object]:
    """Where and when."""
    model = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "cores": len(model),
        "processor": model[0].partition(":")[2].strip() if model else platform.machine(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "kubernetes": KUBERNETES,
    }


async def run(entries: Sequence[Entry], result: Run, out: Path, console: Console, patience: float) -> None:
    """Measure everything; what is measured is saved after each turn.

    Before each turn up to `patience` seconds are waited for a quiet machine.
    """
    # Neighbours with the same nodes share a control plane.
    for (profile, _), group in groupby(entries, lambda one: (one.profile, one.workload.pools)):
        same = list(group)
        with tempfile.TemporaryDirectory(prefix="slipway-bench-") as folder:
            async with place(same[0].workload.pools, profile, Path(folder)) as there:
                for entry in same:
                    await _measure(there, entry, result, out, console, patience)


async def _measure(there: Place, entry: Entry, result: Run, out: Path, console: Console, patience: float) -> None:
    for repetition in range(entry.repetitions):
        for name in _order(entry, repetition):
            await calm(CALM_CORES, patience)
            records = await turn(there, entry.workload, SYSTEMS[name], repetition)
            result.records += records
            result.save(out)
            for record in records:
                console.print(_line(record), highlight=False, soft_wrap=True)


def _order(entry: Entry, repetition: int) -> list[str]:
    """Another system begins in each repetition."""
    fit = [name for name in entry.systems if _fits(SYSTEMS[name], entry.workload)]
    first = repetition % len(fit)
    return fit[first:] + fit[:first]


def _fits(system: type[System], workload: Workload) -> bool:
    return (system.ends or not workload.needs_end) and (
        issubclass(system, ReplicatedSystem) or not workload.needs_standby
    )


async def turn(there: Place, workload: Workload, kind: type[System], repetition: int) -> list[Record]:
    """One turn of one system; nothing of it is left."""
    system = kind(there)
    await system.start()
    try:
        # With ten thousand pods in the observer a collection of garbage would stop the clock of what is measured.
        gc.collect()
        gc.disable()
        async with Observer(there.api, system.pods, system.selector) as observer:
            await system.prepare(workload.jobs)
            one = Turn(there, system, observer, repetition)
            try:
                await workload.run(one)
            except Unfit as error:
                one.record(workload.name, 0).problem = str(error)
            began = asyncio.get_running_loop().time()
            await system.remove(workload.jobs)
            if not await observer.until(lambda: not observer.alive(), GONE_SECONDS):
                raise SystemExit(f"{system.name} left {len(observer.alive())} pods behind")
            one.records[-1].times["removed"] = asyncio.get_running_loop().time() - began
            for record in one.records:
                record.lists = observer.lists
    finally:
        await system.stop()
        gc.enable()
    await asyncio.sleep(REST_SECONDS)
    return one.records


def _line(record: Record) -> str:
    times = ", ".join(f"{name} {value:.3f}" for name, value in record.times.items())
    cpu = f"controller {record.cpu.get('controller', 0):.2f} s, apiserver {record.cpu.get('kube-apiserver', 0):.2f} s"
    foreign = record.cpu.get("foreign", 0.0) / record.span if record.span else 0.0
    end = f" [{record.problem}]" if record.problem else ""
    return (
        f"{record.workload:22} {record.system:16} {record.repetition}  {times}; CPU {cpu}; "
        f"peak {record.peak_mib:.0f} MiB; foreign {foreign:.2f} cores{end}"
    )

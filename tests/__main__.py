"""Runs the tests: `python -m tests` those of the gate, `python -m tests --all` every one. See CONTRIBUTING.md.

What only computes runs first, on all processors. What uses real components follows in three processes beside each
other, and what looks at the whole machine comes last, alone. A few failures of real components are run once more,
alone. What passes then is a race: it is said to be one, its first failure is kept, and it refuses no change.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from tests.places import ROOT
from tests.stages import PHASES, Stage
from tests.waiting import START_SECONDS, ended

OUT: Final = ROOT / ".ci/out"
"""Where each run leaves a folder: JUnit XML, what became of each test, and the logs of those that failed."""
RACES: Final = 3
"""More tests than these do not fail by a race alone."""
SLOWEST: Final = 20
NO_TESTS: Final = 5
"""How pytest ends where nothing was chosen."""


@dataclass
class Outcome:
    """What became of one test."""

    process: str
    """Of pytest, which ran it."""
    outcome: str = "passed"
    seconds: float = 0.0


@dataclass
class Results:
    """What became of the tests of a run."""

    tests: dict[str, Outcome] = field(default_factory=dict)
    left_out: int = 0
    problems: list[str] = field(default_factory=list)
    """What no test that failed explains, as a process of pytest that broke."""

    def add(self, name: str, lines: Iterable[str], code: int) -> None:
        """Add what a process of pytest has written, and how it ended."""
        failed, chosen, seen = len(self.of("failed")), 0, set[str]()
        for line in lines:
            record = json.loads(line)
            if "test" not in record:
                chosen, self.left_out = chosen + record["chosen"], self.left_out + record["left_out"]
                continue
            seen.add(record["test"])
            test = self.tests.setdefault(record["test"], Outcome(name))
            test.seconds += record["seconds"]
            if record["outcome"] != "passed" and test.outcome != "failed":
                test.outcome = record["outcome"]
        by_tests = code == 0 or (code == 1 and len(self.of("failed")) > failed) or (code == NO_TESTS and not chosen)
        if not by_tests or len(seen) < chosen:
            self.problems.append(f"{name} ended with exit code {code} after {len(seen)} of {chosen} tests")

    def forgive(self, failed: Collection[str], alone: "Results") -> None:
        """Call those tests races that have passed alone."""
        for test in set(failed) & set(alone.of("passed")):
            self.tests[test].outcome = "race"

    @property
    def are_red(self) -> bool:
        """Whether the run refuses a change; one without any test does."""
        return bool(self.problems or self.of("failed") or not self.tests)

    def of(self, outcome: str) -> list[str]:
        """The tests with that outcome."""
        return [name for name, one in self.tests.items() if one.outcome == outcome]


class Process:
    """One process of pytest, whose lines are shown with its name before them."""

    def __init__(self, name: str, out: Path, arguments: Sequence[str]) -> None:
        self.name, self._record = name, out / f"{name}.jsonl"
        kept = [f"--record={self._record}", f"--junitxml={out / name}.xml", f"--evidence={out / name}"]
        self._process = subprocess.Popen(
            [sys.executable, "-u", "-m", "pytest", *kept, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            # An interruption of the terminal reaches this process alone, which hands it on once.
            process_group=0,
        )

    def show(self) -> int:
        """Show its lines until it ends; its exit code."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            print(f"{self.name:13} | {line}", end="", flush=True)
        return self._process.wait()

    def lines(self) -> list[str]:
        """What it has written about its tests."""
        return self._record.read_text().splitlines() if self._record.exists() else []

    def stop(self) -> None:
        """Interrupt it if it still runs, so that it removes its clusters."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGINT)
            ended(self._process, START_SECONDS)


def run(stages: Sequence[Sequence[Stage]], out: Path, options: Sequence[str], results: Results) -> None:
    """Run processes of pytest beside each other, each with its stages."""
    processes: list[Process] = []
    with ThreadPoolExecutor() as threads:
        try:
            for some in stages:
                own = ["--numprocesses", str(os.cpu_count() or 1), "--dist", "worksteal"] if Stage.PURE in some else []
                processes.append(Process("+".join(some), out, [f"--stages={','.join(some)}", *own, *options]))
            codes = list(threads.map(Process.show, processes))
        finally:
            for process in processes:
                process.stop()
    for process, code in zip(processes, codes, strict=True):
        results.add(process.name, process.lines(), code)


def may_be_races(results: Results) -> list[str]:
    """The failed tests if they may be races: few, none that only computes, and nothing else went wrong."""
    failed = results.of("failed")
    computes = any(results.tests[test].process == Stage.PURE for test in failed)
    return [] if results.problems or len(failed) > RACES or computes else failed


def run_alone(tests: Sequence[str], out: Path, options: Sequence[str]) -> Results:
    """Run failed tests once more."""
    alone, process = Results(), Process("alone", out, [*tests, *options])
    try:
        code = process.show()
    finally:
        process.stop()
    alone.add(process.name, process.lines(), code)
    return alone


def main(given: Sequence[str]) -> int:
    """Run what the command line asks for; the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests", description=__doc__)
    parser.add_argument("--all", action="store_true", help="every test, and not those of the gate alone")
    parser.add_argument("--part", choices=[*Stage], help="the tests of one stage")
    asked, arguments = parser.parse_known_args(given)
    signal.signal(signal.SIGTERM, _stop)
    out = OUT / (asked.part or ("all" if asked.all else "gate"))
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    began, results = time.monotonic(), Results()
    gate = [] if asked.all else ["--gate"]
    for phase in [[[Stage(asked.part)]]] if asked.part else PHASES:
        run(phase, out, [*gate, *arguments], results)
    if again := may_be_races(results):
        results.forgive(again, run_alone(again, out, gate))
    _tell(results, asked.all, out, time.monotonic() - began)
    return int(results.are_red)


def _tell(results: Results, everything: bool, out: Path, seconds: float) -> None:
    slowest = sorted(results.tests.items(), key=lambda one: -one[1].seconds)[:SLOWEST]
    print("slowest tests:", *(f"{one.seconds:7.1f} s  {name}" for name, one in slowest), sep="\n  ")
    for test in results.of("quarantined"):
        print(f"QUARANTINE {test} failed: mend it before its time is over")
    for test in results.of("race"):
        print(f"RACE {test} failed, and passed alone: mend it; {out.relative_to(ROOT)} has its logs")
    for test in results.of("failed"):
        print(f"FAILED {test}")
    for problem in results.problems:
        print(f"FAILED {problem}")
    counts = Counter(one.outcome for one in results.tests.values())
    passed, failed = counts["passed"] + counts["race"], counts["failed"]
    minutes, rest = divmod(int(seconds), 60)
    parts = f"`make test-all` runs them, PART={'|'.join(Stage)} a part of it"
    left_out = f"{results.left_out} were left out: {parts}" if not everything else "none of these was left out"
    print(f"{len(results.tests)} tests ran in {minutes}:{rest:02}; {left_out}")
    print(f"{passed} passed, {failed} failed, {len(results.tests) - passed - failed} skipped or in quarantine")


def _stop(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""`python -m tests.local_simulation --count N --seed S`: run histories; the exit code says whether all held."""

import argparse
import sys
import time
from collections.abc import Sequence

from tests.local_simulation.run import run_many, told


def _show(seed: int, message: str, lines: Sequence[str]) -> None:
    print(f"\n=== seed {seed}: {message}", *lines, f"=== seed {seed}: {message}", sep="\n")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the command line asks for; returns 1 when an invariant broke."""
    parser = argparse.ArgumentParser(prog="python -m tests.local_simulation", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="how many histories")
    parser.add_argument("--seed", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=2, help="how many processes")
    parser.add_argument("--show", type=int, default=3, help="how many failing histories to print in full")
    parser.add_argument("--trace", action="store_true", help="print the history of --seed, whether or not it fails")
    asked = parser.parse_args(arguments)
    if asked.trace:
        broken, lines = told(asked.seed)
        _show(asked.seed, broken or "no invariant broke", lines)
        return 1 if broken else 0
    began = time.monotonic()
    done, failures = run_many(asked.seed, asked.count, asked.jobs)
    seconds = time.monotonic() - began
    for failure in failures[: asked.show]:
        _show(failure.seed, failure.message, failure.lines)
    for failure in failures[asked.show :]:
        print(f"seed {failure.seed}: {failure.message}")
    print(f"{done} histories in {seconds:.1f} s, {done / seconds:.0f} a second; {len(failures)} broke an invariant")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

"""Runs every test in four processes beside each other: `python -m tests [options of pytest]`.

A few failures among thousands of tests with real components are run once more, when the machine is quiet. What passes
then is a race: it is printed as one, with its first failure above, and refuses no change.
"""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Final

COMPUTING: Final = ("local_simulation", "planner", "simulation")
"""They only compute, and have the processor while the others wait."""
MACHINES: Final = ("e2e", "kueue", "ray")
"""They have nodes or a Kueue of their own, and wait for these two thirds of the time."""
ENGINES: Final = ("docker_engine", "local_cluster", "local_engine", "sdk")
"""A Docker engine mounts files on this machine: what looks for mounts that a cluster left goes before or after it."""
RACES: Final = 3
"""More tests than these do not fail by a race alone."""


class Stream:
    """One process of pytest, whose lines are shown with its name before them."""

    def __init__(self, name: str, arguments: list[str], *, idle: bool = False) -> None:
        self.name = name
        self.failed: list[str] = []
        """The tests that failed, by their ids."""
        command = [*(["chrt", "--idle", "0"] if idle else []), sys.executable, "-u", "-m", "pytest", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )

    def show(self) -> list[str]:
        """Show its lines until it ends; the lines that say what failed, none if every test passed."""
        assert self.process.stdout is not None
        failed = []
        for line in self.process.stdout:
            shown = f"{self.name:9} | {line}"
            print(shown, end="", flush=True)
            if line.startswith(("FAILED ", "ERROR ")):
                failed.append(shown)
                self.failed.append(line.split(" ", 1)[1].split(" - ")[0].strip())
        code = self.process.wait()
        return failed or [f"{self.name:9} | ended with exit code {code}\n"] if code else []

    @property
    def may_be_a_race(self) -> bool:
        """Whether it ended because of single tests, and of these alone."""
        return self.process.returncode == 0 or bool(self.process.returncode == 1 and self.failed)


def _folders(names: tuple[str, ...]) -> list[str]:
    return [f"tests/{name}" for name in names]


def _stop(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main(options: list[str]) -> int:
    signal.signal(signal.SIGTERM, _stop)
    others = [f"--ignore={folder}" for folder in _folders(COMPUTING + MACHINES + ENGINES)]
    streams = [
        Stream("computing", [*_folders(COMPUTING), *options], idle=True),
        Stream("machines", [*_folders(MACHINES), *options]),
        Stream("engines", [*_folders(ENGINES), *options]),
        Stream("others", [*others, *options]),
    ]
    with ThreadPoolExecutor() as threads:
        try:
            failed = [line for lines in threads.map(Stream.show, streams) for line in lines]
        finally:
            for stream in streams:
                stream.process.terminate()
    # The end of a long output is what is read, and the process that failed is seldom the last one to end.
    print("".join(failed), end="")
    return 1 if failed and not _only_races(streams, options) else 0


def _only_races(streams: list[Stream], options: list[str]) -> bool:
    """Whether what failed beside other tests passes without them."""
    computing, *real = streams
    tests = sorted({test for stream in real for test in stream.failed})
    if computing.process.returncode or len(tests) > RACES or not all(stream.may_be_a_race for stream in real):
        return False
    alone = Stream("alone", [*tests, *options])
    try:
        if alone.show():
            return False
    finally:
        alone.process.terminate()
    for test in tests:
        print(f"RACE      | {test} failed beside other tests and passed alone: mend it")
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Runs every test in three processes beside each other: `python -m tests [options of pytest]`."""

import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Final

COMPUTING: Final = ("local_simulation", "planner", "simulation")
"""They only compute, and have the processor while the others wait."""
MACHINES: Final = ("docker_engine", "e2e", "local_cluster", "local_engine", "ray", "sdk")
"""They have engines and nodes of their own, and wait for these two thirds of the time."""


class Stream:
    """One process of pytest, whose lines are shown with its name before them."""

    def __init__(self, name: str, arguments: list[str], *, idle: bool = False) -> None:
        self.name = name
        command = [*(["chrt", "--idle", "0"] if idle else []), sys.executable, "-u", "-m", "pytest", *arguments]
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
        )

    def show(self) -> bool:
        """Show its lines until it ends; whether every test passed."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            print(f"{self.name:9} | {line}", end="", flush=True)
        return self.process.wait() == 0


def _folders(names: tuple[str, ...]) -> list[str]:
    return [f"tests/{name}" for name in names]


def _stop(number: int, _: FrameType | None) -> None:
    sys.exit(128 + number)


def main(options: list[str]) -> int:
    signal.signal(signal.SIGTERM, _stop)
    others = [f"--ignore={folder}" for folder in _folders(COMPUTING + MACHINES)]
    streams = [
        Stream("computing", [*_folders(COMPUTING), *options], idle=True),
        Stream("machines", [*_folders(MACHINES), *options]),
        Stream("others", [*others, *options]),
    ]
    with ThreadPoolExecutor() as threads:
        try:
            return 0 if all(list(threads.map(Stream.show, streams))) else 1
        finally:
            for stream in streams:
                stream.process.terminate()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

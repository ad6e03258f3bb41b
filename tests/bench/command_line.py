"""What the shell waits for: the help and the completion of the command, beside a Python that imports click only."""

import os
import subprocess
import sys
import time
from typing import Final

from tests.bench.records import Record

WORKLOAD: Final = "command line"
ROUNDS: Final = 9
CLICK: Final = "click"
"""The system that Slipway's commands are compared with: no program of that kind starts sooner."""
_SLIPWAY: Final = [
    sys.executable,
    "-c",
    "import sys; sys.argv[0] = 'slipway'; from slipway.cli.main import main; main()",
]
_COMPLETION: Final = {"_SLIPWAY_COMPLETE": "bash_complete", "COMP_WORDS": "slipway de", "COMP_CWORD": "1"}


def measure(rounds: int = ROUNDS) -> list[Record]:
    """Seconds until each has ended; the programs take turns within a round."""
    return [record for repetition in range(rounds) for record in _round(repetition)]


def _round(repetition: int) -> list[Record]:
    click = _seconds([sys.executable, "-c", "import click"])
    help_, completion = _seconds([*_SLIPWAY, "--help"]), _seconds(_SLIPWAY, **_COMPLETION)
    return [
        Record(WORKLOAD, CLICK, repetition, 0, times={"help": click, "completion": click}),
        Record(WORKLOAD, "slipway", repetition, 0, times={"help": help_, "completion": completion}),
    ]


def _seconds(command: list[str], **more: str) -> float:
    start = time.perf_counter()
    subprocess.run(command, env=os.environ | more, stdout=subprocess.PIPE, check=True)
    return time.perf_counter() - start

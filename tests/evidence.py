"""What a failed test leaves behind: how busy the machine was, and the logs that it wrote."""

import os
import re
import shutil
import subprocess
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Final

import pytest

from tests.running import Jobs, Operator

LARGEST: Final = 1_000_000
"""Bytes of a file that are kept."""
MOST_FILES: Final = 200
LONGEST_NAME: Final = 200
"""Of a folder, the end of a test's name."""
SHOWN: Final = 5
"""Processes that are named."""


def machine() -> str:
    """The load of this machine, its free memory, and the processes that use most of its processors."""
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    free = re.search(r"MemAvailable:\s+(\d+)", Path("/proc/meminfo").read_text())
    head = f"load average {load}; {int(free[1]) // 1024 if free else 0} MiB of memory available"
    if shutil.which("ps") is None:
        return head
    command = ["ps", "-eo", "pcpu,etimes,args", "--sort=-pcpu", "--no-headers"]
    busy = subprocess.run(command, capture_output=True, text=True, check=False).stdout.splitlines()[:SHOWN]
    return "\n".join([head, "% of a processor, seconds since its start, command:", *(one[:150] for one in busy)])


def keep(item: pytest.Item, folder: Path) -> None:
    """Copy the files of a test's own folder and the logs of its operators; of large ones the end."""
    place = folder / re.sub(r"[^\w.-]+", "_", item.nodeid)[-LONGEST_NAME:]
    given = getattr(item, "funcargs", {})
    files = {}
    if isinstance(own := given.get("tmp_path"), Path):
        found = (path for path in own.rglob("*") if path.is_file() and not path.is_symlink())
        files = {path: path.relative_to(own) for path in islice(found, MOST_FILES)}
    for name, one in given.items():
        operator = one.operator if isinstance(one, Jobs) else one
        if isinstance(operator, Operator):
            files.setdefault(operator.log, Path(name, operator.log.name))
    for source, target in files.items():
        # Those that write them may remove them meanwhile.
        with suppress(OSError):
            (place / target).parent.mkdir(parents=True, exist_ok=True)
            with source.open("rb") as content:
                content.seek(max(0, source.stat().st_size - LARGEST))
                (place / target).write_bytes(content.read(LARGEST))

"""Versions of Slipway: their sources from git, and what was recorded of them."""

import io
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any, Final

from tests.places import ROOT
from tests.waiting import START_SECONDS

Json = dict[str, Any]

RECORDED: Final = {
    "e6a429f": "jobs on TPU slices and on CPUs, and Ray",
    "067becd": "words for what can never work, and for whom a job waits",
    "e6b2189": "commands, the Python client, and the names by which workers meet",
    "8ca8f2c": "GPUs, directories and data, site profiles, and jobs on one machine",
    "a634b28": "operator ids, names of the application in labels, metrics, and the ledger",
    "f9197c9": "progress that jobs print, and queues of Kueue",
    "94e3069": "the time in queues, and fewer slices of a queue",
    "40dca50": "node pools that are remembered, and what one job's pods cost the control plane",
}
"""The commits at the ends of larger changes, oldest first, and what had come with each.

The history has the first three; of the others there is the recording.
"""


def save(commit: str, left: list[Json]) -> None:
    """Write a recording to its file, one object a line."""
    _file(commit).write_text("".join(f"{json.dumps(one)}\n" for one in left))


def load(commit: str) -> dict[str, list[Json]]:
    """Read the recording of a version: by kind, its CRDs and what its operator left."""
    kinds: dict[str, list[Json]] = {}
    for line in _file(commit).read_text().splitlines():
        one = json.loads(line)
        kinds.setdefault(one["kind"], []).append(one)
    return kinds


def _file(commit: str) -> Path:
    return Path(__file__).parent / "recorded" / f"{commit}.jsonl"


def unpack(commit: str, folder: Path) -> None:
    """Unpack the operator and the CRDs of a commit. A shallow clone has only the newest."""
    command = ["git", "archive", commit, "operator", "crds"]
    archive = subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=START_SECONDS).stdout
    with tarfile.open(fileobj=io.BytesIO(archive)) as files:
        files.extractall(folder, filter="data")

"""The logs of containers: while there is a container from the engine, afterwards from a file of the job."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from slipway.docker_engine.containers import Containers

MOST_BYTES: Final = 1024**3
"""Of all logs that are kept of a job."""


def keep_log(containers: Containers, container: str, path: Path) -> None:
    """Write the whole log of a container that has ended to a file, each line after its time.

    The engine bounds the log of a container, and Slipway that of all containers of the job: the oldest go first.
    """
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    fresh = path.with_suffix(".part")
    with fresh.open("wb") as file:
        for piece in containers.log(container):
            file.write(piece)
    fresh.replace(path)
    forget_oldest(path.parent)


def forget_oldest(folder: Path, most: int = MOST_BYTES) -> None:
    """Remove the oldest logs of a job until the others have at most so many bytes."""
    kept = 0
    for one in sorted(_files(folder), reverse=True):
        kept += one.size
        if kept > most:
            one.path.unlink(missing_ok=True)


class _File(NamedTuple):
    changed: float
    size: int
    path: Path


def _files(folder: Path) -> Iterator[_File]:
    for path in folder.glob("*.log"):
        # Another thread may be removing it.
        with suppress(FileNotFoundError):
            found = path.stat()
            yield _File(found.st_mtime, found.st_size, path)

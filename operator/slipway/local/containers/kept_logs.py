"""The logs of containers: while there is a container from the engine, afterwards from a file of the job."""

from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import Final, NamedTuple

from slipway.local.containers.containers import Containers, Log, Streams

MOST_BYTES: Final = 1024**3
"""Of all logs that are kept of a job."""
_SINGLE: Final = (Streams(stderr=False), Streams(stdout=False))


def keep_log(containers: Containers, container: str, path: Path) -> None:
    """Write the whole log of a container that has ended to a file, each line after its time.

    The engine bounds the log of a container, and Slipway that of all containers of the job: the oldest go first.
    """
    if path.exists():
        return
    path.parent.mkdir(exist_ok=True)
    # The whole log last: it says that all are there.
    for streams in _SINGLE:
        _write(containers.log(container, streams=streams), _of_stream(path, streams))
    _write(containers.log(container), path)
    forget_oldest(path.parent)


def stand_in(path: Path, failed: Path) -> None:
    """Have the log of an init container that failed be found in place of that of the worker, which never started."""
    if not path.is_symlink():
        path.symlink_to(failed.name)


def stands_in(path: Path) -> str:
    """Name of the container whose log is found in place of a worker's; empty where it is the worker's own."""
    return path.readlink().stem if path.is_symlink() else ""


def _write(log: Log, path: Path) -> None:
    fresh = path.with_name(f"{path.name}.part")
    with fresh.open("wb") as file:
        for piece in log:
            file.write(piece)
    fresh.replace(path)


def _of_stream(path: Path, stream: Streams) -> Path:
    """Beside a log the lines of one stream alone: in the whole log nothing says which they are."""
    return path.with_suffix(".stdout" if stream.stdout else ".stderr")


def lines_of(log: bytes) -> list[bytes]:
    """The lines of a log; a carriage return, as progress bars write it, ends none."""
    return BytesIO(log).readlines()


def kept_log(path: Path, streams: Streams) -> list[bytes]:
    """The lines of a log that is kept, of one stream or both.

    Raises:
        FileNotFoundError: when it is not kept.
    """
    # One that stands in for another has its streams beside it.
    return lines_of((path if all(streams) else _of_stream(path.resolve(), streams)).read_bytes())


def forget_oldest(folder: Path, most: int = MOST_BYTES) -> None:
    """Remove the oldest logs of a job until the others have at most so many bytes."""
    kept = 0
    for file in sorted(_files(folder), reverse=True):
        kept += file.size
        if kept > most:
            file.path.unlink(missing_ok=True)
            for stream in _SINGLE:
                _of_stream(file.path, stream).unlink(missing_ok=True)


class _File(NamedTuple):
    changed: float
    size: int
    path: Path


def _files(folder: Path) -> Iterator[_File]:
    for path in folder.glob("*.log"):
        if path.is_symlink():
            continue
        # Another thread may be removing it.
        with suppress(FileNotFoundError):
            beside = [found for streams in _SINGLE if (found := _of_stream(path, streams)).exists()]
            yield _File(path.stat().st_mtime, sum(one.stat().st_size for one in (path, *beside)), path)

"""Makes the directories of a job in its volumes, and refuses links in their place: `python -m slipway.workspace_check`.

It runs in an init container of each pod, before the kubelet mounts these directories into the worker. It imports
hardly anything, so that it starts at once.
"""

import json
import os
import stat
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from errno import ELOOP, ENOTDIR
from pathlib import Path, PurePath
from typing import Any, Final

from slipway.api.names import EXIT_LINK, EXIT_UNUSABLE

_SEARCH: Final = getattr(os, "O_PATH", os.O_RDONLY)
"""A directory through which others are found need not be readable."""


class Refused(Exception):
    """A directory may not be mounted."""

    def __init__(self, code: int, words: str) -> None:
        """`code` is the exit code; `words` name the directory and what is wrong with it."""
        super().__init__(words)
        self.code = code


def main(arguments: Sequence[str]) -> int:
    """Check what the only argument orders; returns the exit code, and prints why it is not 0.

    The order is a JSON list of volumes. Each has `root`, where it is mounted; `field`, as its user knows it; `make`,
    the job's directory; `need`, directories that must exist; and `mine`, whether the worker runs as this user does.
    """
    try:
        for volume in json.loads(arguments[0]):
            check(volume)
    except Refused as error:
        print(error)
        return error.code
    return 0


def check(volume: dict[str, Any]) -> None:
    """Make the directory of one order, and refuse what may not be mounted.

    Besides the parts that `main` names an order of root may have `owner`, the user to whom a new directory is given.

    Raises:
        Refused: naming the directory.
    """
    for path in volume["need"]:
        if not _is_directory(volume, path):
            raise Refused(EXIT_UNUSABLE, f"{_named(volume, path)} does not exist: make it, or do not ask for it")
    with ExitStack() as opened:
        _make_all(volume, opened)


def _make_all(volume: dict[str, Any], opened: ExitStack) -> None:
    """Make each directory on the way where it is missing.

    Each is found in the descriptor of the one before: who may write there can put a link in the place of a name, and
    nothing is done through a link.
    """
    made, above = "", _opened(volume, None, "", opened)
    parts = volume["make"].split("/")
    for part, following in zip(parts, (*parts[1:], ""), strict=True):
        made, parent = f"{made}/{part}".lstrip("/"), above
        found = _opened(volume, parent, made, opened)
        if found is None and not _make(volume, parent, made, following, opened):
            return
        above = found if found is not None else _opened(volume, parent, made, opened)
        if above is None:
            raise Refused(EXIT_UNUSABLE, f"{_named(volume, made)} was removed by another while it was made")
    mode = os.W_OK | os.X_OK
    if volume["mine"] and not os.access(PurePath(made).name, mode, dir_fd=parent, follow_symlinks=False):
        raise Refused(
            EXIT_UNUSABLE, f"{_named(volume, made)} may not be written by user {os.getuid()}: change its owner"
        )


def _opened(volume: dict[str, Any], parent: int | None, path: str, opened: ExitStack) -> int | None:
    """A descriptor of a directory, and None where there is none; its parent is open, and it is no link.

    Raises:
        Refused: when something else is there, or when that cannot be seen.
    """
    flags = _SEARCH | os.O_DIRECTORY | (os.O_NOFOLLOW if path else 0)
    try:
        found = os.open(PurePath(path).name or volume["root"], flags, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        _is_directory(volume, path)
        raise Refused(EXIT_UNUSABLE, f"{_named(volume, path)} cannot be opened: {error.strerror}") from error
    opened.callback(os.close, found)
    return found


def _place(volume: dict[str, Any], path: str) -> Path:
    return Path(volume["root"], path)


def _named(volume: dict[str, Any], path: str) -> str:
    return f"directory {path} in the volume of {volume['field']}"


def _is_directory(volume: dict[str, Any], path: str) -> bool:
    """Whether it exists, and is a directory and no link.

    Raises:
        Refused: when something else is there, or when that cannot be seen.
    """
    named, place = _named(volume, path), _place(volume, path)
    try:
        mode = place.lstat().st_mode
    except FileNotFoundError:
        return False
    except OSError as error:
        raise Refused(EXIT_UNUSABLE, f"{named} cannot be looked at by user {os.getuid()}: {error.strerror}") from error
    if stat.S_ISLNK(mode):
        raise Refused(EXIT_LINK, f"{named} is a symbolic link to {place.readlink()}: put a directory in its place")
    if not stat.S_ISDIR(mode):
        raise Refused(EXIT_UNUSABLE, f"{named} is not a directory")
    return True


def _make(volume: dict[str, Any], parent: int | None, path: str, following: str, opened: ExitStack) -> bool:
    """Make a directory; False when this user may not and the kubelet, which is root, has to.

    In the moment after, another host of the job may make the `following` directory in it.
    """
    name = PurePath(path).name
    try:
        os.mkdir(name, dir_fd=parent)
        made = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        opened.callback(os.close, made)
        if set(os.listdir(made)) - {following}:  # noqa: PTH208 - a descriptor
            raise Refused(EXIT_UNUSABLE, f"{_named(volume, path)} was replaced by another while it was made")
        # Else the user of the worker is that of an image, and not known.
        os.fchmod(made, 0o775 if volume["mine"] else 0o777)
        if (owner := volume.get("owner")) is not None:
            os.fchown(made, owner, -1)
    except FileExistsError:
        # Another host of the job was faster.
        return _is_directory(volume, path)
    except OSError as error:
        if error.errno in (ELOOP, ENOTDIR):
            _is_directory(volume, path)
        if volume["mine"] or not isinstance(error, PermissionError):
            raise Refused(
                EXIT_UNUSABLE,
                f"{_named(volume, path)} cannot be made by user {os.getuid()}: {error.strerror}; let that user write "
                "to the folder it is in, or make it",
            ) from error
        return False
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

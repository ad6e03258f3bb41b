"""Watches the file of a job: by inotify, or by reading it every so often where the user has no inotify left.

A user has 128 instances of inotify on many systems, and editors and other jobs take them, too.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from threading import Event
from time import monotonic
from typing import Final

from slipway.local.jobs.job_files import JobFolder

POLL_SECONDS: Final = 0.2
SILENCE_SECONDS: Final = 1.0
"""After which `news` comes without a change: a folder that is removed at once tells nobody."""
_DEBOUNCE_MS: Final = 20
_NO_INOTIFY: Final = (RuntimeError, OSError)
"""What watchfiles raises without a free instance, without a free watch, and for a folder that is gone.

Its own polling compares whole seconds: it would miss a second change in the same one.
"""


def changes(job: JobFolder, stop: Event) -> Iterator[None]:
    """One after another, the changes of a job's file, until `stop` is set."""
    # It is of the extra `docker`, without which the commands have to load and say so.
    from watchfiles import watch

    try:
        for found in watch(job.path, recursive=False, debounce=_DEBOUNCE_MS, step=5, stop_event=stop):
            if any(name == str(job.file) for _, name in found):
                yield
    except _NO_INOTIFY:
        # What has changed until now nobody knows.
        known = None
        while not stop.wait(POLL_SECONDS):
            if known != (known := _version(job)):
                yield


async def news(job: JobFolder, *, logs: bool = False) -> AsyncGenerator[bool, None]:
    """Whether there are changes in a job's folder, whenever there are some or it was silent for a second; for ever.

    Args:
        logs: whether changes of its logs are meant, too.
    """
    from watchfiles import awatch

    # Logs are written all the time, and what is done at each change of them takes longer.
    debounce, step = (50, 10) if logs else (_DEBOUNCE_MS, 5)
    timeout = int(SILENCE_SECONDS * 1000)
    try:
        async for found in awatch(
            job.path, recursive=logs, debounce=debounce, step=step, rust_timeout=timeout, yield_on_timeout=True
        ):
            yield bool(found)
    except _NO_INOTIFY:
        known, due = None, 0.0
        while True:
            if (changed := known != (known := _version(job))) or monotonic() >= due:
                yield changed
                due = monotonic() + SILENCE_SECONDS
            await asyncio.sleep(POLL_SECONDS)


def _version(job: JobFolder) -> tuple[int, int] | None:
    """Another one after each change: a file is replaced as a whole."""
    try:
        result = job.file.stat()
    except OSError:
        return None
    return result.st_ino, result.st_mtime_ns

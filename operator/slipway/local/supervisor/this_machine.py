"""This machine as a supervisor uses it: its time, its threads, ways to wait, its engine and its devices.

In one class, so that a simulation can put a machine in its place whose time it makes pass.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from queue import Empty, Queue
from socket import gethostname
from threading import Event, Thread
from typing import TYPE_CHECKING, Final, TypeVar

from slipway.core.planner.contract.freshness import EVER
from slipway.local.conversion.devices import Inventory
from slipway.local.engine import address as engine_address
from slipway.local.engine.address import Address
from slipway.local.jobs import file_watch
from slipway.local.jobs.job_files import JobFolder

if TYPE_CHECKING:
    from docker import APIClient

T = TypeVar("T")
R = TypeVar("R")

PARALLEL: Final = 16
"""Containers that are created, started, stopped or removed at once."""
_BOOT_TIME: Final = Path("/proc/stat")


class News:
    """Words that threads have for a supervisor, until it asks for them."""

    def __init__(self) -> None:
        self._words: Queue[str] = Queue()

    def put(self, word: str) -> None:
        """Have a word for it."""
        self._words.put(word)

    def wait(self, seconds: float | None) -> set[str]:
        """All words that there are, once there is one or the seconds are over; None is for ever."""
        found: set[str] = set()
        try:
            found.add(self._words.get(timeout=seconds))
            while True:
                found.add(self._words.get_nowait())
        except Empty:
            return found


class Machine:
    """The machine that this process runs on."""

    _booted = datetime.max.replace(tzinfo=UTC)

    @cached_property
    def name(self) -> str:
        """Its name, which its jobs see as that of their node; one that it gets meanwhile makes it no other machine."""
        return gethostname()

    def now(self) -> datetime:
        """The time in UTC."""
        return datetime.now(UTC)

    def booted_at(self) -> datetime:
        """When it was started, as far back as the kernel has said since this process was.

        The kernel reckons it back from the clock. Who sets the clock forward, as after a virtual machine was paused,
        moves it past containers that go on running; it cannot have been started after this process.
        """
        self._booted = min(self._booted, _kernel_booted_at())
        return self._booted

    def sleep(self, seconds: float) -> None:
        """Do nothing for so long."""
        time.sleep(seconds)

    def thread(self, name: str, work: Callable[[], object]) -> None:
        """Have something done meanwhile; the process does not wait for it at its end."""
        Thread(target=work, daemon=True, name=name).start()

    def pool(self) -> Executor:
        """Threads for the containers of a job."""
        return ThreadPoolExecutor(PARALLEL, thread_name_prefix="containers")

    def news(self) -> News:
        """What threads tell a supervisor by."""
        return News()

    def changes(self, job: JobFolder, stop: Event) -> Iterator[None]:
        """One after another, the changes of a job's file, until `stop` is set."""
        return file_watch.changes(job, stop)

    def connect(self, address: Address) -> APIClient:
        """A connection to an engine.

        Raises:
            EngineUnavailable: when it is not reachable.
        """
        return engine_address.connect(address)

    def inventory(self) -> Inventory:
        """Its accelerators."""
        return Inventory.read()

    @contextmanager
    def choosing_devices(self) -> Iterator[None]:
        """Hold a lock of the machine, so that the supervisor of no other job and no other user chooses devices."""
        if not self.inventory().devices:
            # Not every system has a lock for this folder.
            yield
            return
        # Every user of the machine has it, and may lock it.
        descriptor = os.open("/dev", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)


def _kernel_booted_at() -> datetime:
    try:
        lines = _BOOT_TIME.read_text().splitlines()
        seconds = next(int(line.split()[1]) for line in lines if line.startswith("btime "))
    except (OSError, StopIteration):
        return EVER
    return datetime.fromtimestamp(seconds, UTC)


THIS: Final = Machine()


def at_once(pool: Executor, work: Callable[[T], R], things: Iterable[T]) -> list[R]:
    """Do it for all things at once; the first error is raised when all are done."""
    done = [pool.submit(work, thing) for thing in things]
    errors = [error for future in done if (error := future.exception()) is not None]
    if errors:
        raise errors[0]
    return [future.result() for future in done]

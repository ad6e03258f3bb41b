"""Runs many histories, in one process or in several."""

import gc
import logging
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.local_simulation.fibers import Broken
from tests.local_simulation.history import History
from tests.simulation.run import Failure, run_chunks
from tests.simulation.truth import Violation


class _Mistakes(logging.Handler):
    """Supervisors survive mistakes, and log them; a history does not."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info or record.levelno > logging.WARNING:
            error = record.exc_info[1] if record.exc_info else None
            self.found.append(repr(error or record.getMessage()))


@contextmanager
def prepared() -> Iterator[_Mistakes]:
    """Silences Slipway's logs, except for its mistakes."""
    log, mistakes = logging.getLogger("slipway"), _Mistakes()
    level, propagate = log.level, log.propagate
    log.setLevel(logging.WARNING)
    log.propagate = False
    log.addHandler(mistakes)
    try:
        yield mistakes
    finally:
        log.removeHandler(mistakes)
        log.setLevel(level)
        log.propagate = propagate


def told(seed: int) -> tuple[str, tuple[str, ...]]:
    """Run one history and write it down: what it broke, or nothing, and its lines."""
    return _run(seed, tracing=True)


def run_seed(seed: int) -> Failure | None:
    """Run one history; a failing one is run again to write it down."""
    broken, _ = _run(seed, tracing=False)
    if not broken:
        return None
    again, lines = told(seed)
    return Failure(seed, again if again == broken else f"only without tracing: {broken}", lines)


def _run(seed: int, *, tracing: bool) -> tuple[str, tuple[str, ...]]:
    broken = ""
    with prepared() as mistakes, tempfile.TemporaryDirectory(dir=_memory()) as folder:
        history = History(seed, Path(folder), tracing=tracing)
        try:
            history.run()
        except (Violation, Broken) as violation:
            broken = str(violation)
        except Exception as error:
            broken = f"{type(error).__name__}: {error}"
        if not broken and mistakes.found:
            broken = f"a mistake in Slipway: {mistakes.found[0]}"
    return broken, tuple(history.lines)


def _memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


def run_some(seeds: range) -> list[Failure]:
    """Run these, one after another."""
    found = [failure for seed in seeds if (failure := run_seed(seed)) is not None]
    gc.collect()
    return found


def run_many(first: int, count: int, jobs: int) -> tuple[int, list[Failure]]:
    """Run `count` histories from a seed on, or until there are enough failures; returns how many, and the failures."""
    return run_chunks(run_some, first, count, jobs)

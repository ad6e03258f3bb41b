"""Runs many histories, in one process or in several."""

import logging
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final
from unittest import mock

from slipway.controller import engine
from slipway.controller.seen import kueue_watches
from tests.simulation.history import History
from tests.simulation.truth import Violation

_CHUNK: Final = 50
_ENOUGH: Final = 20
"""After so many failures no more histories are run."""
NEVER: Final = 1e9
"""Seconds after which a process asks again for Kueue, which no history has."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A history that broke an invariant."""

    seed: int
    message: str
    lines: tuple[str, ...] = ()


class _Mistakes(logging.Handler):
    """The engine survives mistakes; a history does not."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.found: list[BaseException] = []

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self.found.append(error or RuntimeError(record.getMessage()))


@contextmanager
def prepared() -> Iterator[_Mistakes]:
    """Silences Slipway's logs, except for its mistakes, and spares the collector."""
    log, mistakes = logging.getLogger("slipway"), _Mistakes()
    level, propagate = log.level, log.propagate
    log.setLevel(logging.ERROR)
    log.propagate = False
    log.addHandler(mistakes)
    with mock.patch.object(engine, "gc", autospec=True), mock.patch.object(kueue_watches, "AGAIN_SECONDS", NEVER):
        try:
            yield mistakes
        finally:
            log.removeHandler(mistakes)
            log.setLevel(level)
            log.propagate = propagate


def told(seed: int, record: Path | None = None, only: Sequence[str] = ()) -> tuple[str, tuple[str, ...]]:
    """Run one history and write it down: what it broke, or nothing, and its lines.

    `record` is a directory for what each of its decisions is made from, `only` the grounds it stands on.
    """
    return _run(seed, tracing=True, record=record, only=only)


def run_seed(seed: int, only: Sequence[str] = ()) -> Failure | None:
    """Run one history; a failing one is run again to write it down."""
    broken, _ = _run(seed, tracing=False, only=only)
    if not broken:
        return None
    again, lines = told(seed, only=only)
    return Failure(seed, again or f"only without tracing: {broken}", lines)


def _run(
    seed: int, *, tracing: bool, record: Path | None = None, only: Sequence[str] = ()
) -> tuple[str, tuple[str, ...]]:
    broken = ""
    with prepared() as mistakes:
        history = History(seed, tracing=tracing, record=record, only=only)
        try:
            history.run()
        except Violation as violation:
            broken = str(violation)
        except Exception as error:
            broken = f"{type(error).__name__}: {error}"
        if not broken and mistakes.found:
            broken = f"a mistake in Slipway: {mistakes.found[0]!r}"
    return broken, tuple(history.lines)


def run_some(seeds: range, only: Sequence[str] = ()) -> list[Failure]:
    """Run these, one after another."""
    return [failure for seed in seeds if (failure := run_seed(seed, only)) is not None]


def run_many(first: int, count: int, jobs: int, *, only: Sequence[str] = ()) -> tuple[int, list[Failure]]:
    """Run `count` histories from a seed on, or until there are enough failures; returns how many, and the failures."""
    return run_chunks(partial(run_some, only=only), first, count, jobs)


def run_chunks(run: Callable[[range], list[Failure]], first: int, count: int, jobs: int) -> tuple[int, list[Failure]]:
    """Have seeds run in several processes, some at a time, until all have or there are enough failures."""
    chunks = [range(at, min(at + _CHUNK, first + count)) for at in range(first, first + count, _CHUNK)]
    done, failures = 0, []
    with ProcessPoolExecutor(jobs) as pool:
        for chunk, found in zip(chunks, pool.map(run, chunks), strict=True):
            failures += found
            done += len(chunk)
            if len(failures) >= _ENOUGH:
                pool.shutdown(cancel_futures=True)
                break
    return done, failures

"""Whether anybody still waits for a job to be submitted, which takes as long as its images are large."""

from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock

from slipway.local.images.progress import BuildReporter, Silent


class GivenUp(Exception):
    """Nobody waits any more for the job that was to be submitted; it was not stored."""


class Waiting:
    """Who waits for a submission in another thread, and reads how far its images are.

    One that is given up ends with the next word of the engine, and stores nothing.
    """

    def __init__(self, progress: BuildReporter | None = None) -> None:
        self._progress: BuildReporter = progress or Silent()
        self._storing = Lock()
        self._given_up = False

    def give_up(self) -> None:
        """Have the job not stored, unless it is stored by now, or just being stored: then that is done first."""
        with self._storing:
            self._given_up = True

    @contextmanager
    def storing(self) -> Iterator[None]:
        """Store the job meanwhile, unless it was given up: raises GivenUp."""
        with self._storing:
            self._go_on()
            yield

    def step(self, text: str) -> None:
        """Say that a step of the work has begun."""
        self._go_on()
        self._progress.step(text)

    def line(self, text: str) -> None:
        """Pass on a line of output."""
        self._go_on()
        self._progress.line(text)

    def layer(self, layer: str, status: str, done: int, total: int) -> None:
        """Say how far a layer has travelled."""
        self._go_on()
        self._progress.layer(layer, status, done, total)

    def _go_on(self) -> None:
        if self._given_up:
            raise GivenUp

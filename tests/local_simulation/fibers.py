"""Threads of which one runs at a time, in simulated time, so that code that blocks can be simulated as it is."""

import os
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from threading import Lock, Thread
from typing import Any, ClassVar

from tests.simulation.timeline import Timeline


class Killed(BaseException):
    """The process of this fiber is gone; nobody catches it."""


class Broken(BaseException):
    """An invariant does not hold; production code, which survives mistakes, must not survive that."""


class _Carrier:
    """A thread that carries one fiber after another."""

    idle: ClassVar[list["_Carrier"]] = []

    def __init__(self) -> None:
        self.go, self.back = Lock(), Lock()
        self.go.acquire()
        self.back.acquire()
        self.work: Callable[[], object] = lambda: None
        Thread(target=self._run, daemon=True, name="fibers").start()

    def _run(self) -> None:
        while True:
            self.go.acquire()
            self.work()
            self.idle.append(self)
            self.back.release()


# A forked process has no thread of its parent but one.
os.register_at_fork(after_in_child=_Carrier.idle.clear)


class Fiber:
    """Something that a process does, until it waits or ends."""

    current: "Fiber | None" = None

    def __init__(self, process: "Process", work: Callable[[], object]) -> None:
        self.process = process
        self.over = False
        self._work = work
        self._carrier: _Carrier | None = None
        self._error: BaseException | None = None
        self._turn = 0
        process.timeline.after(0.0, lambda: self.resume(0))

    def resume(self, turn: int) -> None:
        """Let it go on until it waits again, unless it has gone on since."""
        if self.over or turn != self._turn:
            return
        if self._carrier is None:
            if self.process.dead:
                self.over = True
                return
            self._carrier = _Carrier.idle.pop() if _Carrier.idle else _Carrier()
            self._carrier.work = self._carried
        self._turn += 1
        outer, Fiber.current = Fiber.current, self
        self._carrier.go.release()
        self._carrier.back.acquire()
        Fiber.current = outer
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def _carried(self) -> None:
        try:
            self._work()
        except Killed:
            pass
        except BaseException as error:
            self._error = error
        self.over = True

    def pause(self) -> None:
        """Wait until somebody lets it go on."""
        assert self._carrier is not None
        self.process.still_alive()
        self._carrier.back.release()
        self._carrier.go.acquire()
        self.process.still_alive()

    @property
    def turn(self) -> int:
        """What `resume` is to be called with."""
        return self._turn

    def end(self) -> None:
        """Let a fiber of a dead process find out."""
        self.resume(self._turn)


def current() -> Fiber:
    """The fiber that runs."""
    assert Fiber.current is not None
    return Fiber.current


class Signal:
    """Something that fibers wait for."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._waiting: list[tuple[Fiber, int]] = []

    def wait(self, seconds: float | None = None) -> None:
        """Until it is given, or the seconds are over."""
        fiber = current()
        turn = fiber.turn
        self._waiting.append((fiber, turn))
        if seconds is not None:
            self._timeline.after(seconds, lambda: fiber.resume(turn))
        fiber.pause()

    def give(self) -> None:
        """Wake all who wait."""
        waiting, self._waiting = self._waiting, []
        for fiber, turn in waiting:
            self._timeline.after(0.0, partial(fiber.resume, turn))


class Process:
    """Fibers that die together."""

    def __init__(self, timeline: Timeline, name: str, job: str = "") -> None:
        self.timeline = timeline
        self.name = name
        self.job = job
        """What it looks after."""
        self.dead = False
        self.died: float | None = None
        self.steps_left: int | None = None
        """After how many steps it is killed."""
        self.began = timeline.now
        self.on_death: list[Callable[[], None]] = []
        self._fibers: list[Fiber] = []

    def spawn(self, work: Callable[[], object]) -> None:
        """Begin something."""
        self._fibers = [one for one in self._fibers if not one.over]
        self._fibers.append(Fiber(self, work))

    def sleep(self, seconds: float) -> None:
        """Let time pass for the fiber that runs."""
        fiber = current()
        turn = fiber.turn
        self.timeline.after(seconds, lambda: fiber.resume(turn))
        fiber.pause()

    def step(self) -> None:
        """A point at which it may be killed.

        Raises:
            Killed: when it is.
        """
        self.still_alive()
        if self.steps_left is not None:
            self.steps_left -= 1
            if self.steps_left <= 0:
                self.kill()
                raise Killed

    def still_alive(self) -> None:
        """Raises Killed where it is not."""
        if self.dead:
            raise Killed

    def kill(self) -> None:
        """It is gone at once; whatever it was doing is never finished."""
        if self.dead:
            return
        self.dead, self.died = True, self.timeline.now
        mine = Fiber.current
        for one in self._fibers:
            if one is not mine and not one.over:
                self.timeline.after(0.0, one.end)
        for act in self.on_death:
            act()

    def bury(self) -> None:
        """End what is left of it, when the history is over."""
        self.dead = True
        for one in self._fibers:
            one.end()


class Pool(Executor):
    """Fibers for the work of a process, so many at once."""

    def __init__(self, process: Process, size: int) -> None:
        self._process = process
        self._free = size
        self._queue: list[tuple[Later, Callable[[], Any]]] = []
        self._change = Signal(process.timeline)
        self._under_way = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future = Later(self._process)
        self._queue.append((future, lambda: fn(*args, **kwargs)))
        self._under_way += 1
        if self._free:
            self._free -= 1
            self._process.spawn(self._work)
        return future

    def _work(self) -> None:
        while self._queue:
            future, work = self._queue.pop(0)
            try:
                future.set_result(work())
            except Exception as error:
                future.set_exception(error)
            self._under_way -= 1
            future.there.give()
        self._free += 1
        self._change.give()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        while wait and self._under_way and not self._process.dead:
            self._change.wait()


class Later(Future[Any]):
    """A result that fibers wait for."""

    def __init__(self, process: Process) -> None:
        super().__init__()
        self.there = Signal(process.timeline)

    def result(self, timeout: float | None = None) -> Any:
        while not self.done():
            self.there.wait()
        return super().result(0)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        while not self.done():
            self.there.wait()
        return super().exception(0)

"""The event loop of one simulated process: deterministic, in simulated time, and it can be killed or frozen."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, Final, TypeVar

from tests.simulation.timeline import Timeline, Timer

T = TypeVar("T")

_MAX_STEPS: Final = 20_000
"""Steps without any time passing after which a process is said to spin."""


class Handle:
    """A callback that may be cancelled."""

    __slots__ = ("args", "callback", "is_cancelled", "timer")

    def __init__(self, callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        self.callback = callback
        self.args = args
        self.is_cancelled = False
        self.timer: Timer | None = None

    def cancel(self) -> None:
        self.is_cancelled = True
        if self.timer is not None:
            self.timer.cancel()

    def cancelled(self) -> bool:
        return self.is_cancelled


class ProcessLoop(asyncio.AbstractEventLoop):
    """As much of an event loop as asyncio's tasks, futures, locks and queues need."""

    def __init__(self, timeline: Timeline) -> None:
        self._timeline = timeline
        self._ready: deque[Handle] = deque()
        self._tasks: list[asyncio.Task[Any]] = []
        self._woken = False
        self.dead = False
        self.frozen = False
        self.mistakes: list[str] = []
        """What asyncio would have complained of."""

    def time(self) -> float:
        return self._timeline.now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self.dead

    def is_closed(self) -> bool:
        return self.dead

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self.dead:
            self.mistakes.append(str(context.get("exception") or context.get("message")))

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args)
        self._push(handle)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        handle = Handle(callback, args)
        handle.timer = self._timeline.after(delay, lambda: self._push(handle))
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Handle:
        return self.call_later(when - self._timeline.now, callback, *args)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self, coro: Coroutine[Any, Any, T], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[T]:
        task = asyncio.Task(coro, loop=self, name=name or "task")
        self._tasks.append(task)
        if len(self._tasks) > 500:
            self._tasks = [one for one in self._tasks if not one.done()]
        return task

    def run_inside(self, callback: Callable[..., object], *args: Any) -> None:
        """Have something called as part of the process."""
        self.call_soon(callback, *args)

    def freeze(self) -> None:
        """Nothing moves until `thaw`; time goes on without the process."""
        self.frozen = True

    def thaw(self) -> None:
        self.frozen = False
        self._wake()

    def kill(self) -> None:
        """The process is gone at once; whatever it was doing is never finished."""
        self.dead = True
        self._timeline.after(0.0, self.bury)

    def bury(self) -> None:
        """Give back what a killed process held: its tasks end where they stand, and reach nobody any more."""
        tasks, self._tasks = [one for one in self._tasks if not one.done()], []
        asyncio._set_running_loop(self)
        try:
            while tasks:
                for task in tasks:
                    task.cancel()
                while self._ready:
                    handle = self._ready.popleft()
                    if not handle.is_cancelled:
                        handle.callback(*handle.args)
                tasks = [one for one in tasks if not one.done()]
        finally:
            asyncio._set_running_loop(None)

    def _push(self, handle: Handle) -> None:
        self._ready.append(handle)
        if not self.dead:
            self._wake()

    def _wake(self) -> None:
        if not self._woken and not self.frozen:
            self._woken = True
            self._timeline.after(0.0, self._drain)

    def _drain(self) -> None:
        if self.frozen:
            self._woken = False
            return
        ready, steps = self._ready, 0
        asyncio._set_running_loop(self)
        try:
            while ready and not self.dead:
                handle = ready.popleft()
                if not handle.is_cancelled:
                    handle.callback(*handle.args)
                steps += 1
                if steps > _MAX_STEPS:
                    raise RuntimeError("the operator spins: it never waits for anything")
        finally:
            asyncio._set_running_loop(None)
            self._woken = False

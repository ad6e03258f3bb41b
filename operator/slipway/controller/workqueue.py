"""A keyed delay queue: which job to look at next, and when.

After kube-rs' scheduler. A key waits at most once, at its earliest time; bursts collapse into one turn. A key that is
being worked on is never handed out a second time: what arrives meanwhile is held, and waits again when it is done.
Of one group of keys only so many are worked on at once, so that a group that is slow leaves workers for the others.
"""

import asyncio
import heapq
from collections import Counter, deque
from collections.abc import Callable, Hashable
from itertools import count
from math import inf
from typing import Final, Generic, TypeVar

K = TypeVar("K", bound=Hashable)

_SLACK: Final = 64
_NEVER: Final = (inf, 0)


class WorkQueue(Generic[K]):
    """Keys and the times at which they are due. Adding and taking are O(log n)."""

    def __init__(
        self, clock: Callable[[], float], group: Callable[[K], Hashable] = lambda key: key, most: int = 1
    ) -> None:
        """`clock` is monotonic, in seconds, and runs as fast as the event loop's; `most` of a group run at once."""
        self._clock = clock
        self._group = group
        self._most = most
        self._busy: Counter[Hashable] = Counter()
        self._passed_over: dict[Hashable, list[tuple[float, int, K]]] = {}
        self._order = count()
        self._heap: list[tuple[float, int, K]] = []
        self._due: dict[K, tuple[float, int]] = {}
        """When each key is due, and the order of its one entry that counts: entries with another were overtaken."""
        self._running: dict[K, float] = {}
        self._held: dict[K, float] = {}
        self._waiters: deque[asyncio.Future[None]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._taken = -inf

    @property
    def running(self) -> int:
        """Keys that are being worked on."""
        return len(self._running)

    def add(self, key: K) -> None:
        """Make a key due now."""
        self.add_at(key, self._clock())

    def add_at(self, key: K, when: float) -> None:
        """Make a key due at that time of the clock, unless it is due earlier anyway."""
        if key in self._running:
            self._held[key] = min(when, self._held.get(key, inf))
        elif when < self._due.get(key, _NEVER)[0]:
            order = next(self._order)
            self._due[key] = (when, order)
            heapq.heappush(self._heap, (when, order, key))
            self._compact()
            self._notify()

    def take(self) -> K | None:
        """The key that has been due longest, now running; None when none is due."""
        while (head := self._head()) is not None and head[0] <= self._clock():
            heapq.heappop(self._heap)
            key = head[2]
            group = self._group(key)
            if self._busy[group] >= self._most:
                heapq.heappush(self._passed_over.setdefault(group, []), head)
                continue
            self._busy[group] += 1
            del self._due[key]
            self._running[key] = self._taken = self._clock()
            return key
        return None

    async def get(self) -> K:
        """Wait for a key that is due; the caller must call `done` with it."""
        while (key := self.take()) is None:
            waiter = asyncio.get_running_loop().create_future()
            self._waiters.append(waiter)
            self._notify()
            try:
                await waiter
            except asyncio.CancelledError:
                # Whoever is cancelled after being woken passes the call on.
                if waiter.done() and not waiter.cancelled():
                    self._notify()
                raise
            finally:
                if waiter in self._waiters:
                    self._waiters.remove(waiter)
        self._notify()
        return key

    def done(self, key: K) -> None:
        """The work on a key is over; what arrived meanwhile makes it wait again."""
        if self._running.pop(key, None) is not None:
            self._leave(self._group(key))
        when = self._held.pop(key, None)
        if when is not None:
            self.add_at(key, when)

    def oldest_age(self) -> float:
        """Seconds for which keys that are due have been waiting and none was taken; 0 when none is due."""
        head = self._head()
        return max(0.0, self._clock() - max(head[0], self._taken)) if head else 0.0

    def backlog(self) -> tuple[int, float]:
        """How many keys are due and not taken, and for how many seconds the first of them has been due."""
        now = self._clock()
        due = [when for when, _ in self._due.values() if when <= now]
        return len(due), now - min(due) if due else 0.0

    def longest_turn(self) -> float:
        """Seconds for which the key that has been running longest has been running."""
        return self._clock() - min(self._running.values()) if self._running else 0.0

    def _leave(self, group: Hashable) -> None:
        """One key of a group runs no more, so that another that was passed over may."""
        self._busy[group] -= 1
        if not self._busy[group]:
            del self._busy[group]
        others = self._passed_over.get(group, [])
        while others:
            one = heapq.heappop(others)
            if self._counts(one):
                heapq.heappush(self._heap, one)
                self._notify()
                break
        if not others:
            self._passed_over.pop(group, None)

    def _head(self) -> tuple[float, int, K] | None:
        while self._heap and not self._counts(self._heap[0]):
            heapq.heappop(self._heap)
        return self._heap[0] if self._heap else None

    def _counts(self, entry: tuple[float, int, K]) -> bool:
        return self._due.get(entry[2]) == entry[:2]

    def _compact(self) -> None:
        """Entries that an earlier time has overtaken stay in the heap until they are half of it."""
        if len(self._heap) > 2 * len(self._due) + _SLACK:
            self._passed_over.clear()
            self._heap = [(when, order, key) for key, (when, order) in self._due.items()]
            heapq.heapify(self._heap)

    def _notify(self) -> None:
        """Wake one waiter if a key is due, or be called again when the first one will be."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        head = self._head()
        if head is None or not self._waiters:
            return
        wait = head[0] - self._clock()
        if wait > 0:
            self._timer = asyncio.get_running_loop().call_later(wait, self._notify)
            return
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                return

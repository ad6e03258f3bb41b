"""The log of one host in one attempt: read once, or followed until its container has ended."""

import asyncio
from collections import deque
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from typing import Final

from slipway.api.base import rfc3339
from slipway.api.places import Place, pod_name
from slipway.api.status import Attempt
from slipway.client.logs.container_log import ContainerLog, Host
from slipway.client.logs.interface import LogBroken, LogGone, LogSource
from slipway.client.logs.items import SECOND, Batch, Item, Line, Note, moment_of, nanoseconds
from slipway.client.logs.job_watch import JobWatch
from slipway.client.logs.selection import Selection
from slipway.client.logs.status_tail import kept_lines, named

STREAMS: Final = 64
"""Streams that are open at once; more hosts than that are read in turns."""
ROUND_SECONDS: Final = 1.0
"""Between two turns of one host."""
_LONGEST_ROUND_SECONDS: Final = 5.0
"""Between two turns of one host that is silent."""
_CUT_SECONDS: Final = 10.0
"""After the end of a container its stream should have ended, too."""
_TRIES: Final = 5
_PAUSES: Final = (0.2, 0.5, 1.0, 2.0, 5.0)
"""Seconds after a stream that broke."""
_LATE: Final = 60 * SECOND
"""A log that begins this much later than its container may have lost its beginning."""


@dataclass(frozen=True)
class JobReading:
    """What reading the logs of all hosts of a job has in common."""

    watch: JobWatch
    source: LogSource
    selection: Selection
    streams: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(STREAMS))
    old: frozenset[str] = frozenset()
    """Pods that had started before the call: lines of theirs may be past ones."""

    older: dict[int, Attempt] = field(default_factory=dict)
    """Attempts that the status holds no more."""

    def record(self, attempt: int) -> Attempt | None:
        """What is recorded of an attempt."""
        newer = (one for one in self.watch.job.status.attempts if one.number == attempt)
        return next(newer, self.older.get(attempt))


@dataclass
class _Turns:
    """How following one host goes."""

    failures: int = 0
    """Streams in a row that broke and brought nothing."""
    whole: bool = False
    """Whether the last stream stayed open until the container had ended."""
    pause: float = ROUND_SECONDS
    """Between this turn and the next."""

    def came_to_an_end(self, *, whole: bool) -> None:
        self.failures, self.whole = 0, whole

    def broke(self, *, progress: bool) -> None:
        self.failures, self.whole = 1 if progress else self.failures + 1, False


class HostLog:
    """The log of one host in one attempt."""

    def __init__(self, reading: JobReading, attempt: int, place: Place, *, crowded: bool = False) -> None:
        """`crowded` says that there are more hosts than streams, so that they are read in turns."""
        self._reading, self._watch = reading, reading.watch
        self._attempt, self._place, self._crowded = attempt, place, crowded
        self._name = pod_name(reading.watch.job.name, attempt, place)
        self._words = named(attempt, place)

    async def now(self) -> AsyncGenerator[Batch, None]:
        """What can be read at once; the container has started."""
        for note in self._instead():
            yield [note]
        tail = self._reading.selection.tail if self._reading.selection.until is not None else None
        kept = deque[Item](maxlen=tail)
        async with aclosing(self._now()) as batches:
            async for batch in batches:
                if tail is None:
                    yield batch
                else:
                    kept.extend(batch)
        if kept:
            yield list(kept)

    def _instead(self) -> Iterator[Note]:
        """Says that the lines are not the program's."""
        pod = self._watch.pods.get(self._name)
        if pod is not None and (name := pod.failed_init):
            yield Note(
                f"the program of {self._words} never started: this is the log of init container {name}, which failed"
            )

    async def _now(self) -> AsyncGenerator[Batch, None]:
        reader, pause = self._reader(self._reading.selection), iter(_PAUSES[: _TRIES - 1])
        while True:
            try:
                async with aclosing(self._stream(reader, follow=False, last=True)) as batches:
                    async for batch in batches:
                        yield batch
                return
            except LogGone as error:
                yield self._gone(reader, str(error))
                return
            except LogBroken as error:
                if (seconds := next(pause, None)) is None:
                    yield [Note(f"the log of {self._words} cannot be read: {error}")]
                    return
                await asyncio.sleep(seconds)

    async def followed(self) -> AsyncGenerator[Batch, None]:
        """What is written from when the container starts until it has ended; nothing when it never starts."""
        if not await self._started():
            return
        for note in self._instead():
            yield [note]
        async with aclosing(self._followed()) as batches:
            async for batch in batches:
                yield batch

    async def _followed(self) -> AsyncGenerator[Batch, None]:
        reader, turns = await self._begun(), _Turns()
        while not reader.past:
            pod, before = self._watch.pods.get(self._name), reader.newest
            ended = pod is None or pod.ended
            try:
                async with aclosing(self._turn(reader, ended=ended)) as batches:
                    async for batch in batches:
                        yield batch
                if ended:
                    return
                turns.came_to_an_end(whole=not self._crowded)
            except LogGone as error:
                # What a stream has brought to its end may go: no log outlives its pod.
                if not turns.whole:
                    yield self._gone(reader, str(error))
                return
            except LogBroken as error:
                turns.broke(progress=reader.newest > before)
                lost = turns.failures >= _TRIES and (ended or self._watch.over(self._attempt))
                if lost or turns.failures == _TRIES:
                    yield [Note(f"the log of {self._words} cannot be read{'' if lost else ' yet'}: {error}")]
                if lost:
                    return
            await self._wait(turns, progress=reader.newest > before)

    async def _started(self) -> bool:
        """Wait until the container has started; False when it never will."""
        while True:
            pod = self._watch.pods.get(self._name)
            if pod is not None and pod.started:
                return True
            if pod is None and self._watch.over(self._attempt):
                await self._watch.list_over(self._reading.source, self._attempt)
                pod = self._watch.pods.get(self._name)
                return pod is not None and pod.started
            if pod is not None and pod.ended:
                return False
            await self._watch.changed(self._name)

    async def _begun(self) -> ContainerLog:
        """A reader; past lines are left out only of a container that had started before the call."""
        selection = self._reading.selection
        if self._name not in self._reading.old:
            selection = replace(selection, tail=None, history=True)
        reader = self._reader(selection)
        # The last 0 lines would be asked for again with every stream, as long as none has come.
        if not selection.history or selection.tail == 0:
            await self._skip(reader)
        return reader

    async def _skip(self, reader: ContainerLog) -> None:
        """Take past lines as read; tried again, or all of them would follow."""
        for pause in _PAUSES:
            try:
                await reader.skip()
            except LogBroken:
                await asyncio.sleep(pause)
            except LogGone:
                return
            else:
                return

    async def _wait(self, turns: _Turns, *, progress: bool) -> None:
        if turns.failures:
            await asyncio.sleep(_PAUSES[min(turns.failures, len(_PAUSES)) - 1])
        elif self._crowded:
            turns.pause = ROUND_SECONDS if progress else min(turns.pause * 1.5, _LONGEST_ROUND_SECONDS)
            await asyncio.sleep(turns.pause)
        else:
            # The container has ended, which is about to be known; or somebody has cut the connection.
            with suppress(TimeoutError):
                await asyncio.wait_for(self._watch.changed(self._name), ROUND_SECONDS)

    async def _turn(self, reader: ContainerLog, *, ended: bool) -> AsyncGenerator[Batch, None]:
        """One stream, which is cut when it outlives its container: the connection to a lost node stays silent."""
        follow = not ended and not self._crowded
        watchdog = asyncio.create_task(self._cut(reader)) if follow else None
        try:
            async with aclosing(self._stream(reader, follow=follow, last=ended)) as batches:
                async for batch in batches:
                    yield batch
        finally:
            if watchdog is not None:
                watchdog.cancel()
                await asyncio.gather(watchdog, return_exceptions=True)

    async def _cut(self, reader: ContainerLog) -> None:
        while (pod := self._watch.pods.get(self._name)) is not None and not pod.ended:
            await self._watch.changed(self._name)
        await asyncio.sleep(_CUT_SECONDS)
        reader.cut()

    async def _stream(self, reader: ContainerLog, *, follow: bool, last: bool) -> AsyncGenerator[Batch, None]:
        """One stream, with a note where lines may be missing in it."""
        first, newest = not reader.started, reader.newest
        async with self._reading.streams, aclosing(reader.read(follow=follow, last=last)) as batches:
            async for lines in batches:
                if first and (note := self._late(reader)):
                    yield [note]
                if reader.rotated and newest:
                    yield [self._rotated(newest, lines[0])]
                first, newest = False, 0
                yield list(lines)

    def _late(self, reader: ContainerLog) -> Note | None:
        pod, asked = self._watch.pods.get(self._name), self._reading.selection
        started = pod.started_at if pod is not None else None
        if started is None or reader.first is None or asked.tail is not None or not asked.history:
            return None
        if (asked.since is not None and asked.since > started) or reader.first - nanoseconds(started) <= _LATE:
            return None
        words = f"the container of {self._words} started at {rfc3339(started)}, and its log begins at"
        return Note(f"{words} {rfc3339(moment_of(reader.first))}: the kubelet may have rotated earlier lines away")

    def _rotated(self, newest: int, line: Line) -> Note:
        between = f"between {rfc3339(moment_of(newest))} and {rfc3339(line.time)}"
        return Note(f"the kubelet has rotated the log of {self._words}: lines {between} may be missing")

    def _gone(self, reader: ContainerLog, words: str) -> Batch:
        if reader.started:
            return [Note(f"the log of {self._words} is gone, its last lines may be missing: {words}")]
        kept = kept_lines(
            self._watch.job.name, self._reading.record(self._attempt), self._place, self._reading.selection
        )
        return kept or [Note(f"the log of {self._words} is gone: {words}")]

    def _reader(self, selection: Selection) -> ContainerLog:
        host = Host(self._attempt, self._place, self._name, self._watch.pods[self._name].container)
        return ContainerLog(self._reading.source, host, selection)

"""Reads the logs of jobs that ask for it: one stream for each, of rank 0, from when it starts until it ends.

Nothing is polled. The streams of all jobs together take a bounded share of this process's time: a program that prints
faster than that is read later, and slows no other job down.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Final

from slipway.api.progress import Progress
from slipway.apiserver import paths
from slipway.apiserver.connection import ApiConnection
from slipway.apiserver.errors import Forbidden, NotFound, SlipwayClusterError
from slipway.apiserver.pod_logs import LogStream, log_query
from slipway.controller.observability.log_fields import log_fields
from slipway.controller.seen.cache import Cache
from slipway.controller.seen.progress_log import LINE_BYTES, Reading
from slipway.core.model.job import Job, Key
from slipway.core.planner.status.progress import LOGS_FORBIDDEN, MOST_LOGS, STEPS_AFTER, TOO_MANY_LOGS, Source, source

log = logging.getLogger(__name__)

SHARE: Final = 0.1
"""Of the time of this process, at most, that lines take."""
TURN_SECONDS: Final = 0.01
"""How long lines are looked at before others have their turn."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds before a stream is asked for again."""
FORBIDDEN_SECONDS: Final = 300.0
"""The same where the role does not allow it."""
_STAMP_BYTES: Final = 64
"""Of the timestamp before a line, at most."""


class Lines:
    """Splits a stream into lines, of which it keeps the beginning."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, chunk: bytes) -> list[bytes]:
        """The lines that a chunk ends."""
        *whole, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[: LINE_BYTES + _STAMP_BYTES]
        return whole


@dataclass(slots=True)
class _Follower:
    job: str
    """UID of the job."""
    asked: Progress
    reading: Reading
    task: "asyncio.Task[None]" = field(init=False)
    due: float = -inf
    """When the job was, or is, to be looked at because of it."""

    def fits(self, job: Job) -> bool:
        """Whether it reads what the job asks for."""
        asked = job.spec.progress if job.spec is not None else None
        return (self.job, self.reading.source.attempt, self.asked) == (job.uid, job.status.attempt, asked)


class ProgressReader:
    """The streams of all jobs."""

    def __init__(
        self, api: ApiConnection, cache: Cache, wake_at: Callable[[Key, float], None], clock: Callable[[], float]
    ) -> None:
        """`wake_at` has a job looked at, at a time of `clock`, which is monotonic."""
        self.open_stream = partial(LogStream, api)
        self._cache = cache
        self._wake_at = wake_at
        self._clock = clock
        self._followers: dict[Key, _Follower] = {}
        self._turn = asyncio.Lock()
        self._slots = asyncio.Semaphore(MOST_LOGS)

    def follow(self, key: Key) -> None:
        """Have the log read that the job is at now, and no other; called after each decision on the job."""
        job, follower = self._cache.jobs.get(key), self._followers.get(key)
        if job is None or job.spec is None or job.spec.progress is None:
            self.end(key)
            return
        if follower is not None and follower.fits(job):
            return
        found = source(job, self._cache.pods.of(key))
        if follower is not None:
            if found is not None and follower.job == job.uid and follower.reading.source.attempt == found.attempt:
                # Another pattern may say other things of lines that were read.
                found = replace(found, known=None)
            self.end(key)
        if found is not None:
            self._begin(key, job, job.spec.progress, found)

    def end(self, key: Key) -> None:
        """Read the log of a job no further."""
        follower = self._followers.pop(key, None)
        if follower is not None:
            follower.task.cancel()

    async def stop(self) -> None:
        """End every stream."""
        tasks = [follower.task for follower in self._followers.values()]
        for key in list(self._followers):
            self.end(key)
        if tasks:
            await asyncio.wait(tasks)

    def _begin(self, key: Key, job: Job, asked: Progress, found: Source) -> None:
        follower = self._followers[key] = _Follower(job.uid, asked, Reading(found))
        self._cache.reads(job, follower.reading)
        follower.task = asyncio.create_task(self._when_possible(key, job, follower))

    async def _when_possible(self, key: Key, job: Job, follower: _Follower) -> None:
        if self._slots.locked():
            self._tell(key, follower, TOO_MANY_LOGS)
        async with self._slots:
            try:
                await self._read(key, job, follower)
            except Exception:
                log.exception("a mistake in Slipway", extra=log_fields(job))
                follower.reading.opened = False

    async def _read(self, key: Key, job: Job, follower: _Follower) -> None:
        """Read a log to its end, in as many streams as it takes."""
        failures = 0
        while True:
            began, pause = self._clock(), min(FIRST_PAUSE * 2 ** min(failures, 10), LONGEST_PAUSE)
            try:
                await self._stream(key, job, follower)
                if self._has_ended(follower.reading.source.uid):
                    return
            except NotFound:
                # A kubelet that has just started does not know its pods yet.
                if self._has_ended(follower.reading.source.uid):
                    return
            except Forbidden as error:
                if follower.reading.problem is None:
                    log.warning("the log cannot be read: %s", error, extra=log_fields(job))
                    self._tell(key, follower, LOGS_FORBIDDEN)
                pause = FORBIDDEN_SECONDS
            except SlipwayClusterError as error:
                log.debug("the log is read again in %.0f s: %s", pause, error, extra=log_fields(job))
            failures = 0 if self._clock() - began > LONGEST_PAUSE else failures + 1
            await asyncio.sleep(pause)

    async def _stream(self, key: Key, job: Job, follower: _Follower) -> None:
        """Read one stream."""
        reading, lines = follower.reading, Lines()
        where = reading.source
        query = log_query(where.container, follow=True, since=reading.begin())
        stream = self.open_stream(f"{paths.pods(job.namespace)}/{where.pod}", query)
        async with aclosing(stream.chunks()) as chunks:
            async for chunk in chunks:
                self._opened(key, follower)
                if await self._take(reading, lines.feed(chunk)):
                    self._news(key, follower)
        self._opened(key, follower)

    async def _take(self, reading: Reading, lines: Iterable[bytes]) -> bool:
        """Look at lines, when it is their turn; returns whether they say something new."""
        new = False
        async with self._turn:
            began = self._clock()
            for line in lines:
                new = reading.take(line) or new
                if (spent := self._clock() - began) > TURN_SECONDS:
                    await self._rest_after(spent)
                    began = self._clock()
            await self._rest_after(self._clock() - began)
        return new

    @staticmethod
    async def _rest_after(spent: float) -> None:
        await asyncio.sleep(spent * (1 / SHARE - 1))

    def _opened(self, key: Key, follower: _Follower) -> None:
        if follower.reading.opened and follower.reading.problem is None:
            return
        had, follower.reading.opened, follower.reading.problem = follower.reading.problem, True, None
        if had is not None:
            self._wake_at(key, self._clock())

    def _tell(self, key: Key, follower: _Follower, problem: tuple[str, str]) -> None:
        follower.reading.problem = problem
        self._wake_at(key, self._clock())

    def _news(self, key: Key, follower: _Follower) -> None:
        """Have the job looked at, no more often than its progress is written."""
        now = self._clock()
        if follower.due <= now:
            follower.due = max(now, follower.due + STEPS_AFTER.total_seconds())
            self._wake_at(key, follower.due)

    def _has_ended(self, pod: str) -> bool:
        known = self._cache.pods.get(pod)
        return known is None or known.ended or known.end is not None

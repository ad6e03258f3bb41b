"""Which lines of which hosts are wanted."""

import re
from collections.abc import Collection
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal

from slipway.api import names
from slipway.api.places import HEAD, Place, worker
from slipway.client.logs.interface import COMBINED, STREAMS, LogSource
from slipway.client.logs.items import nanoseconds
from slipway.client.logs.stream_lines import Piece
from slipway.client.model import JobState

ROLES: Final = (names.ROLE_HEAD, names.ROLE_WORKER)
MOST_BY_TIME: Final = 64
"""Hosts whose lines can be sorted by time: each needs a stream of its own."""


@dataclass(frozen=True)
class Selection:
    """Which lines of which hosts are wanted; by default all of the current attempt that can be read at once.

    Raises:
        ValueError: when a value cannot be meant.
    """

    slices: frozenset[int] = frozenset()
    """Indices of slices; empty for all."""
    hosts: frozenset[int] = frozenset()
    """Indices of hosts in their slice; empty for all."""
    role: str | None = None
    """`head` or `worker`."""
    attempt: int | Literal["all"] | None = None
    """Number of an attempt, or `all`; the current one by default."""
    failed: bool = False
    """Only the host that ended the attempt; by default of the last attempt that a host ended."""
    follow: bool = False
    """Whether to wait for more, over restarts, until the job has ended."""
    history: bool = True
    """Whether lines are wanted that were written before the call."""
    tail: int | None = None
    """The last lines of each host, at most this many; counted before `regex` looks at them."""
    since: datetime | None = None
    """Lines from then on, by the clock of the node."""
    until: datetime | None = None
    """Lines before then, by the clock of the node."""
    regex: str | None = None
    """Lines in which this matches somewhere."""
    invert: bool = False
    """Lines in which it does not."""
    by_time: bool = False
    """Sorted by time over all hosts, instead of host after host."""
    stream: str = COMBINED
    """`stdout` or `stderr`, where these are kept apart; both by default."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "slices", frozenset(self.slices))
        object.__setattr__(self, "hosts", frozenset(self.hosts))
        self._check_words()
        self._check_numbers()
        self._check_times()
        self._check_combinations()

    def _check_words(self) -> None:
        if self.role is not None and self.role not in ROLES:
            raise ValueError(f"role {self.role!r}: it is one of {', '.join(ROLES)}")
        if self.stream not in STREAMS:
            raise ValueError(f"stream {self.stream!r}: it is one of {', '.join(STREAMS)}")
        if isinstance(self.attempt, str) and self.attempt != "all":
            raise ValueError(f"attempt {self.attempt!r}: it is a number, or all")
        if self.regex is not None:
            try:
                re.compile(self.regex.encode())
            except re.error as error:
                raise ValueError(f"regex {self.regex!r}: {error}") from None

    def _check_numbers(self) -> None:
        given = {"tail": self.tail, "attempt": self.attempt if isinstance(self.attempt, int) else None}
        for name, value in given.items():
            if value is not None and value < 0:
                raise ValueError(f"{name} {value}: it is at least 0")

    def _check_times(self) -> None:
        for name, moment in (("since", self.since), ("until", self.until)):
            if moment is not None and moment.tzinfo is None:
                raise ValueError(f"{name} {moment.isoformat()}: it has no time zone")
        if self.since is not None and self.until is not None and self.since > self.until:
            raise ValueError(f"since {self.since.isoformat()} is later than until {self.until.isoformat()}")

    def _check_combinations(self) -> None:
        if self.role == names.ROLE_HEAD and (self.slices or self.hosts):
            raise ValueError("role head: the Ray head is in no slice, so it goes with neither slices nor hosts")
        if self.invert and self.regex is None:
            raise ValueError("invert needs a regex")
        if self.follow and (self.failed or self.by_time):
            raise ValueError(
                f"follow waits for more lines: it does not go with {'failed' if self.failed else 'by_time'}"
            )
        if self.follow and self.tail is not None and self.until is not None:
            raise ValueError("follow waits for more lines: it does not go with both tail and until")
        if self.follow and self.tail is not None and self.stream != COMBINED:
            raise ValueError(f"follow waits for more lines: it does not go with both tail and stream {self.stream}")

    def check(self, job: JobState) -> None:
        """Check it against a job.

        Raises:
            ValueError: when the job has no such slice, host, role or attempt.
        """
        slices = most_slices(job) if self.follow or self.attempt is not None else job.slices
        _check_range(job.name, "slice", self.slices, slices)
        if job.status.resolved is not None or not job.accelerator:
            _check_range(job.name, "host", self.hosts, job.hosts)
        if self.role == names.ROLE_HEAD and not has_head(job):
            raise ValueError("role head: the job has no Ray head, only workers")
        newest = job.status.attempt
        if isinstance(self.attempt, int) and newest is not None and self.attempt > newest and not self.follow:
            raise ValueError(f"attempt {self.attempt}: there are attempts 0 to {newest}")
        if self.by_time and (hosts := len(self.places(job, slices))) > MOST_BY_TIME:
            raise ValueError(f"by_time sorts the lines of {MOST_BY_TIME} hosts at most, and these are {hosts}")

    def check_source(self, source: LogSource) -> None:
        """Check it against where the logs come from.

        Raises:
            ValueError: when the stream that is wanted cannot be read alone there.
        """
        if self.stream not in source.streams:
            allowed = ", ".join(source.streams)
            raise ValueError(f"stream {self.stream}: there is one log of both streams; {allowed} is allowed")

    def places(self, job: JobState, slices: int) -> tuple[Place, ...]:
        """The hosts that are wanted of a job with so many slices."""
        head = (HEAD,) if has_head(job) and self.role != names.ROLE_WORKER and not (self.slices or self.hosts) else ()
        if self.role == names.ROLE_HEAD:
            return head
        indices = [index for index in range(slices) if not self.slices or index in self.slices]
        hosts = [host for host in range(job.hosts) if not self.hosts or host in self.hosts]
        return head + tuple(worker(index, host) for index in indices for host in hosts)


class LineFilter:
    """Picks the lines of one host that are wanted."""

    def __init__(self, selection: Selection) -> None:
        self._regex = None if selection.regex is None else re.compile(selection.regex.encode())
        self._invert = selection.invert
        self._since = nanoseconds(selection.since) if selection.since else None
        self._until = nanoseconds(selection.until) if selection.until else None
        self._wanted = False

    def wants(self, piece: Piece) -> bool:
        """Whether the line is wanted; of a very long one the first piece decides."""
        if not piece.continues:
            self._wanted = self._in_time(piece.nanoseconds or 0) and self.matches(piece.raw)
        return self._wanted

    def matches(self, raw: bytes) -> bool:
        """Whether the regular expression, if there is one, wants the line."""
        return self._regex is None or (self._regex.search(raw.removesuffix(b"\n")) is None) is self._invert

    def _in_time(self, moment: int) -> bool:
        return (self._since is None or moment >= self._since) and (self._until is None or moment < self._until)


def has_head(job: JobState) -> bool:
    """Whether the job has a Ray head."""
    return job.stored.spec.get("ray") is not None


def most_slices(job: JobState) -> int:
    """Slices that an attempt of the job has at most."""
    asked = job.stored.spec.get("acceptableSlices") or (job.stored.spec.get("slices", 1),)
    return max(job.slices, *map(int, asked))


def _check_range(job: str, name: str, given: Collection[int], count: int) -> None:
    for value in sorted(given):
        if not 0 <= value < count:
            allowed = f"{name}s 0 to {count - 1}" if count > 1 else f"{name} 0 only"
            raise ValueError(f"{name} {value}: SliceJob {job} has {allowed}")

"""The interface to the logs of a job: what reading them needs of a cluster or of this machine's engine."""

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Protocol

from slipway.apiserver.watch import Event
from slipway.client.logs.log_pod import LogPod
from slipway.client.model import JobState

_GONE: Final = (
    "unable to retrieve container logs",
    "failed to try resolving symlinks",
    "not found",
    "is not available",
)
"""Some of them in the place of the log."""


class LogGone(Exception):
    """There is no such log any more, or never was."""


class LogBroken(Exception):
    """A stream ended before its time, or could not be had; another may bring more."""


COMBINED: Final = "combined"
STDOUT: Final = "stdout"
STDERR: Final = "stderr"
STREAMS: Final = (COMBINED, STDOUT, STDERR)
"""What may be read of a program: both of its streams as they came, or one of them (T-31)."""


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which lines of a log are asked for; all by default."""

    container: str
    """Name of the container."""
    follow: bool = False
    """Whether the stream stays open until the container has ended."""
    since: datetime | None = None
    """Lines whose timestamps are not before that: a whole second, in UTC."""
    tail: int | None = None
    """At most so many lines, the last ones; counted before `since` looks at them."""
    stream: str = COMBINED
    """One of those that the source can tell apart."""


class LogStream(Protocol):
    """The answer to a query."""

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The lines in pieces of any length, each line after its timestamp in RFC 3339, with nanoseconds, and a blank.

        Raises:
            LogGone: when there is no log any more.
            LogBroken: when another stream may bring more.
            ClusterError: when no stream may be had.
        """

    def cut(self) -> None:
        """Have who reads the chunks get LogBroken; from another task."""


class LogSource(Protocol):
    """The pods of one job and their logs."""

    @property
    def streams(self) -> Sequence[str]:
        """Those of STREAMS that can be read here."""

    async def pods(self) -> Sequence[LogPod]:
        """The pods that there are."""

    def watch(self) -> AsyncGenerator[Event[LogPod], None]:
        """The pods that there are, then what changes; for ever."""

    def stream(self, pod: str, query: LogQuery) -> LogStream:
        """A stream of the log of a pod."""


class LogClient(Protocol):
    """A client, as far as reading logs is concerned."""

    async def get(self, name: str) -> JobState:
        """One job; raises NotFound when there is none of that name."""

    def watch(self, name: str) -> AsyncGenerator[JobState | None, None]:
        """The job now and after each change; ends with None when it is deleted."""

    async def history(self, name: str) -> tuple[dict[str, Any], ...]:
        """Every attempt that is recorded, oldest first."""

    def log_source(self, job: JobState) -> LogSource:
        """The logs of one job."""


def means_gone(words: str) -> bool:
    """Whether these words say so."""
    return any(one in words for one in _GONE)

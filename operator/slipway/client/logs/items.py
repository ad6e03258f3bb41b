"""What reading a job's logs yields: lines, and what is to be said about them."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple

from slipway.api.places import Place

SECOND: Final = 1_000_000_000
"""Nanoseconds of a second."""


class Line(NamedTuple):
    """A line that a container wrote, or a piece of one that is very long."""

    attempt: int
    """Number of the attempt."""
    place: Place
    """The head, or the slice and the host."""
    pod: str
    """Name of the pod."""
    nanoseconds: int
    """When the line began, by the clock of its node; since 1970, UTC."""
    raw: bytes
    """Exactly what was written, with the newline if there is one."""
    continues: bool = False
    """Whether it continues the line before of the same pod."""

    @property
    def time(self) -> datetime:
        """When the line began, by the clock of its node; in UTC and to the microsecond."""
        return moment_of(self.nanoseconds)

    @property
    def text(self) -> str:
        """The line as text; what is no UTF-8 is replaced."""
        return self.raw.decode(errors="replace")


@dataclass(frozen=True, slots=True)
class Opening:
    """The logs of these hosts of an attempt follow."""

    attempt: int
    places: tuple[Place, ...]


@dataclass(frozen=True, slots=True)
class Note:
    """What a reader should know about the lines before or after it: that some may be missing, for example."""

    message: str


@dataclass(frozen=True, slots=True)
class Separator:
    """An attempt has ended, and lines of a later one follow."""

    attempt: int
    """Number of the attempt that has ended."""
    message: str
    """Why it ended."""


Item = Line | Opening | Note | Separator
"""What reading logs yields."""
Batch = list[Item]
"""Items that came in one piece."""


def nanoseconds(moment: datetime) -> int:
    """The moment in nanoseconds since 1970."""
    # Not `timestamp() * 10**9`: a float has no nanoseconds.
    whole = moment.replace(microsecond=0)
    return int(whole.timestamp()) * SECOND + moment.microsecond * 1000


def moment_of(nanoseconds: int) -> datetime:
    """The moment so many nanoseconds after the beginning of 1970, to the microsecond."""
    seconds, rest = divmod(nanoseconds, SECOND)
    return datetime.fromtimestamp(seconds, UTC).replace(microsecond=rest // 1000)

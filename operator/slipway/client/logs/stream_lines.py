"""From what the kubelet sends to the lines that a container wrote, over any number of broken streams.

With `timestamps=true` the kubelet puts a timestamp and a blank before each line. It does not before the later parts of
a long line, which the container engine stores in parts of 16 KiB: so a timestamp is looked for after newlines only.
"""

import re
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final, NamedTuple

from slipway.client.logs.items import SECOND

LONGEST: Final = 256 * 1024
"""Bytes of a line that are kept back until its newline comes; a longer one is handed out in pieces."""
_STAMP: Final = re.compile(rb"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(Z|[+-]\d\d:\d\d) ")


class Piece(NamedTuple):
    """A line, or a piece of one, as a stream brings it."""

    nanoseconds: int | None
    """When the line began; None for a piece of a line whose beginning did not come, and for the kubelet's own words."""
    raw: bytes
    continues: bool = False
    """Whether it continues the piece before it."""


def parse(line: bytes) -> tuple[int | None, bytes]:
    """The timestamp before a line, and the line; None where there is no timestamp."""
    found = _STAMP.match(line)
    seconds = _epoch(found[1], found[3]) if found else None
    if found is None or seconds is None:
        return None, line
    return seconds * SECOND + int((found[2] or b"0").ljust(9, b"0")), line[found.end() :]


@lru_cache(maxsize=1024)
def _epoch(second: bytes, zone: bytes) -> int | None:
    try:
        return int(datetime.fromisoformat((second + zone).decode()).timestamp())
    except ValueError:
        return None


class Splitter:
    """Splits one stream into lines, wherever its chunks end."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._rest = b""
        self._inside = False
        """Whether what comes next continues a line of which pieces were handed out."""

    def feed(self, chunk: bytes) -> list[Piece]:
        """The lines that a chunk ends, and pieces of very long ones."""
        *whole, self._rest = (self._rest + chunk).split(b"\n")
        pieces = [self._piece(line + b"\n") for line in whole]
        if len(self._rest) > self._longest:
            pieces.append(self._piece(self._rest))
            self._rest = b""
        return pieces

    def end(self) -> list[Piece]:
        """What came after the last newline."""
        rest, self._rest = self._rest, b""
        if not rest:
            return []
        piece = self._piece(rest)
        return [piece] if piece.raw else []

    def _piece(self, raw: bytes) -> Piece:
        continues, self._inside = self._inside, not raw.endswith(b"\n")
        return Piece(None, raw, True) if continues else Piece(*parse(raw))


@dataclass(slots=True)
class _Second:
    """The lines handed out that began in one second."""

    order: int
    """Which of all lines was the first."""
    first: int
    """Timestamp of the first."""
    count: int = 0


class Cursor:
    """How far a log was read; takes care that streams that follow each other neither lose nor repeat a line.

    The kubelet can be asked for lines since a second, no more precisely. A later stream therefore begins with lines
    that are known, in the order in which they came before: they are counted, so equal timestamps do no harm. One more
    second is asked for, as lines of stdout and stderr may stand in the log in another order than their timestamps.
    Where the first known line is missing, the kubelet has begun another file; then timestamps tell what is known.
    """

    def __init__(self) -> None:
        self._seconds: dict[int, _Second] = {}
        self._lines = 0
        self._newest = 0
        self._line = 0
        """Timestamp of the line that is being handed out."""
        self._within = 0
        """Bytes handed out of the last line while it has no newline."""
        self.rotated = False
        """Whether the stream begins later than the one before it ended, so that lines between may be lost."""
        self.begin()

    @property
    def second(self) -> int | None:
        """The second since which lines are to be asked for; None for all."""
        return self._newest // SECOND - 1 if self._lines else None

    @property
    def started(self) -> bool:
        """Whether a line has come."""
        return self._lines > 0

    @property
    def newest(self) -> int:
        """The latest timestamp of a line that has come."""
        return self._newest

    def begin(self) -> None:
        """A stream begins."""
        recent = list(self._seconds.values())
        self._known = sum(second.count for second in recent)
        self._anchor = min(recent, key=lambda second: second.order).first if recent else 0
        self._aligned = False
        self._by_time = False
        self._behind = 0
        """Bytes of the current line that were handed out of an earlier stream."""
        self._dropping = True
        self.rotated = False

    def take(self, piece: Piece) -> Piece | None:
        """The piece, or what is new of it."""
        if piece.continues:
            return None if self._dropping else self._rest_of(piece)
        moment, self._behind = piece.nanoseconds, 0
        self._dropping = moment is None or self._is_known(moment)
        if moment is None or self._dropping:
            return None
        if self._behind:
            return self._rest_of(piece)
        self._count(moment)
        self._within = 0 if piece.raw.endswith(b"\n") else len(piece.raw)
        return piece

    def _is_known(self, moment: int) -> bool:
        if self._known and not self._aligned:
            if moment < self._anchor:
                # From before the lines that the first stream began with.
                return True
            self._align(moment)
        if self._known:
            self._known -= 1
            # The last one may have been handed out in part.
            self._behind = 0 if self._known else self._within
            return not self._behind
        self._by_time = self._by_time and moment <= self._newest
        return self._by_time

    def _align(self, moment: int) -> None:
        self._aligned = True
        if moment > self._anchor:
            self._known = self._within = 0
            self._by_time = self.rotated = True

    def _count(self, moment: int) -> None:
        self._lines += 1
        self._line, self._newest = moment, max(moment, self._newest)
        second, oldest = moment // SECOND, self._newest // SECOND - 1
        if second < oldest:
            return
        if second not in self._seconds:
            self._seconds = {key: one for key, one in self._seconds.items() if key >= oldest}
            self._seconds[second] = _Second(self._lines, moment)
        self._seconds[second].count += 1

    def _rest_of(self, piece: Piece) -> Piece | None:
        skipped = min(self._behind, len(piece.raw))
        self._behind -= skipped
        rest = piece.raw[skipped:]
        if not rest:
            return None
        self._within = 0 if rest.endswith(b"\n") else self._within + len(rest)
        return Piece(self._line, rest, True)

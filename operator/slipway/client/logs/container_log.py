"""Reads the log of one container, in as many streams as it takes."""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from slipway.api.places import Place
from slipway.client.logs.interface import LogBroken, LogGone, LogQuery, LogSource, LogStream, means_gone
from slipway.client.logs.items import SECOND, Line, nanoseconds
from slipway.client.logs.selection import LineFilter, Selection
from slipway.client.logs.stream_lines import Cursor, Piece, Splitter

_KUBELETS_WORDS: Final = (b"unable to ", b"failed to ", b"rpc error: ")


@dataclass(frozen=True, slots=True)
class Host:
    """Whose log it is."""

    attempt: int
    place: Place
    pod: str
    container: str


class ContainerLog:
    """The lines of one container that are wanted, over as many streams as it takes."""

    def __init__(self, source: LogSource, host: Host, selection: Selection) -> None:
        self._source = source
        self._host = host
        self._selection = selection
        self._filter = LineFilter(selection)
        self._cursor = Cursor()
        self._since = nanoseconds(selection.since) // SECOND if selection.since else None
        self._until = nanoseconds(selection.until) if selection.until else None
        self.past = False
        """Whether all lines that are wanted have come, whatever else is written."""
        self.first: int | None = None
        """Timestamp of the first line that came."""
        self._stream: LogStream | None = None

    @property
    def started(self) -> bool:
        """Whether anything has come."""
        return self._cursor.started

    @property
    def rotated(self) -> bool:
        """Whether lines may be missing before those of the last batch."""
        return self._cursor.rotated

    @property
    def newest(self) -> int:
        """The latest timestamp of a line that has come."""
        return self._cursor.newest

    def cut(self) -> None:
        """Break the stream that is open."""
        if self._stream is not None:
            self._stream.cut()

    async def skip(self) -> None:
        """Take what there is by now as read."""
        self._cursor.begin()
        query = self._query(replace(self._selection, tail=1), follow=False)
        self._selection = replace(self._selection, tail=None)
        async with aclosing(self._chunks(query)) as chunks:
            splitter = Splitter()
            async for chunk in chunks:
                self._lines(splitter.feed(chunk))
            self._lines(splitter.end())

    async def read(self, *, follow: bool, last: bool) -> AsyncGenerator[list[Line], None]:
        """What was not read yet.

        Args:
            follow: whether the stream stays open while the container runs.
            last: whether nothing more will be written, so that a line without a newline is a line.

        Raises:
            LogGone: when there is no log any more.
            LogBroken: when another stream may bring more.
            ClusterError: when the caller has no rights.
        """
        splitter, query = Splitter(), self._query(self._selection, follow=follow)
        empty = True
        self._cursor.begin()
        async with aclosing(self._chunks(query)) as chunks:
            async for chunk in chunks:
                empty = False
                if lines := self._lines(splitter.feed(chunk)):
                    yield lines
                if self.past:
                    return
        if empty:
            # Whatever comes now is new, however much it is.
            self._selection = replace(self._selection, tail=None)
        rest = splitter.end()
        _raise_words(rest)
        if last and (lines := self._lines(rest)):
            yield lines

    def _query(self, selection: Selection, *, follow: bool) -> LogQuery:
        known = [one for one in (self._since, self._cursor.second) if one is not None]
        since = datetime.fromtimestamp(max(known), UTC) if known else None
        tail = selection.tail if not self.started and self._until is None else None
        return LogQuery(self._host.container, follow=follow, since=since, tail=tail, stream=selection.stream)

    def _chunks(self, query: LogQuery) -> AsyncGenerator[bytes, None]:
        self._stream = self._source.stream(self._host.pod, query)
        return self._stream.chunks()

    def _lines(self, pieces: list[Piece]) -> list[Line]:
        _raise_words(pieces)
        host, lines = self._host, []
        for piece in pieces:
            new = self._cursor.take(piece)
            if new is None or new.nanoseconds is None:
                continue
            self.first = self.first or new.nanoseconds
            # A while later, for lines of stdout and stderr may stand in another order than their timestamps.
            self.past = self._until is not None and new.nanoseconds >= self._until + SECOND
            if self._filter.wants(new):
                lines.append(Line(host.attempt, host.place, host.pod, new.nanoseconds, new.raw, new.continues))
        return lines


def _raise_words(pieces: list[Piece]) -> None:
    """Raise what the kubelet says of a log in the place of the log: words without a timestamp."""
    for piece in pieces:
        if piece.nanoseconds is None and not piece.continues and piece.raw.startswith(_KUBELETS_WORDS):
            words = piece.raw.decode(errors="replace").strip()
            raise LogGone(words) if means_gone(words) else LogBroken(words)

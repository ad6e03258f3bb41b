"""What programs write, as an engine sends it: each frame is a line of one stream, or a part of a long line."""

import struct
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

_HEADER: Final = struct.Struct(">BxxxL")
"""The stream and the length of a frame."""


class Body(Protocol):
    """The body of an answer."""

    def read(self, size: int, /) -> bytes:
        """So many bytes; fewer at the end."""


class Frame(bytes):
    """What came in one piece, with the number of the stream that it was written to."""

    stream: int

    def __new__(cls, content: bytes, stream: int) -> "Frame":
        """The bytes of a frame of that stream."""
        made = super().__new__(cls, content)
        made.stream = stream
        return made


def frames(body: Body) -> Iterator[Frame]:
    """The frames in the body of an answer, until it ends."""
    while len(header := body.read(_HEADER.size)) == _HEADER.size:
        stream, length = _HEADER.unpack(header)
        if length:
            yield Frame(body.read(length), stream)


def dated_lines(found: Iterable[bytes]) -> Iterator[bytes]:
    """The lines in frames, each after its date, in pieces.

    The engine dates each part of a long line; the first date is that of the line. Where the other stream comes in
    between, the line ends there, and what is left of it is another line.
    """
    unfinished: int | None = None
    for frame in found:
        stream = frame.stream if isinstance(frame, Frame) else 0
        if unfinished is None:
            yield frame
        elif unfinished == stream:
            yield frame.partition(b" ")[2]
        else:
            yield b"\n" + frame
        unfinished = None if frame.endswith(b"\n") else stream

"""From the kubelet's streams to lines: whatever the chunks are, and wherever streams break."""

from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipway.api.places import worker
from slipway.client.logs.items import SECOND, Line, nanoseconds
from slipway.client.logs.stream_lines import Cursor, Piece, Splitter, parse

START = 1_800_000_000 * SECOND
Written = list[tuple[int, bytes]]
"""Lines of a log with their timestamps."""


def stamp(moment: int) -> bytes:
    seconds, rest = divmod(moment, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z ".encode()


def sent(written: Written, since: int | None = None) -> bytes:
    """What a kubelet sends of a log."""
    return b"".join(stamp(at) + raw for at, raw in written if since is None or at >= since * SECOND)


texts = st.binary(max_size=40).map(lambda raw: raw.replace(b"\n", b""))
gaps = st.lists(st.sampled_from([0, 0, 1, 300_000_000, 1_000_000_000, 2_500_000_000]), max_size=30)


@st.composite
def logs(draw: st.DrawFn) -> Written:
    """Logs whose timestamps grow or stay; the last line may lack its newline."""
    at, written = START + draw(st.sampled_from([0, 999_999_999])), list[tuple[int, bytes]]()
    for gap in draw(gaps):
        at += gap
        written.append((at, draw(texts) + b"\n"))
    if written and draw(st.booleans()):
        written[-1] = (at, draw(texts.filter(bool)))
    return written


def chunks_of(content: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(cut % (len(content) + 1) for cut in cuts), len(content)]
    return [content[begin:end] for begin, end in pairwise(places)]


cuts = st.lists(st.integers(0, 10_000), max_size=12)


@pytest.mark.parametrize(
    ("line", "moment", "rest"),
    [
        (b"2027-01-15T08:00:00.000000001Z x\n", START + 1, b"x\n"),
        (b"2027-01-15T08:00:00Z x", START, b"x"),
        (b"2027-01-15T08:00:00.5Z  x", START + SECOND // 2, b" x"),
        (b"2027-01-15T09:30:00.000000007+01:30 \r", START + 7, b"\r"),
        (b"2027-13-15T08:00:00Z x", None, b"2027-13-15T08:00:00Z x"),
        (b"2027-01-15T08:00:00Zx", None, b"2027-01-15T08:00:00Zx"),
        (b"no time", None, b"no time"),
        (b"", None, b""),
    ],
)
def test_a_timestamp_is_read(line: bytes, moment: int | None, rest: bytes) -> None:
    assert parse(line) == (moment, rest)


def test_a_line_knows_when_it_was_written() -> None:
    line = Line(0, worker(0, 0), "x-0-0-0", START + 123_456_789, b"\xff\n")
    assert line.time == datetime(2027, 1, 15, 8, 0, 0, 123456, tzinfo=UTC)
    assert line.text == "�\n"
    assert nanoseconds(line.time) == START + 123_456_000


@given(logs(), cuts)
@pytest.mark.row("B-63")
def test_lines_are_the_same_for_any_chunks(written: Written, cuts: list[int]) -> None:
    splitter = Splitter()
    pieces = [piece for chunk in chunks_of(sent(written), cuts) for piece in splitter.feed(chunk)] + splitter.end()
    assert pieces == [Piece(at, raw) for at, raw in written]


@given(logs(), cuts)
def test_pieces_of_long_lines_make_up_the_log(written: Written, cuts: list[int]) -> None:
    splitter = Splitter(longest=40)
    pieces = [piece for chunk in chunks_of(sent(written), cuts) for piece in splitter.feed(chunk)] + splitter.end()
    assert b"".join(piece.raw for piece in pieces) == b"".join(raw for _, raw in written)
    assert [piece.nanoseconds for piece in pieces if not piece.continues] == [at for at, _ in written]


def test_a_timestamp_within_a_long_line_is_part_of_it() -> None:
    splitter, text = Splitter(longest=40), b"x" * 50 + stamp(START)
    pieces = splitter.feed(stamp(START) + text) + splitter.feed(stamp(START) + b"\n") + splitter.end()
    assert b"".join(piece.raw for piece in pieces) == text + stamp(START) + b"\n"
    assert [piece.continues for piece in pieces] == [False, True]


def test_a_timestamp_alone_is_no_line() -> None:
    splitter = Splitter()
    assert splitter.feed(stamp(START)) + splitter.end() == []


def read(cursor: Cursor, content: bytes, cuts: list[int], *, longest: int, last: bool) -> list[Piece]:
    """What is new in one stream."""
    cursor.begin()
    splitter, found = Splitter(longest), list[Piece]()
    for chunk in chunks_of(content, cuts):
        found += filter(None, map(cursor.take, splitter.feed(chunk)))
    return found + (list(filter(None, map(cursor.take, splitter.end()))) if last else [])


@given(logs(), st.lists(st.tuples(st.integers(0, 5_000), cuts), max_size=5), st.sampled_from([40, 1000]), cuts)
@pytest.mark.row("B-63")
def test_streams_that_break_anywhere_lose_and_repeat_nothing(
    written: Written, breaks: list[tuple[int, list[int]]], longest: int, cuts: list[int]
) -> None:
    cursor, found = Cursor(), list[Piece]()
    for at, some in breaks:
        content = sent(written, cursor.second)
        found += read(cursor, content[: at % (len(content) + 1)], some, longest=longest, last=False)
    found += read(cursor, sent(written, cursor.second), cuts, longest=longest, last=True)
    assert b"".join(piece.raw for piece in found) == b"".join(raw for _, raw in written)
    assert [piece.nanoseconds for piece in found if not piece.continues] == [at for at, _ in written]
    assert not cursor.rotated


@given(logs(), st.integers(0, 30), st.lists(st.integers(0, 5_000), max_size=3))
def test_a_log_that_was_begun_at_its_tail_goes_on_there(written: Written, skipped: int, breaks: list[int]) -> None:
    # Lines before the tail that have the very timestamp of its first line cannot be told from it.
    times = [at for at, _ in written]
    written = [line for index, line in enumerate(written) if index == 0 or times[index] != times[index - 1]]
    tail = written[min(skipped, len(written)) :]
    cursor, found = Cursor(), list[Piece]()
    for at in breaks:
        content = sent(written, cursor.second) if cursor.started else sent(tail)
        found += read(cursor, content[: at % (len(content) + 1)], [], longest=1000, last=False)
    content = sent(written, cursor.second) if cursor.started else sent(tail)
    found += read(cursor, content, [], longest=1000, last=True)
    assert b"".join(piece.raw for piece in found) == b"".join(raw for _, raw in tail)


def second(number: float) -> int:
    return START + int(number * SECOND)


def pieces(*written: tuple[float, str]) -> Written:
    return [(second(at), text.encode() + b"\n") for at, text in written]


def texts_of(found: list[Piece]) -> str:
    return " ".join(piece.raw.decode().strip() for piece in found)


def test_lines_that_stand_in_another_order_than_their_timestamps_are_not_lost() -> None:
    written = pieces((0.9, "a"), (2.0001, "b"), (1.9999, "c"), (2.0002, "d"))
    cursor = Cursor()
    assert texts_of(read(cursor, sent(written[:2]), [], longest=99, last=False)) == "a b"
    assert cursor.second == second(1) // SECOND
    assert texts_of(read(cursor, sent(written, cursor.second), [], longest=99, last=True)) == "c d"


def test_after_a_rotation_timestamps_tell_what_is_known() -> None:
    written = pieces((0.1, "a"), (0.2, "b"), (0.3, "c"), (0.4, "d"))
    cursor = Cursor()
    assert texts_of(read(cursor, sent(written[:3]), [], longest=99, last=False)) == "a b c"
    assert texts_of(read(cursor, sent(written[1:]), [], longest=99, last=True)) == "d"
    assert cursor.rotated
    assert texts_of(read(cursor, sent(written[1:], cursor.second), [], longest=99, last=True)) == ""


def test_a_piece_of_a_line_from_before_the_asked_second_is_left_out() -> None:
    cursor = Cursor()
    content = b"end of a long line\n" + sent(pieces((0.1, "a")))
    assert texts_of(read(cursor, content, [], longest=99, last=True)) == "a"


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=40))
def test_what_a_cursor_remembers_stays_small(steps: list[tuple[int, Any]]) -> None:
    cursor, at = Cursor(), START
    for gap, _ in steps:
        at += gap * SECOND
        cursor.take(Piece(at, b"x\n"))
        assert len(cursor._seconds) <= 3

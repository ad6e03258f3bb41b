"""Lines out of the frames that an engine sends."""

import pytest

from slipway.local.engine.frames import Frame, dated_lines

OUT, ERR = 1, 2


@pytest.mark.parametrize(
    ("frames", "log"),
    [
        pytest.param([(OUT, b"T1 one\n"), (ERR, b"T2 two\n")], b"T1 one\nT2 two\n", id="lines"),
        pytest.param(
            [(OUT, b"T1 a long "), (OUT, b"T2 line\n"), (OUT, b"T3 next\n")],
            b"T1 a long line\nT3 next\n",
            id="a long line, of which each part is dated",
        ),
        pytest.param(
            [(OUT, b"T1 result: 7"), (ERR, b"T2 Traceback\n")],
            b"T1 result: 7\nT2 Traceback\n",
            id="a last line without a newline, and a line of the other stream",
        ),
        pytest.param(
            [(ERR, b"T1 10%"), (OUT, b"T2 step 1\n"), (ERR, b"T1 20%\n")],
            b"T1 10%\nT2 step 1\nT1 20%\n",
            id="a line of one stream inside a long line of the other",
        ),
    ],
)
def test_no_line_takes_in_one_of_the_other_stream(frames: list[tuple[int, bytes]], log: bytes) -> None:
    assert b"".join(dated_lines(Frame(content, stream) for stream, content in frames)) == log

"""How `slipway logs` prints, and what it makes of its options."""

from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from slipway.api.places import HEAD, Place, worker
from slipway.cli.logs import AttemptNumber, Moment, Printer, logs
from slipway.client.logs import Item, Line, Note, Opening, Separator
from tests.client.kubelet import START

A, B = worker(0, 0), worker(0, 1)


def line(place: Place, raw: bytes, *, continues: bool = False) -> Line:
    pod = "train-0-head" if place.is_head else f"train-0-{place.slice}-{place.host}"
    return Line(0, place, pod, START + 1, raw, continues)


def printed(*items: Item, coloured: bool = False, together: bool = False, timestamps: bool = False) -> bytes:
    out = BytesIO()
    printer = Printer(out, coloured=coloured, together=together, timestamps=timestamps)
    for item in items:
        printer.show([item])
    printer.close()
    return out.getvalue()


@pytest.mark.row("B-63")
def test_lines_of_one_host_are_printed_as_they_are() -> None:
    raws = [b"\xff\x00 [bold]x[/bold] \x1b[31m\n", b"10%\r20%\r", b"30%\n", b"last"]
    shown = [line(A, raw, continues=index == 2) for index, raw in enumerate(raws)]
    assert printed(Opening(0, (A,)), *shown) == b"".join(raws)


def test_lines_of_several_hosts_follow_their_names() -> None:
    both = Opening(0, (HEAD, A, B))
    shown = printed(both, line(A, b"a\n"), line(HEAD, b"h\n"), line(B, b"b"), line(A, b"a"))
    assert shown == b"[0/0] a\n[head] h\n[0/1] b\n[0/0] a\n"


def test_the_last_words_of_an_attempt_and_the_first_of_the_next_are_two_lines() -> None:
    shown = [Line(number, A, f"train-{number}-0-0", START + number, b"step 17", False) for number in (0, 1)]
    assert printed(Opening(0, (A,)), shown[0], Opening(1, (A,)), shown[1]) == b"step 17\nstep 17"


def test_pieces_of_a_line_stay_together() -> None:
    pieces = [line(A, b"1 "), line(A, b"2 ", continues=True), line(B, b"b\n"), line(A, b"3\n", continues=True)]
    assert printed(Opening(0, (A, B)), *pieces) == b"[0/0] 1 2 \n[0/1] b\n[0/0] 3\n"


def test_times_are_printed_to_the_nanosecond() -> None:
    shown = printed(Opening(0, (A, B)), line(A, b"a\n"), timestamps=True)
    assert shown == b"[0/0] 2023-11-14T22:13:20.000000001Z a\n"


def test_names_have_colours_where_that_is_wanted() -> None:
    shown = printed(Opening(0, (A, B)), line(A, b"a\n"), line(B, b"b\n"), coloured=True)
    assert shown == b"\x1b[36m[0/0]\x1b[0m a\n\x1b[32m[0/1]\x1b[0m b\n"


@pytest.mark.parametrize("together", [True, False])
def test_what_is_said_goes_to_stderr(together: bool, capsys: pytest.CaptureFixture[str]) -> None:
    items = [Opening(0, (A,)), line(A, b"a"), Note("beware"), Separator(0, "attempt 0 ended: failure: x")]
    assert printed(*items, together=together) == b"a"
    said = capsys.readouterr().err
    assert said.startswith("\n-- beware\n" if together else "-- beware\n")
    assert said.endswith("-- attempt 0 ended: failure: x\n")


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("12", 12), ("all", "all"), ("All", "all"), ("ALL", "all")])
def test_an_attempt_is_read(text: str, number: int | str) -> None:
    assert AttemptNumber().convert(text, None, None) == number


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("5m", 300), ("1h30m", 5400), ("2d", 172800), ("0.5s", 0.5), ("1d1h1m1s", 90061)]
)
def test_a_time_ago_is_read(text: str, seconds: float) -> None:
    before = datetime.now(UTC)
    assert before <= Moment().convert(text, None, None) + timedelta(seconds=seconds) <= datetime.now(UTC)


def test_a_moment_is_read() -> None:
    assert Moment().convert("2026-01-31T12:00:00+01:00", None, None) == datetime(2026, 1, 31, 11, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "5", "m", "yesterday", "2026-01-31", "2026-01-31T12:00:00"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="RFC 3339"):
        Moment().convert(text, None, None)


def test_a_moment_before_all_dates_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="before the first date"):
        Moment().convert("99999999999d", None, None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--regex", "("], "regex"),
        (["--since", "1m", "--until", "5m"], "is later than until"),
        (["--attempt", "last"], "neither a number nor all"),
        (["--follow", "--order-by-time"], "by_time"),
        (["--tail", "-1"], "tail"),
        (["--role", "driver"], "head"),
    ],
)
@pytest.mark.row("B-40")
def test_mistakes_are_told_before_anything_is_asked(arguments: list[str], words: str, tmp_path: Path) -> None:
    done = CliRunner().invoke(logs, ["train", "--kubeconfig", str(tmp_path / "none"), *arguments])
    assert done.exit_code == 2
    assert words in done.stderr

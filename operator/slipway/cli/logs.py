"""`slipway logs`: what the hosts of a job wrote."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta
from typing import BinaryIO, Final, Literal

import click

from slipway.api import names
from slipway.api.places import Place
from slipway.cli.common import one_job, run, targeted
from slipway.client.logs import Item, Line, Note, Opening, Selection, Separator, follow_batches
from slipway.client.logs.interface import COMBINED, STREAMS
from slipway.client.logs.items import SECOND
from slipway.client.target import Target

_AGO: Final = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+(?:\.\d+)?)s)?")
_COLOURS: Final = (36, 32, 33, 35, 34, 31, 96, 92, 93, 95, 94, 91)
"""Numbers of ANSI colours, one host after the other."""


class Moment(click.ParamType[datetime]):
    """A moment: how long ago, such as 5m or 1h30m, or as RFC 3339 writes it."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        """Read it."""
        text = str(value)
        if text and (ago := _AGO.fullmatch(text)) is not None:
            days, hours, minutes, seconds = (float(group or 0) for group in ago.groups())
            try:
                return datetime.now(UTC) - timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
            except OverflowError:
                self.fail(f"{text!r} is before the first date that there is.", param, ctx)
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            self.fail(
                f"{text!r} is neither a time ago, such as 5m, nor RFC 3339, such as 2026-01-31T12:00:00Z.", param, ctx
            )
        return moment


class AttemptNumber(click.ParamType["int | Literal['all']"]):
    """The number of an attempt, or `all`."""

    name = "N|all"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int | Literal["all"]:
        """Read it."""
        if str(value).lower() == "all":
            return "all"
        if not str(value).isdecimal():
            self.fail(f"{value!r} is neither a number nor all.", param, ctx)
        return int(str(value))


class Printer:
    """Prints lines exactly as they were written; of several hosts each after its host's name."""

    def __init__(self, out: BinaryIO, *, coloured: bool, together: bool, timestamps: bool) -> None:
        """`together` says that what is said about the lines comes out in the same place."""
        self._out = out
        self._coloured, self._together, self._timestamps = coloured, together, timestamps
        self._prefixes: dict[Place, bytes] = {}
        self._unfinished: str | None = None
        """The pod of the last line, if that has no newline yet."""

    def show(self, batch: Iterable[Item]) -> None:
        """Print what came, and have it leave this process."""
        for item in batch:
            match item:
                case Line():
                    self._out.write(self._shown(item))
                case Opening():
                    self._open(item.places)
                case Note() | Separator():
                    self._say(item.message)
        self._out.flush()

    def close(self) -> None:
        """End the last line of one of several hosts; a single host's stays as it is."""
        if self._unfinished and self._prefixes:
            self._out.write(b"\n")
        self._out.flush()

    def _shown(self, line: Line) -> bytes:
        resumed = line.continues and self._unfinished == line.pod
        others = bool(self._prefixes) or self._unfinished != line.pod
        broken = b"\n" if self._unfinished and others and not resumed else b""
        self._unfinished = None if line.raw.endswith(b"\n") else line.pod
        if resumed or (line.continues and not self._prefixes):
            return line.raw
        moment = _clock(line.nanoseconds) if self._timestamps else b""
        return broken + self._prefixes.get(line.place, b"") + moment + line.raw

    def _open(self, places: tuple[Place, ...]) -> None:
        self._prefixes = {}
        if len(places) > 1:
            self._prefixes = {place: self._prefix(place, index) for index, place in enumerate(places)}

    def _prefix(self, place: Place, index: int) -> bytes:
        text = "[head]" if place.is_head else f"[{place.slice}/{place.host}]"
        if self._coloured:
            text = f"\x1b[{_COLOURS[index % len(_COLOURS)]}m{text}\x1b[0m"
        return f"{text} ".encode()

    def _say(self, message: str) -> None:
        self._out.flush()
        click.echo(("\n" if self._unfinished and self._together else "") + f"-- {message}", err=True)


def _clock(nanoseconds: int) -> bytes:
    seconds, rest = divmod(nanoseconds, SECOND)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:09d}Z ".encode()


async def _print(target: Target, name: str, selection: Selection, printer: Printer) -> None:
    client = target.client()
    try:
        async with client, aclosing(follow_batches(client, name, selection)) as batches:
            async for batch in batches:
                printer.show(batch)
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    printer.close()


@click.command()
@one_job
@click.option("-f", "--follow", is_flag=True, help="Wait for more, over restarts, until the job has ended.")
@click.option("--slice", "slices", type=int, multiple=True, metavar="N", help="Index of a slice; may be repeated.")
@click.option("--host", "hosts", type=int, multiple=True, metavar="N", help="Index of a host in its slice; likewise.")
@click.option("--role", type=click.Choice([names.ROLE_HEAD, names.ROLE_WORKER]), help="The Ray head, or the workers.")
@click.option("--attempt", type=AttemptNumber(), help="An attempt, or all of them.  [default: the current one]")
@click.option("--failed", is_flag=True, help="The host that ended the last attempt that failed.")
@click.option(
    "--stream", type=click.Choice(STREAMS), default=COMBINED, show_default=True,
    help="What the program writes to stdout or stderr alone; only local jobs have them apart.",
)  # fmt: skip
@click.option("--tail", type=click.IntRange(min=0), metavar="N", help="The last N lines of each host.")
@click.option("--since", type=Moment(), help="From then on: 5m ago, or a time in RFC 3339.")
@click.option("--until", type=Moment(), help="Before then.")
@click.option("--regex", metavar="RE", help="Lines in which this regular expression matches somewhere.")
@click.option("--invert", is_flag=True, help="Lines in which it does not.")
@click.option("--timestamps", is_flag=True, help="Print before each line when it was written.")
@click.option("--no-history", is_flag=True, help="Leave out what was written by now.")
@click.option("--order-by-time", is_flag=True, help="Sort the lines of all hosts, instead of host after host.")
@targeted
def logs(
    name: str, follow: bool, slices: tuple[int, ...], hosts: tuple[int, ...], role: str | None,
    attempt: int | Literal["all"] | None, failed: bool, stream: str, tail: int | None, since: datetime | None,
    until: datetime | None, regex: str | None, invert: bool, timestamps: bool, no_history: bool, order_by_time: bool,
    target: Target,
) -> None:  # fmt: skip
    """Print what the hosts of a job wrote: exactly, and of several hosts each line after [slice/host].

    What is to be said about the lines goes to stderr.

    Exit codes: 2 wrong usage, 3 not started or no connection, 4 no such job or nothing left of its logs, 130
    interrupted.
    """
    try:
        selection = Selection(
            slices=frozenset(slices), hosts=frozenset(hosts), role=role, attempt=attempt, failed=failed, follow=follow,
            history=not no_history, tail=tail, since=since, until=until, regex=regex, invert=invert,
            by_time=order_by_time, stream=stream,
        )  # fmt: skip
    except ValueError as error:
        raise click.UsageError(f"{error}.") from error
    terminal = sys.stdout.isatty()
    coloured, together = terminal and not os.environ.get("NO_COLOR"), terminal and sys.stderr.isatty()
    printer = Printer(sys.stdout.buffer, coloured=coloured, together=together, timestamps=timestamps)
    run(_print(target, name, selection, printer))

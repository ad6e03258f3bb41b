"""Writes docs/mistakes.md from what `make mistakes` has noted."""

import json
import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parents[1] / "mistakes.md"
_ROW_ID: Final = re.compile(r"^(?:(?:[BENFK]|E\d)[-]\d+ )+")
_HEAD: Final = """\
# Mistakes, and what Slipway says

`make mistakes` makes every mistake on this page on a real API server with the real scheduler, and on nodes with real
kubelets and registries, and writes the page. What the columns REASON and PHASE of `kubectl get sj` say is explained in
[status.md](status.md).
"""
_REFUSED: Final = """
## What the API server does not store

`kubectl apply` ends with the error, and there is no job.

| mistake | the error |
|---|---|
"""
_SAID: Final = """
## What the job says

The message is that of the condition `Running`, or of `Accepted` where the job is `Invalid`. *Said after* counts from
the end of `kubectl apply`. *Nodes held* is for how long pods of the job were bound to nodes, of the seconds that the
test watched. The mistakes with 100 s were all made at the same time on one node.

| mistake | PHASE | REASON | message | Event | said after | nodes held |
|---|---|---|---|---|---|---|
"""


def page(outcomes: Iterable[dict[str, Any]]) -> str:
    """The page of these outcomes, as `tests.mistakes.Outcome` describes them."""
    last = {one["mistake"]: one for one in outcomes}
    refused = [one for one in last.values() if not one["phase"]]
    said = [one for one in last.values() if one["phase"]]
    return "".join((_HEAD, _REFUSED, *_refusals(refused), _SAID, *_words(said)))


def _refusals(outcomes: list[dict[str, Any]]) -> Iterator[str]:
    for one in outcomes:
        yield f"| {name(one['mistake'])} | {_cell(one['message'])} |\n"


def _words(outcomes: list[dict[str, Any]]) -> Iterator[str]:
    for one in outcomes:
        held = f"{one['held']:.0f} of {one['watched']:.0f} s" if one["held"] else "0 s"
        words = (name(one["mistake"]), one["phase"], f"`{one['reason']}`", _cell(one["message"]), f"`{one['event']}`")
        yield f"| {' | '.join(words)} | {one['seconds']:.1f} s | {held} |\n"


def name(mistake: str) -> str:
    """The name of a mistake without the rows that it proves."""
    return _ROW_ID.sub("", mistake)


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").replace("](", "]\\(").split())


if __name__ == "__main__":
    PAGE.write_text(page(json.loads(line) for line in Path(sys.argv[1]).read_text().splitlines()))

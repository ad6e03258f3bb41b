"""The map of the house against the house."""

import re
from pathlib import Path
from typing import Final

import pytest

from tests.places import ROOT

HOUSE: Final = ROOT / "operator/slipway"
TEXT: Final = (ROOT / "docs/architecture.md").read_text()
PLACES: Final = sorted(set(re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py)?)`", TEXT)) - {"operator/slipway"})
ROOMS: Final = sorted(path.parent.relative_to(HOUSE) for path in HOUSE.rglob("__init__.py") if path.parent != HOUSE)
LARGE: Final = set(re.findall(r"^\| `([^`]+)` \|", TEXT.partition("## Sizes")[2], re.MULTILINE))
MOST_MODULES: Final = 15
MOST_LINES: Final = 350
MOST_LINES_OF_THE_DECISION: Final = 6_000
PARTS: Final = {Path("client/logs"), Path("client/pictures"), Path("core/manifests/ray")}
"""Rooms within a room whose names say what they are."""


def lines(path: Path) -> int:
    return len(path.read_text().splitlines())


@pytest.mark.parametrize("place", PLACES)
def test_what_it_names_is_there(place: str) -> None:
    assert (HOUSE / place).exists()


@pytest.mark.parametrize("room", [room for room in ROOMS if room not in PARTS], ids=str)
def test_every_room_is_on_it(room: Path) -> None:
    assert f"`{room}`" in TEXT


def test_what_is_large_says_why_and_nothing_else_does() -> None:
    modules = [path for path in HOUSE.rglob("*.py") if path.name != "__init__.py"]
    folders = {path.parent for path in modules}
    large = {
        *(one for one in folders if sum(path.parent == one for path in modules) > MOST_MODULES),
        *(path for path in modules if lines(path) > MOST_LINES),
    }
    assert {str(one.relative_to(HOUSE)) for one in large} == LARGE


def test_the_decision_is_small() -> None:
    assert sum(map(lines, (HOUSE / "core/planner").rglob("*.py"))) <= MOST_LINES_OF_THE_DECISION

"""The hosts of an attempt, each a cell."""

from collections.abc import Mapping
from typing import Final

from rich.text import Text

from slipway.api import names
from slipway.api.places import Place

CELLS: Final = {
    "Running": ("■", "green"),
    "Succeeded": ("✓", "bold green"),
    "Failed": ("✗", "bold red"),
    "Terminating": ("◌", "yellow"),
    "Starting": ("□", "cyan"),
    "Unscheduled": ("·", "yellow"),
    "Absent": (" ", ""),
}
"""The cell of each state, and its colour."""
MOST_SLICES: Final = 64
"""Slices that are drawn; of the others only their number is said."""


def matrix(states: Mapping[Place, str], slices: int, per_slice: int, head: bool = False) -> Text:
    """A line for each slice, a cell for each host, and a legend of the states that occur."""
    text = Text()
    if head:
        text.append("head    ")
        _cell(text, next((state for place, state in states.items() if place.is_head), "Absent"))
        text.append("\n")
    for number in range(min(slices, MOST_SLICES)):
        text.append(f"slice {number:<2}")
        for host in range(per_slice):
            _cell(text, states.get(Place(names.ROLE_WORKER, number, host), "Absent"))
        text.append("\n")
    if slices > MOST_SLICES:
        text.append(f"and {slices - MOST_SLICES} more slices\n")
    seen = [state for state in CELLS if state in states.values()]
    for state in seen:
        sign, style = CELLS[state]
        text.append(f"{sign} ", style=style)
        text.append(f"{list(states.values()).count(state)} {state.lower()}  ")
    return text


def _cell(text: Text, state: str) -> None:
    sign, style = CELLS[state]
    text.append(sign, style=style)

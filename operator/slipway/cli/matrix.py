"""The hosts of an attempt, each a cell."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec
from rich.text import Text

from slipway.api import names
from slipway.api.places import Place, parse_pod_name

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


class PodMetadata(msgspec.Struct, rename="camel"):
    """Which pod it is."""

    name: str
    resource_version: str = ""
    deletion_timestamp: str | None = None


class PodSeen(msgspec.Struct):
    """A pod as pictures need it."""

    metadata: PodMetadata
    spec: dict[str, Any] = {}
    status: dict[str, Any] = {}


def state_of(pod: PodSeen) -> str:
    """One word for a pod, as CELLS has it."""
    status = pod.status
    phase = status.get("phase", "Pending")
    if phase in ("Succeeded", "Failed"):
        return str(phase)
    if pod.metadata.deletion_timestamp:
        return "Terminating"
    if not pod.spec.get("nodeName"):
        return "Unscheduled"
    if phase != "Running":
        return "Starting"
    container = {one["name"]: one for one in status.get("containerStatuses", ())}.get(names.WORKER_CONTAINER)
    ended = (container or {}).get("state", {}).get("terminated")
    if ended:
        return "Succeeded" if ended.get("exitCode") == 0 else "Failed"
    return "Running"


def hosts(job: str, pods: Iterable[Mapping[str, Any]]) -> dict[Place, str]:
    """The state of each host that has a pod."""
    seen = (msgspec.convert(pod, PodSeen) for pod in pods)
    placed = ((parse_pod_name(job, pod.metadata.name), pod) for pod in seen)
    return {found[1]: state_of(pod) for found, pod in placed if found is not None}


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

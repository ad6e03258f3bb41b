"""How commands write times, spans and phases."""

from datetime import datetime, timedelta
from typing import Final

from rich.text import Text

from slipway.api.status import Phase, PhaseKind

_COLOURS: Final = {
    PhaseKind.WAITS: "yellow",
    PhaseKind.LACKS_NODES: "yellow",
    PhaseKind.STARTS: "cyan",
    PhaseKind.RUNS: "green",
    PhaseKind.RESTS: "magenta",
    PhaseKind.REFUSED: "bold red",
    PhaseKind.SUCCEEDED: "bold green",
    PhaseKind.FAILED: "bold red",
    PhaseKind.STOPPED: "magenta",
    None: "",
}
_UNITS: Final = (("d", 86400), ("h", 3600), ("m", 60), ("s", 1))


def coloured(phase: str) -> Text:
    """A phase in its colour."""
    return Text(phase, style=_COLOURS[Phase(phase).kind])


def span(length: timedelta) -> str:
    """A length of time in its two largest units: `3h12m`, `2m5s`, `0.4s`."""
    seconds = max(length.total_seconds(), 0.0)
    if seconds < 10:
        return f"{seconds:.1f}s"
    whole = round(seconds)
    parts: list[str] = []
    for unit, size in _UNITS:
        if whole >= size or parts:
            parts.append(f"{whole // size}{unit}")
            whole %= size
        if len(parts) == 2:
            break
    return "".join(part for part in parts if not part.startswith("0"))


def age(moment: datetime | None, now: datetime) -> str:
    """How long ago that was; `-` where it has not happened."""
    return span(max(now - moment, timedelta())) if moment is not None else "-"


def clock(moment: datetime | None) -> str:
    """A time of the day, here; with its day where that is not clear."""
    if moment is None:
        return "-"
    return moment.astimezone().strftime("%H:%M:%S")

"""Lengths of time as people type them."""

import re
from typing import Final

import click

_UNITS: Final = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


class Span(click.ParamType[float]):
    """A length of time: 90, 90s, 5m, 2h."""

    name = "TIME"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        found = re.fullmatch(rf"(\d+(?:\.\d+)?)({'|'.join(_UNITS)})", str(value))
        if found is None:
            self.fail(f"{value!r} is not a length of time: write for example 90s, 5m or 2h.", param, ctx)
        return float(found[1]) * _UNITS[found[2]]

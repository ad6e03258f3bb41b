"""Words of a PodSpec that several parts of the resource use."""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Final

from pydantic import AfterValidator, Field, StringConstraints

from slipway.api.base import Model

QUANTITY: Final = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]+)?$"


_SUFFIXES: Final = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY: Final = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


@lru_cache(maxsize=4096)
def amount(quantity: str | int) -> Decimal:
    """What a quantity such as `16Gi`, `500m` or `1e3` comes to, in units of its resource.

    Raises:
        ValueError: when it is none.
    """
    found = re.match(QUANTITY, str(quantity))
    if found is None:
        raise ValueError(f"{quantity!r} is no quantity")
    suffix = found[3] or ""
    number = Decimal(str(quantity).removesuffix(suffix))
    if suffix in _BINARY:
        return number * Decimal(1024) ** (1 + _BINARY.index(suffix))
    return number.scaleb(_SUFFIXES[suffix] if suffix in _SUFFIXES else int(suffix[1:]))


def _quantity(value: str | int) -> str | int:
    if (isinstance(value, int) and value >= 0) or (isinstance(value, str) and re.match(QUANTITY, value)):
        return value
    raise ValueError("must be a quantity such as 16Gi, 500m or 2")


Quantity = Annotated[
    str | int,
    AfterValidator(_quantity),
    Field(
        json_schema_extra={
            "x-kubernetes-int-or-string": True,
            "anyOf": None,
            "maxLength": 64,
            "pattern": QUANTITY,
            "minimum": 0,
        }
    ),
]
Labels = dict[Annotated[str, StringConstraints(max_length=317)], Annotated[str, StringConstraints(max_length=63)]]
NonEmpty = Annotated[str, StringConstraints(min_length=1, max_length=253)]


class Resources(Model):
    """Compute resources of a container."""

    limits: dict[NonEmpty, Quantity] = Field(default={}, json_schema_extra={"maxProperties": 32})
    """Most it may use."""
    requests: dict[NonEmpty, Quantity] = Field(default={}, json_schema_extra={"maxProperties": 32})
    """What is reserved for it."""

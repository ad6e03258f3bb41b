"""Words of a PodSpec that several parts of the resource use."""

import re
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Final

from pydantic import BeforeValidator, Field, StringConstraints

from slipway.api.base import Model, rule, rules

QUANTITY: Final = r"^\+?([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$"
"""A larger exponent is a slip, and a number that nothing can count with."""
_LEAST: Final = Decimal("1e-9")
"""Kubernetes takes smaller amounts for this one."""

_SCALES: Final = {
    **{
        suffix: Decimal(1000) ** power
        for power, suffix in enumerate(("n", "u", "m", "", "k", "M", "G", "T", "P", "E"), -3)
    },
    **{suffix: Decimal(1024) ** power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti", "Pi", "Ei"), 1)},
}


def _quantity(value: object) -> object:
    is_number = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    if is_number or (isinstance(value, str) and re.fullmatch(QUANTITY, value)):
        return value
    raise ValueError("must be a quantity such as 16Gi, 500m or 2")


def amount(quantity: object) -> Decimal | None:
    """The number that a quantity stands for; None for what is no quantity."""
    known = isinstance(quantity, str | int) and not isinstance(quantity, bool)
    return _amount(str(quantity)) if known else None


@lru_cache(maxsize=4096)
def _amount(quantity: str) -> Decimal | None:
    found = re.fullmatch(QUANTITY, quantity)
    if found is None:
        return None
    number, suffix = found[1], found[3] or ""
    try:
        exact = Decimal(number) * _SCALES[suffix] if suffix in _SCALES else Decimal(number + suffix)
    except ArithmeticError:
        return None
    return max(exact, _LEAST) if exact else exact


_INT_OR_STRING: Final[dict[str, Any]] = {"x-kubernetes-int-or-string": True, "anyOf": None, "maxLength": 64}

Quantity = Annotated[
    str | int,
    BeforeValidator(_quantity),
    Field(json_schema_extra=_INT_OR_STRING | {"pattern": QUANTITY, "minimum": 0}),
]
ShmSize = Annotated[
    str | int,
    BeforeValidator(_quantity),
    Field(
        json_schema_extra=_INT_OR_STRING
        | rules(
            # A pattern would be shown in the place of words.
            rule(
                f"type(self) == int ? self >= 0 : self.matches(r'{QUANTITY}')",
                computed="'spec.shmSize ' + string(self) + ' is not a size: give bytes, or a quantity such as 512Mi "
                "or 16Gi'",
            )
        )
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

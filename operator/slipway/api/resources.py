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


def is_size(resource: str) -> bool:
    """Whether a resource is an amount of bytes."""
    return resource in ("memory", "ephemeral-storage") or resource.startswith("hugepages-")


_PART: Final = (
    "([1-9]0{0,2}|[.][0-9]*)m$|([1-9]0{0,5}|[.][0-9]*)u$|([1-9]0{0,8}|[.][0-9]*)n$|[.][0-9]*[1-9][0-9]*$|[eE]-[0-9]+$"
)
"""Quantities that are a part of one. To isInteger() of the API server 1.5Gi is one, because of how it is written."""
_WHOLE: Final = r"^\+?([0-9]+(\.0*)?([eE]\+?[0-9]{1,2})?|([0-9]+(\.[0-9]*)?|\.[0-9]+)([KMGTPE]i|[kMGTPE]))$"
"""Quantities that are none, in one pattern: two would cost the API server more than it allows."""
NO_SIZE: Final = "is no whole number of bytes: give bytes, or a quantity such as 512Mi or 16Gi"
"""What is wrong with a quantity such as 512m, which is half a byte."""


def is_whole(size: object) -> bool:
    """Whether a size is a whole number of bytes."""
    found = amount(size)
    return found is not None and found == found.to_integral_value()


_DOCKERS: Final = re.compile(r"([0-9]+)([bkmgt]?)b?", re.IGNORECASE)
_BINARY: Final = re.compile(r"[0-9]+(\.[0-9]+)?[KMGT]i")
_UNITS: Final = {"": "", "b": "", "k": "Ki", "m": "Mi", "g": "Gi", "t": "Ti"}


def docker_size(text: str) -> str | None:
    """The quantity that Docker's word for a size stands for, such as 512m or 2g; its units are binary.

    Quantities with binary units mean themselves. None for what is no size.
    """
    if _BINARY.fullmatch(text):
        return text
    found = _DOCKERS.fullmatch(text)
    return found[1] + _UNITS[found[2].lower()] if found is not None else None


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
                f"type(self) == int ? self >= 0 : self.matches(r'{_WHOLE}')",
                computed="'spec.shmSize ' + string(self) + ' is not a size: give bytes, or a quantity such as 512Mi "
                "or 16Gi'",
            )
        )
    ),
]
Labels = dict[Annotated[str, StringConstraints(max_length=317)], Annotated[str, StringConstraints(max_length=63)]]
NonEmpty = Annotated[str, StringConstraints(min_length=1, max_length=253)]


_SIZES: Final = {"maxProperties": 32} | rules(
    *(
        rule(
            f"!('{name}' in self) || type(self['{name}']) == int || !self['{name}'].matches('{_PART}')",
            f"{name} {NO_SIZE}",
        )
        for name in ("memory", "ephemeral-storage")
    )
)
"""A rule over all names would cost the API server more than it allows; the operator looks at hugepages."""


class Resources(Model):
    """Compute resources of a container."""

    limits: dict[NonEmpty, Quantity] = Field(default={}, json_schema_extra=_SIZES)
    """Most it may use."""
    requests: dict[NonEmpty, Quantity] = Field(default={}, json_schema_extra=_SIZES)
    """What is reserved for it."""

"""Words of a PodSpec that several parts of the resource use."""

from typing import Annotated

from pydantic import Field, StringConstraints

from slipway.api.base import Model

Quantity = Annotated[
    str | int, Field(json_schema_extra={"x-kubernetes-int-or-string": True, "anyOf": None, "maxLength": 64})
]
Labels = dict[Annotated[str, StringConstraints(max_length=317)], Annotated[str, StringConstraints(max_length=63)]]
NonEmpty = Annotated[str, StringConstraints(min_length=1, max_length=253)]


class Resources(Model):
    """Compute resources of a container."""

    limits: dict[NonEmpty, Quantity] = Field(default={}, json_schema_extra={"maxProperties": 32})
    """Most it may use."""
    requests: dict[NonEmpty, Quantity] = Field(default={}, json_schema_extra={"maxProperties": 32})
    """What is reserved for it."""

"""JSON of the API as narrow structs: lists and their pages."""

from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from slipway.apiserver.errors import UNREADABLE, Garbled

T = TypeVar("T")
JsonObject = dict[str, Any]


class ListMeta(msgspec.Struct, frozen=True, rename={"resource_version": "resourceVersion", "next": "continue"}):
    """Where a list stands."""

    resource_version: str = ""
    next: str = ""


class Page(msgspec.Struct, Generic[T], frozen=True):
    """Some of the objects of a list."""

    metadata: ListMeta
    items: tuple[T, ...] | None = None


@dataclass(frozen=True, slots=True)
class Listing(Generic[T]):
    """All objects of a list, as of one resource version."""

    items: list[T]
    resource_version: str


@cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind)


def decode(kind: type[T], content: bytes) -> T:
    """Read JSON into a type.

    Raises:
        Garbled: when it is not JSON, not of that type, or nested deeper than this process can read.
    """
    try:
        found: T = _decoder(kind).decode(content)  # type: ignore[arg-type]
    except UNREADABLE as error:
        raise Garbled(f"unreadable answer: {error}") from error
    return found

"""The base of everything that is decoded from the API's JSON."""

from collections.abc import Iterable, Mapping
from sys import intern
from typing import Any
from zlib import compress, decompress

import msgspec
from msgspec.structs import force_setattr

Body = dict[str, Any]
"""A Kubernetes object as JSON."""


def keep_once(part: msgspec.Struct, fields: Iterable[str]) -> None:
    """Let text fields refer to one string for each text.

    Ten thousand pods and nodes have few different names of pools, jobs, phases and conditions, and decoding makes a
    string for each of them.
    """
    for field in fields:
        force_setattr(part, field, intern(getattr(part, field)))


def kept_once(texts: Mapping[str, str]) -> dict[str, str]:
    """The same texts, as one string for each text."""
    return {intern(key): intern(value) for key, value in texts.items()}


def packed(content: Mapping[str, Any]) -> bytes:
    """JSON in few bytes."""
    return compress(msgspec.json.encode(content), 1)


def unpacked(content: bytes) -> Mapping[str, Any]:
    """What was `packed`."""
    return msgspec.json.decode(decompress(content), type=dict[str, Any])


class Part(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of a Kubernetes object.

    Parts are never in a cycle, so the garbage collector need not walk over the parts of ten thousand pods.
    """


class ObjectMeta(Part, frozen=True):
    """Which object it is, and in which version; the namespace is empty for objects of the whole cluster."""

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = "0"


class Named(Part, frozen=True):
    """A scheduling gate, a reference to another object: a part of which the name is all that matters."""

    name: str = ""

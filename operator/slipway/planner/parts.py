"""The base of everything that is decoded from the API's JSON."""

import msgspec


class Part(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of a Kubernetes object.

    Parts are never in a cycle, so the garbage collector need not walk over the parts of ten thousand pods.
    """


class Named(Part, frozen=True):
    """A scheduling gate, a reference to another object: a part of which the name is all that matters."""

    name: str = ""

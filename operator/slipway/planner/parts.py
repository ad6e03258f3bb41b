"""The base of everything that is decoded from the API's JSON."""

import msgspec


class Part(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    """A part of a Kubernetes object.

    Parts are never in a cycle, so the garbage collector need not walk over the parts of ten thousand pods.
    """

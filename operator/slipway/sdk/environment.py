"""Environment variables as Python gives them and as Kubernetes must be told them."""

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from slipway.client.manifests.reading import literal
from slipway.sdk.arguments import need

Environment = Mapping[str, object] | Sequence[str]
"""Values by their names, or `docker run`'s NAME=VALUE; NAME alone stands for the value it has in this process."""


def variables(given: Environment) -> list[dict[str, Any]]:
    """`spec.env`, in order; values become text and arrive as they are, None leaves a name out.

    Raises:
        ValueError: for a value that holds others, or a list's item that names no variable.
    """
    found = []
    for name, value in given.items() if isinstance(given, Mapping) else _pairs(given).items():
        if isinstance(value, dict | list | tuple | set | bytes):
            raise ValueError(
                f"environment variable {name!r} is a {type(value).__name__} and must be text: "
                "what is nested belongs into Ray's runtime_env"
            )
        if value is not None:
            found.append({"name": name, "value": literal(str(value))})
    return found


def _pairs(given: Iterable[object]) -> dict[str, str]:
    found: dict[str, str] = {}
    if isinstance(given, str):
        raise ValueError(f"environment must be a map or a list, not {given!r}")
    need(Iterable, "a map or a list", environment=given)
    for place, item in enumerate(given):
        if not isinstance(item, str) or item[:1] in ("", "="):
            raise ValueError(f"environment[{place}] is {item!r}: write NAME=VALUE, or NAME for its value here")
        name, equals, value = item.partition("=")
        if not equals and name not in os.environ:
            raise ValueError(f"environment[{place}]: {name} is not set here, so say its value: {name}=VALUE")
        if name in found:
            raise ValueError(f"environment[{place}]: {name} stands there twice")
        found[name] = value if equals else os.environ[name]
    return found

"""Environment variables as Python gives them and as Kubernetes must be told them."""

from collections.abc import Mapping
from typing import Any


def literal(text: str) -> str:
    """The text as Kubernetes must be told it, which expands `$(NAME)` and reads `$$` as `$`."""
    return text.replace("$", "$$")


def variables(given: Mapping[str, object]) -> list[dict[str, Any]]:
    """`spec.env`, in order; values become text and arrive as they are, None leaves a name out.

    Raises:
        ValueError: for a value that holds others.
    """
    found = []
    for name, value in given.items():
        if isinstance(value, dict | list | tuple | set | bytes):
            raise ValueError(
                f"environment variable {name!r} is a {type(value).__name__} and must be text: "
                "what is nested belongs into Ray's runtime_env"
            )
        if value is not None:
            found.append({"name": name, "value": literal(str(value))})
    return found

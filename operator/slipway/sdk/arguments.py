"""Arguments of another kind than a call takes, refused by their names before anything is asked of a cluster."""

from typing import Any


def need(kinds: type | tuple[type, ...], words: str, **given: Any) -> None:
    """Refuse what is of none of these kinds; the message does not show it, for it may hold secrets.

    Raises:
        ValueError: naming the argument.
    """
    for name, value in given.items():
        if not isinstance(value, kinds):
            found = "None" if value is None else type(value).__name__
            raise ValueError(f"{name} must be {words}, not {found}")

"""How kubelets say that they have a log no more."""

from typing import Final

_GONE: Final = (
    "unable to retrieve container logs",
    "failed to try resolving symlinks",
    "not found",
    "is not available",
)
"""Some of them in the place of the log."""


def means_gone(words: str) -> bool:
    """Whether these words say so."""
    return any(one in words for one in _GONE)

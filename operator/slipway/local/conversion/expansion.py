"""Kubernetes' `$(NAME)`: how the kubelet replaces it in variables, commands and arguments before a container starts."""

import re
from collections.abc import Mapping
from typing import Final

_REFERENCE: Final = re.compile(r"\$(?:(?P<escaped>\$)|\((?P<name>[^)]*)\))", re.DOTALL)


class UnknownVariable(KeyError):
    """A reference to a variable that the container does not have, where it needs one. Its argument is the name."""


def expanded(text: str, variables: Mapping[str, str]) -> str:
    """A text with each `$(NAME)` of a known variable replaced, and `$$` made `$`.

    References to unknown variables stay as they are written, so does any other `$`; what is put in is not looked
    through again.
    """
    return _REFERENCE.sub(lambda found: _put_in(found, variables), text)


def fully_expanded(text: str, variables: Mapping[str, str]) -> str:
    """The same where a reference to an unknown variable is an error, as it is in subPathExpr.

    Raises:
        UnknownVariable: for the first one.
    """
    for found in _REFERENCE.finditer(text):
        if found["name"] is not None and found["name"] not in variables:
            raise UnknownVariable(found["name"])
    return expanded(text, variables)


def _put_in(found: re.Match[str], variables: Mapping[str, str]) -> str:
    return "$" if found["escaped"] else variables.get(found["name"], found[0])

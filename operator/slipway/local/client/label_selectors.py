"""Label selectors, as the API server reads them: on this machine there is none that would.

Its comparisons of numbers, `key>1` and `key<1`, are for nodes, and are not known here.
"""

import re
from collections.abc import Callable, Mapping
from typing import Final

_KEY: Final = r"[A-Za-z0-9]([A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE: Final = r"[A-Za-z0-9._-]*"
_REQUIREMENT: Final = re.compile(
    rf"\s*(?:(?P<absent>!)\s*(?P<none>{_KEY})"
    rf"|(?P<key>{_KEY})(?:\s*(?P<equals>==?|!=)\s*(?P<value>{_VALUE})"
    rf"|\s+(?P<set>in|notin)\s*\(\s*(?P<values>{_VALUE}(?:\s*,\s*{_VALUE})*)\s*\))?)\s*"
)


def selecting(selector: str) -> Callable[[Mapping[str, str]], bool]:
    """Says of labels whether a selector selects them, such as `team=a,tier in (gold, silver),!old`.

    Raises:
        ValueError: naming the selector, where it is none.
    """
    requirements = _requirements(selector)
    return lambda labels: all(_holds(requirement, labels) for requirement in requirements)


def _requirements(selector: str) -> list[re.Match[str]]:
    found: list[re.Match[str]] = []
    position = 0
    while selector.strip() and position <= len(selector):
        one = _REQUIREMENT.match(selector, position)
        if one is None or selector[one.end() : one.end() + 1] not in ("", ","):
            raise ValueError(f"{selector!r} is no label selector: one looks like team=a,tier in (gold, silver),!old")
        found.append(one)
        position = one.end() + 1
    return found


def _holds(one: re.Match[str], labels: Mapping[str, str]) -> bool:
    if one["absent"]:
        return one["none"] not in labels
    own = labels.get(one["key"])
    if one["set"]:
        among = own is not None and own in [value.strip() for value in one["values"].split(",")]
        return among == (one["set"] == "in")
    if one["equals"]:
        return (own == one["value"]) == (one["equals"] != "!=")
    return own is not None

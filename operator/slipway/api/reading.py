"""Reads what the API server stores: what this version cannot read is named and left out, and the rest is used."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from slipway.api.nesting import too_deep
from slipway.api.slicejob import SliceJobSpec
from slipway.api.words import kind_of, shown

_OPAQUE: Final = frozenset(
    ("env", "env_vars", "envFrom", "podTemplate", "runtimeEnv", "volumes", "command", "args", "metadata")
)
"""Fields below which a value may be a secret, so that it is never repeated."""

Place = tuple[int | str, ...]


def read_spec(content: Mapping[str, Any]) -> tuple[SliceJobSpec | None, str]:
    """The spec, and one line on what of it cannot be read: field, value and what is allowed.

    A newer Slipway may have written what this one does not know. There is a spec without it, for a job that runs is
    followed to its end; None only when nothing is left to read.
    """
    if problem := too_deep(content):
        rest, _ = read_spec({name: value for name, value in content.items() if not too_deep({name: value})})
        return rest, problem
    try:
        return SliceJobSpec.model_validate(content), ""
    except ValidationError as error:
        return _what_can_be_read(content, error), describe(error, "spec", content)


def describe(error: ValidationError, root: str, content: Any = None) -> str:
    """The first fault as one line: field, value, what is allowed; and how many more there are.

    Variables of `content` are named rather than numbered.
    """
    first = error.errors()[0]
    field = root + _path(first["loc"], content)
    if first["type"] == "extra_forbidden":
        line = f"{field} is not a known field of this version of Slipway"
    else:
        found, missing = first["input"], first["type"] == "missing"
        named = f" is {kind_of(found)}" if _OPAQUE.intersection(first["loc"]) else f" {shown(found)}"
        named = "" if missing else named
        words = first["msg"].removeprefix("Value error, ")
        line = f"{field}{named}: {words[0].lower()}{words[1:]}"
    more = error.error_count() - 1
    return f"{line} (and {more} more)" if more else line


def without(content: Any, places: list[Place]) -> Any:
    """The content without what stands at these places."""
    here = {place[0] for place in places if len(place) == 1}
    if isinstance(content, Mapping):
        items = ((key, value) for key, value in content.items() if key not in here)
        return {key: without(value, _below(places, key)) for key, value in items}
    if isinstance(content, list | tuple):
        return [without(value, _below(places, i)) for i, value in enumerate(content) if i not in here]
    return content


def _what_can_be_read(content: Any, error: ValidationError) -> SliceJobSpec | None:
    """Leave out the fields at fault, then what holds them, and so on up."""
    faults = [one["loc"] for one in error.errors()]
    for up in range(max(map(len, faults), default=0)):
        content = without(content, [place[: max(1, len(place) - up)] for place in faults])
        try:
            return SliceJobSpec.model_validate(content)
        except ValidationError as left:
            faults = [one["loc"] for one in left.errors()]
    return None


def _below(places: list[Place], part: int | str) -> list[Place]:
    return [place[1:] for place in places if len(place) > 1 and place[0] == part]


def _path(place: Place, content: Any) -> str:
    text, inside_env = "", False
    for part in place:
        content = _at(content, part)
        name = content.get("name") if inside_env and isinstance(content, Mapping) else None
        text += f"[{name if isinstance(name, str) else part}]" if isinstance(part, int) else f".{part}"
        inside_env = part == "env"
    return text


def _at(content: Any, part: int | str) -> Any:
    try:
        return content[part]
    except (KeyError, IndexError, TypeError):
        return None

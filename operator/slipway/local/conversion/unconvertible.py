"""What of a pod the local engine cannot carry out, collected while the pod is read."""

import json
from collections.abc import Iterator
from typing import Any, Final

from slipway.api.words import LONGEST_SHOWN, shown
from slipway.core.manifests.merge import MERGE_KEYS
from slipway.local.conversion.field_forms import FORMS, NEEDED, OBJECT, OBJECTS, Form
from slipway.local.conversion.field_table import ANSWERS, PARENTS, Answer

_EMPTY: Final[tuple[object, ...]] = (None, False, "", [], {})
"""Values that ask for nothing."""
_OF_VARIABLES: Final = (".env[].value", ".env[].valueFrom")
UNKNOWN: Final = "this field is not known to the local engine"


class Unconvertible(ValueError):
    """A field of a pod that no container of Docker can be made of."""

    def __init__(self, path: str, value: object, reason: str) -> None:
        """`path` is the field below the pod, `value` what it has, None where that says nothing or may be secret."""
        super().__init__(path, value, reason)
        self.path = path
        self.value = value
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}{'' if self.value is None else ' ' + _shown(self.value)}: {self.reason}"


class Refusals:
    """The fields that were refused so far. Reading goes on after each, so that a person sees all of them at once."""

    def __init__(self) -> None:
        self._found: dict[str, Unconvertible] = {}
        self.malformed = False
        """Whether a field has another form than a PodSpec gives it, so that the pod cannot be read further."""

    def add(self, path: str, value: object, reason: str) -> None:
        """Refuse a field. The first reason for a field stands."""
        self._found.setdefault(path, Unconvertible(path, value, reason))

    def __iter__(self) -> Iterator[Unconvertible]:
        """Those found so far, by path."""
        return iter(sorted(self._found.values(), key=lambda one: one.path))


def refuse_by_table(part: Any, row: str, path: str, refusals: Refusals) -> None:
    """Refuse what the table refuses or does not have in a part of a pod, and what has another form.

    Args:
        part: an object of the pod, or a list of objects.
        row: its path in the table.
        path: its path for people.
        refusals: where to put what is found.
    """
    if isinstance(part, list):
        for index, item in enumerate(part):
            refuse_by_table(item, f"{row}[]", f"{path}[{_name_of(item, row, index)}]", refusals)
        return
    for key in NEEDED.get(row, ()):
        if key not in part:
            _malformed(f"{path}.{key}", None, "it is missing", refusals)
    for key, value in part.items():
        below, field = (f"{row}.{key}", f"{path}.{key}") if row else (key, key)
        known = ANSWERS.get(below)
        if known is None and below not in PARENTS:
            refusals.add(field, None, UNKNOWN)
        elif known is not None and known.answer is Answer.REFUSED and value not in _EMPTY:
            refusals.add(field, value if isinstance(value, str | int) else None, known.words)
        elif (form := _form(below)) is not None and not form.accepts(value):
            # What stands in env is never repeated: it may be a secret.
            _malformed(field, None if below.endswith(_OF_VARIABLES) else value, form.words, refusals)
        elif below in PARENTS:
            refuse_by_table(value, below, field, refusals)


def _form(row: str) -> Form | None:
    """The form of a field that is looked into or converted."""
    if row in PARENTS:
        return OBJECTS if f"{row}[]" in PARENTS else OBJECT
    return FORMS[row.rpartition(".")[2]] if ANSWERS[row].answer is Answer.CONVERTED else None


def _malformed(path: str, value: object, reason: str, refusals: Refusals) -> None:
    refusals.malformed = True
    refusals.add(path, value, reason)


def _name_of(item: Any, row: str, index: int) -> object:
    key = MERGE_KEYS.get(row.rpartition(".")[2])
    return item.get(key, index) if key is not None else index


def _shown(value: object) -> str:
    short = isinstance(value, str) and len(value) <= LONGEST_SHOWN
    return json.dumps(value, ensure_ascii=False) if short else shown(value)

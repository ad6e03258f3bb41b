"""Text of which the API server, the command line and the operator say the same words when it is not valid."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from slipway.api.base import rule

LONGEST_SHOWN: Final = 80
"""Characters of a value that a message repeats; of a longer one it says how long it is."""


@dataclass(frozen=True)
class Valid:
    """Metadata of a type of text: what it may be, as a validator and as a CEL rule.

    Patterns are those that RE2 and Python share.
    """

    field: str
    """The field as messages name it."""
    words: str
    """What is wrong with text that is not valid, after the field and its value."""
    matches: str = ""
    """Pattern that it must contain; empty for none."""
    never: str = ""
    """Pattern that it must not contain; empty for none."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        """The text, then this check."""
        return core_schema.no_info_after_validator_function(self._checked, handler(source))

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        """The text with this rule behind its others."""
        found = handler(schema)
        # Text with a newline is in no message that the API server computes.
        always, with_text = f"{self.field} {self.words}", f"'{self.field} ' + self + ' {self.words}'"
        own = rule(self._expression(), always, computed=with_text)
        return {**found, "x-kubernetes-validations": [*found.get("x-kubernetes-validations", ()), own]}

    def _checked(self, value: str) -> str:
        if (self.matches and not _found(self.matches, value)) or (self.never and _found(self.never, value)):
            raise ValueError(f"{self.field} {value} {self.words}")
        return value

    def _expression(self) -> str:
        wanted = [f"self.matches('{self.matches}')"] if self.matches else []
        unwanted = [f"!self.matches('{self.never}')"] if self.never else []
        return " && ".join(wanted + unwanted)


def shown(value: object) -> str:
    """A value as a message repeats it; of one that is long or has parts the kind alone, because it may hold a secret.

    A part of a secret is a secret as well, so that nothing is cut.
    """
    if isinstance(value, Mapping | list | tuple):
        return kind_of(value)
    text = repr(value) if isinstance(value, str) else json.dumps(value, default=str)
    return text if len(text) <= LONGEST_SHOWN else f"{kind_of(value)} of {len(text)} characters"


def kind_of(value: object) -> str:
    """What kind of JSON it is, in words."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "an object"
    return "a list"


def _found(pattern: str, value: str) -> bool:
    # To Python $ is also the place before a newline at the end.
    return re.search(pattern.replace("$", r"\Z"), value) is not None

"""Text of which the API server, the command line and the operator say the same words when it is not valid."""

import re
from dataclasses import dataclass
from typing import Any

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from slipway.api.base import rule


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


def _found(pattern: str, value: str) -> bool:
    # To Python $ is also the place before a newline at the end.
    return re.search(pattern.replace("$", r"\Z"), value) is not None

"""Replaces control characters in texts of others, such as messages of Events and lines of logs."""

import re
from typing import Final

_CONTROLS: Final = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f-\\x9f\\u202a-\\u202e\\u2066-\\u2069]")
"""What would move the cursor, change the terminal or turn the direction of text."""


def visible(text: str) -> str:
    """The text with signs in place of control characters; tabs and ends of lines stay."""
    return _CONTROLS.sub("�", text)

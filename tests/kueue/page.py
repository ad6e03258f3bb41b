"""What docs/kueue.md tells users to apply and to type."""

import re
from typing import Final

from tests.places import ROOT

PAGE: Final = (ROOT / "docs/kueue.md").read_text()


def blocks(name: str, language: str = "yaml") -> list[str]:
    """The blocks of the page below this mark."""
    return re.findall(rf"<!-- test: {re.escape(name)} -->\n```{language}\n(.*?)```", PAGE, re.DOTALL)


def block(name: str) -> str:
    """The only block of YAML below this mark."""
    [found] = blocks(name)
    return found

"""The page about causes says what the table does."""

import re
from pathlib import Path

from slipway.planner.causes import RULES, START_TIMEOUT

PAGE = Path(__file__).parent.parent.parent / "docs/causes.md"


def test_the_documented_rows_are_the_tables_rows_in_its_order() -> None:
    rows = re.findall(r"^\| `(\w+)` \|.*\| (\w+)[^|]*\|$", PAGE.read_text(), re.MULTILINE)
    assert rows == [(rule.reason, rule.cause.value) for rule in (*RULES, START_TIMEOUT)]

"""Each bad input and fault that Slipway promises to survive names the test that shows it."""

import re

from tests.conftest import ROOT

BAD_INPUTS = {*range(1, 6), *range(7, 11), *range(12, 21), 38, 44}
"""B-06 and B-11 are about fields of the SDK and the command line."""
FAULTS = {*range(46, 64), 65, 66, 67}
"""B-64 is about functions and classes handed to the SDK."""


def test_every_promised_row_has_a_test() -> None:
    here = ROOT / "tests/docs"
    text = "\n".join(file.read_text() for file in (ROOT / "tests").rglob("test_*.py") if file.parent != here)
    proved = {int(number) for number in re.findall(r"\bB-(\d\d)\b", text)}
    assert (BAD_INPUTS | FAULTS) - proved == set()

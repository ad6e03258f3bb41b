"""Tests that fail by chance until their cause is mended: `@pytest.mark.quarantine("2026-11-29")`, the day it began.

Such a test runs and its failure is reported, and refuses nothing. After DAYS it counts again like any other. No more
than MOST tests may be in quarantine at once; tests/suite/test_suite.py holds that.
"""

from datetime import date, timedelta
from typing import Final

import pytest

DAYS: Final = 14
MOST: Final = 5
WORDS: Final = "in quarantine"


def holds(item: pytest.Item, today: date) -> bool:
    """Whether a failure of this test refuses nothing today."""
    mark = item.get_closest_marker("quarantine")
    if mark is None:
        return False
    began = date.fromisoformat(mark.args[0])
    return began <= today < began + timedelta(days=DAYS)


def excuse(report: pytest.TestReport) -> None:
    """Let a failure be one that was expected; pytest shows it as an x."""
    if report.failed:
        report.outcome = "skipped"
        report.wasxfail = WORDS

"""The page on performance shows the figures that are published."""

import re

from tests.bench.__main__ import PUBLISHED, SUMMARY
from tests.bench.costs import page
from tests.bench.records import load
from tests.places import ROOT


def test_the_generated_table_is_that_of_the_published_figures() -> None:
    text = (ROOT / SUMMARY).read_text()
    assert text == page(text, load(ROOT / PUBLISHED / "results.json")), "run `python -m tests.bench report --publish`"
    assert "| create 100 jobs of 8 pods | s until all exist |" in text


def test_every_target_that_was_missed_is_told_with_its_size() -> None:
    results = (ROOT / "docs/performance/results.md").read_text()
    missed = re.findall(r"^\| ([^|]+) \|.*\*\*missed\*\*", results, re.MULTILINE)
    assert len(missed) >= 1
    told = (ROOT / SUMMARY).read_text().partition("- Missed [targets]")[2]
    # The first number of `burst 100x8: all exist`, `create 2048: first pod`, `CPU of the operator, 50 to 2000 jobs …`.
    sizes = {target: f"{int(re.findall(r'[0-9]+', target)[0]):,}" for target in missed}
    assert [target for target, size in sizes.items() if re.search(rf"(?<![\d,.]){size}(?![\d,])", told) is None] == []

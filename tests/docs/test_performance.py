"""The page on performance shows the figures that are published."""

from tests.bench.__main__ import PUBLISHED, SUMMARY
from tests.bench.costs import page
from tests.bench.records import load
from tests.conftest import ROOT


def test_the_generated_table_is_that_of_the_published_figures() -> None:
    text = (ROOT / SUMMARY).read_text()
    assert text == page(text, load(ROOT / PUBLISHED / "results.json")), "run `python -m tests.bench report --publish`"
    assert "| create 100 jobs of 8 pods | s until all exist |" in text

"""The parts of the pages that follow from the planner's tables are as the tables say."""

import pytest

from docs.generate import DOCS, MARKED, PAGES, PARTS, VALUES_SCHEMA, generated, values_schema
from slipway.planner.endings import ENDINGS


@pytest.mark.parametrize("page", PAGES)
def test_the_generated_parts_are_up_to_date(page: str) -> None:
    assert (DOCS / page).read_text() == generated(page), "run `make generate`"


def test_the_generated_part_of_the_chart_s_values_is_up_to_date() -> None:
    assert VALUES_SCHEMA.read_text() == values_schema(), "run `make generate`"


def test_every_generated_part_is_on_a_page() -> None:
    found = [part[2] for page in PAGES for part in MARKED.finditer((DOCS / page).read_text())]
    assert sorted(found) == sorted(PARTS)


def test_every_ending_is_documented_once() -> None:
    page = (DOCS / "causes.md").read_text()
    assert [reason for reason in ENDINGS if page.count(f"\n| `{reason}` |") != 1] == []

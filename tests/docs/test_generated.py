"""The parts of the pages that follow from the planner's tables are as the tables say."""

import re
from itertools import pairwise

import pytest

from docs.generators.pages import DOCS, MARKED, PAGES, PARTS, VALUES_SCHEMA, generated, values_schema
from slipway.api.places import worker
from slipway.core.planner.diagnosis.evidence import Evidence
from slipway.core.planner.diagnosis.verdict import first_cause
from slipway.core.vocabulary.endings import ENDINGS
from tests.core.build import START


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


def test_of_two_ends_of_pods_in_one_second_the_higher_row_decides() -> None:
    [table] = [part[0] for part in MARKED.finditer((DOCS / "causes.md").read_text()) if part[2] == "what ends one pod"]
    rows = [ENDINGS[reason] for reason in re.findall(r"^\| `(\w+)`", table, re.MULTILINE)]
    assert len(rows) > 20
    for higher, lower in pairwise(rows):
        ends = [Evidence(ending=one, time=START, place=worker(0, 0), pod="train-0-0-0") for one in (lower, higher)]
        found = first_cause(ends)
        assert found is not None
        assert found.ending is higher

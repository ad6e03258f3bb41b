"""The page of mistakes has every mistake that the tests make, with its reason."""

import pytest

from docs.generators.mistakes import PAGE, name
from tests.controlplane.test_crd import REFUSED
from tests.controlplane.test_operator import INVALID
from tests.controlplane.test_rejections import REJECTED
from tests.controlplane.test_waiting import WAITS
from tests.e2e.test_mistakes import MISTAKES, NEVER

REASONS = (
    {mistake: row[2] for mistake, row in WAITS.items()}
    | {mistake: row[3] for mistake, row in REJECTED.items()}
    | {mistake: row[1] for mistake, row in MISTAKES.items()}
    | dict.fromkeys(NEVER, "StartFailureLimitExceeded")
    | dict.fromkeys([*REFUSED, *INVALID], "")
)


@pytest.mark.parametrize(("mistake", "reason"), REASONS.items(), ids=REASONS)
def test_a_mistake_is_on_the_page(mistake: str, reason: str) -> None:
    row = next((line for line in PAGE.read_text().splitlines() if line.startswith(f"| {name(mistake)} |")), "")
    assert row, "run `make mistakes`"
    assert f"`{reason}`" in row or not reason


def test_words_are_there_within_ten_seconds_where_one_mistake_is_made_at_a_time() -> None:
    rows = [line.split("|") for line in PAGE.read_text().splitlines() if line.endswith(" s |")]
    assert len(rows) >= 30
    alone = {row[1].strip(): float(row[-3].strip().removesuffix(" s")) for row in rows if "of 100 s" not in row[-2]}
    assert {mistake: seconds for mistake, seconds in alone.items() if seconds > 15} == {}

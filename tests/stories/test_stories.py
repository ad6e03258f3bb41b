"""Short stories, each with all that the operator writes and does beside it: one for each cause and each ending.

A story that changes is read by a person before `python -m tests.stories` writes it anew.
"""

from pathlib import Path

import pytest

from slipway.core.planner.diagnosis import causes
from slipway.core.vocabulary.endings import ENDINGS
from tests.stories.reader import tell

STORIES = sorted(Path(__file__).parent.glob("*.txt"))
TEXTS = {path.stem: path.read_text() for path in STORIES}

NOT_TOLD = {
    "Unwitnessed": "an operator takes over in the middle of the creation",
    "DefaultsChanged": "an operator takes over that does not know the profile of the attempt",
    "CapacityReleased": "an older job waits for the same nodes: one world has one job",
    "NodePoolTaken": "pods of another job are in the node pool of a slice",
    "PodsRefused": "the API server refuses some pods of an attempt",
}
"""Endings that no script of one job and one operator brings about, and what brings them about."""


@pytest.mark.parametrize("name", TEXTS)
def test_the_story_goes_as_it_is_written(name: str) -> None:
    assert tell(TEXTS[name]) == TEXTS[name]


def test_every_ending_that_a_person_can_bring_about_has_a_story() -> None:
    told = {reason for reason in ENDINGS if any(f"has ended: {reason}\n" in text for text in TEXTS.values())}
    assert set(ENDINGS) - told == set(NOT_TOLD)


@pytest.mark.parametrize("row", causes.RULES, ids=lambda row: row.ending.reason)
def test_a_story_goes_otherwise_without_its_row(row: causes.Rule, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causes, "RULES", tuple(rule for rule in causes.RULES if rule is not row))
    told = [text for text in TEXTS.values() if f"has ended: {row.ending.reason}\n" in text]
    assert any(tell(text) != text for text in told)


def test_a_command_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="'all hosts sleep' is none of: all hosts run"):
        tell("> job {slices: 1, hosts: 1}\n> all hosts sleep\n")

"""What an operator records of its decisions gives the same decisions when it is played again."""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest

from slipway.controller import engine
from slipway.core.planner.contract.actions import CreatePods, Plan
from slipway.core.planner.contract.snapshot import Snapshot
from tests.simulation.__main__ import main
from tests.simulation.replay import decisions
from tests.simulation.run import told
from tests.stories.printing import lines

RECORD = "ml_train.jsonl"


@pytest.mark.parametrize("seed", range(1, 9))
def test_a_record_gives_the_same_decisions_again(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Plan] = []

    def plan(snapshot: Snapshot, now: datetime) -> Plan:
        decision = original(snapshot, now)
        if snapshot.job.name == "train":
            made.append(decision)
        return decision

    original = engine.plan
    monkeypatch.setattr(engine, "plan", plan)
    assert told(seed, tmp_path)[0] == ""
    assert [_without_pools(again) for _, again in decisions(tmp_path / RECORD)] == list(map(_without_pools, made))


def _without_pools(decision: Plan) -> Plan:
    """The decision without the node pools that were free, which are not recorded."""
    actions = (replace(one, pools={}) if isinstance(one, CreatePods) else one for one in decision.actions)
    return replace(decision, actions=tuple(actions))


def test_a_record_is_printed_as_a_story_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    told(1, tmp_path)
    assert main(["--replay", str(tmp_path / RECORD)]) == 0
    printed = [line.split(" ", 1)[1] for line in capsys.readouterr().out.splitlines()]
    made = [line for record, plan in decisions(tmp_path / RECORD) for line in lines(record.snapshot.job.status, plan)]
    assert [line for line in printed if not line.startswith("do      read again")] == made
    assert any(line.startswith("do      dry run of 1 Pod") for line in printed)
    assert any(line.startswith("do      create ") and line.endswith(" of attempt 0") for line in printed)
    assert any(line.startswith("status  Running: ") for line in printed)

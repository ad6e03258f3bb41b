from pathlib import Path

import pytest

from tests.kubectl import Kubectl
from tests.leader_kills import MOMENTS, kill_leaders


@pytest.mark.row("B-57", "B-58")
@pytest.mark.thorough
def test_leaders_killed_during_restarts_lose_and_double_nothing_and_touch_no_healthy_job(
    kubectl: Kubectl, tmp_path: Path
) -> None:
    status = kill_leaders(kubectl, tmp_path, len(MOMENTS))
    assert [one.get("cause") for one in status["attempts"]] == [None, *("failure" for _ in MOMENTS)]

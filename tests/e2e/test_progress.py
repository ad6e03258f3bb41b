"""Progress as real containers print it, on real nodes: the kubelet's log through the API server's stream."""

from datetime import datetime
from typing import Any

import pytest

from tests.running import Jobs
from tests.waiting import START_SECONDS

pytestmark = pytest.mark.thorough

PATTERN = r"step (?P<step>\d+)/(?P<total>\d+)|saved checkpoint (?P<checkpoint>\d+)"
# Four steps a second. Attempt 0 saves step 20, works on for fifteen seconds after step 30 and fails once it is told to;
# the next one goes on from 20 to 40.
TRAIN = """
first=1; [ "$SLIPWAY_ATTEMPT" -gt 0 ] && first=21
for step in $(seq $first 40); do
  sleep 0.25
  echo "step $step/40: loss 2.7"
  [ $((step % 20)) = 0 ] && echo "saved checkpoint $step" >&2
  if [ "$SLIPWAY_ATTEMPT" = 0 ] && [ $step = 30 ]; then
    sleep 15
    until test -e /tmp/fail; do sleep 0.1; done
    exit 1
  fi
done
exit 0
"""


def seconds(since: str, until: str) -> float:
    return (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()


@pytest.fixture
def trained(real_jobs: Jobs) -> Any:
    """The status of a job that has lost work once."""
    real_jobs.apply(command=["sh", "-c", TRAIN], progress={"pattern": PATTERN})

    def shown() -> Any:
        status = real_jobs.status()
        return status.get("phase") == "Running" and status.get("progress", {}).get("step")

    real_jobs.until_true("progress while it runs", shown)
    real_jobs.kubectl("exec", "train-0-0-0", "--", "touch", "/tmp/fail")
    real_jobs.until("Succeeded")

    def over() -> bool:
        progress = real_jobs.status()["progress"]
        # They are printed to two streams.
        return (progress["step"], progress.get("checkpoint")) == (40, 40)

    real_jobs.until_true("the last step", over)
    return real_jobs.status()


def test_a_job_shows_its_steps_and_the_work_that_it_has_lost(trained: Any) -> None:
    progress = trained["progress"]
    assert (progress["attempt"], progress["step"], progress["total"], progress["checkpoint"]) == (1, 40, 40, 40)
    assert progress["firstStep"] == 21
    assert progress["rate"] == pytest.approx(19 / seconds(progress["firstTime"], progress["time"]), rel=0.01)
    lost = trained["attempts"][1]
    work = trained["ledger"]["seconds"]["lostToFailure"]["work"]
    assert work == pytest.approx(seconds(lost["checkpointTime"], lost["root"]["time"]), abs=0.01)
    # Ten steps of a quarter of a second, fifteen seconds, and until it is told to fail.
    assert 15 < work < 2 * START_SECONDS


def test_an_operator_that_takes_over_goes_on_counting(real_jobs: Jobs) -> None:
    steps = "for step in $(seq 1 160); do sleep 0.25; echo step $step/160; done"
    program = f"{steps}; until test -e /tmp/over; do sleep 0.1; done"
    real_jobs.apply(command=["sh", "-c", program], progress={"pattern": PATTERN})
    real_jobs.until_true("progress", lambda: real_jobs.status().get("progress"))
    real_jobs.operator.kill()
    before = real_jobs.status()["progress"]
    real_jobs.operator.start_again()
    real_jobs.until_true("a later step", lambda: real_jobs.status()["progress"]["step"] > before["step"])
    real_jobs.kubectl("exec", "train-0-0-0", "--", "touch", "/tmp/over")
    real_jobs.until("Succeeded")
    real_jobs.until_true("the last step", lambda: real_jobs.status()["progress"]["step"] == 160)
    after = real_jobs.status()["progress"]
    assert (after["attempt"], after["firstStep"], after["firstTime"]) == (0, before["firstStep"], before["firstTime"])
    assert after["rate"] == pytest.approx(159 / seconds(after["firstTime"], after["time"]), rel=0.01)

"""Of two jobs in a queue the one that would lose least work is preempted: checkpoints as real programs print them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from slipway.devcluster import NativeCluster
from tests.clusters import kubectl_for
from tests.kueue.queues import Queues
from tests.kueue.server import Server
from tests.running import Jobs

pytestmark = pytest.mark.thorough

CHIPS = 8
"""Of one slice."""
BOOST = "kueue.x-k8s.io/priority-boost"
SAVES_ONCE = "echo step 1; echo saved checkpoint 1; exec sleep 1000"
SAVES_AGAIN = "n=0; while true; do n=$((n + 1)); echo step $n; echo saved checkpoint $n; sleep 5; done"


@pytest.fixture
def queues(real_nodes: NativeCluster, real_jobs: Jobs, tmp_path: Path) -> Iterator[Queues]:
    """A queue with quota for both slices of the real nodes."""
    server = Server(real_nodes, kubectl_for(real_nodes, "default"), tmp_path)
    server.install()
    server.start(featureGates={"PriorityBoost": True})
    try:
        made = Queues(real_jobs, server)
        made.open(2 * CHIPS)
        yield made
    finally:
        server.stop()
        server.remove()


def test_the_job_whose_checkpoint_is_older_keeps_its_nodes(queues: Queues) -> None:
    jobs, slice_ = queues.jobs, {"accelerator": {"type": "v5p-16", "spot": True}}
    progress = {"pattern": r"step (?P<step>\d+)|saved checkpoint (?P<checkpoint>\d+)"}
    for name, script in (("young", SAVES_AGAIN), ("old", SAVES_ONCE)):
        queues.submit(name, priority="low", command=["sh", "-c", script], progress=progress, **slice_)
        jobs.until("Running", name)

    def boosts() -> list[str | None]:
        return [queues.workload(name)["metadata"].get("annotations", {}).get(BOOST) for name in ("old", "young")]

    def are_apart() -> bool:
        old, young = boosts()
        return old is not None and young is None

    jobs.until_true("a boost of the older checkpoint", are_apart)
    # Without a boost Kueue preempts the one that was admitted last.
    queues.submit("urgent", priority="high", command=["sleep", "1000"], **slice_)
    jobs.until("Queued", "young")
    jobs.until("Running", "urgent")
    assert jobs.status("old")["phase"] == "Running"

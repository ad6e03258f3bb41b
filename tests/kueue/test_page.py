"""The examples of docs/kueue.md do what the page says: its manifests and its commands, as they stand there."""

import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.kueue.page import block, blocks
from tests.kueue.queues import Queues
from tests.kueue.test_kueue import end_pods, nodes_of, of_somebody_else
from tests.typing_in import type_in
from tests.waiting import START_SECONDS

pytestmark = pytest.mark.thorough

FILES = ("queues.yaml", "train.yaml", "topology.yaml")
Type = Callable[[str], str]


@pytest.fixture
def typed(queues: Queues, tmp_path: Path) -> Iterator[Type]:
    """Types commands in a folder with the manifests of the page, with a kubeconfig of the namespace."""
    for name in FILES:
        (tmp_path / name).write_text(block(name))
    own = tmp_path / "own.kubeconfig"
    own.write_bytes(queues.kubectl.kubeconfig.read_bytes())
    kubectl = Path(queues.kubectl.program).parent
    environment = {"KUBECONFIG": str(own), "COLUMNS": "150"}
    typed = partial(type_in, folder=tmp_path, seconds=2 * START_SECONDS, programs=(kubectl,), **environment)
    typed(f"kubectl config set-context --current --namespace={queues.name}")
    yield typed
    typed("kubectl delete slicejobs --all")
    typed("kubectl delete --ignore-not-found -f queues.yaml -f topology.yaml")


def test_the_example_runs_and_a_second_job_waits_for_the_first(queues: Queues, typed: Type) -> None:
    begin, second, look, end = blocks("commands", "sh")
    shown = typed(begin)
    assert re.search(r"train +Running +Running +v5litepod-16 +2/2 +0 ", shown), shown
    assert len(queues.jobs.pods()) == 8
    typed(second)
    queues.until_reason("WaitingForQuota", "second", words="it begins when 32 more chips are free")
    shown = typed(look)
    assert re.search(r"second +Queued +WaitingForQuota ", shown), shown
    assert "it begins when 32 more chips are free" in " ".join(shown.split())
    end_pods(queues)
    queues.jobs.until("Running", "second")
    typed(end)
    queues.jobs.until_true("no Workloads", lambda: not queues.versions())


def test_with_the_topology_kueue_places_each_slice_of_the_example_in_a_node_pool(queues: Queues, typed: Type) -> None:
    [apply] = blocks("topology", "sh")
    typed("kubectl apply -f queues.yaml")
    typed(apply)
    typed("kubectl apply -f train.yaml")
    queues.jobs.until("Running")
    [asked] = queues.workload()["spec"]["podSets"]
    assert asked["topologyRequest"]["podSetSliceRequiredTopology"] == "cloud.google.com/gke-nodepool"
    [given] = queues.workload()["status"]["admission"]["podSetAssignments"]
    assert given["topologyAssignment"]
    pools = {index: {pool for (at, _), (pool, _) in nodes_of(queues).items() if at == index} for index in (0, 1)}
    assert [len(pools[index]) for index in (0, 1)] == [1, 1]
    assert pools[0] != pools[1]


def test_jobs_are_deleted_and_the_wait_ends_when_slipway_has_let_their_workloads_go(
    queues: Queues, typed: Type
) -> None:
    delete, _, _ = blocks("uninstall", "sh")
    # The operators of other namespaces of this cluster have gone, and have left Workloads.
    assert delete.count("--all-namespaces") == 2
    delete = delete.replace("--all-namespaces", f"--namespace {queues.name}")
    typed("kubectl apply -f queues.yaml -f train.yaml")
    queues.jobs.until("Running")
    typed(delete)
    assert queues.workload() is None
    # Nor does it wait where there are none.
    typed(delete)


def test_the_workload_that_slipway_left_is_let_go_by_hand(queues: Queues, typed: Type) -> None:
    _, left, by_hand = blocks("uninstall", "sh")
    typed("kubectl apply -f queues.yaml -f train.yaml")
    queues.jobs.until("Running")
    queues.jobs.operator.stop()
    typed("kubectl delete sj train")
    queues.jobs.until_true("no pods", lambda: not queues.jobs.pods())
    queues.apply("Workload", "slicejob-urgent", spec=of_somebody_else())
    queues.until_condition("QuotaReserved", "False", "urgent")
    # Other namespaces of this cluster may have such Workloads, too.
    ours = re.compile(rf"^{queues.name} +slicejob-train ", re.MULTILINE)
    assert ours.search(typed(left))
    typed(by_hand)
    queues.until_condition("Admitted", name="urgent")
    assert not ours.search(typed(left))
    typed("kubectl delete workloads.kueue.x-k8s.io slicejob-urgent")

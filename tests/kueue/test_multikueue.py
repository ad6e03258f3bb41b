"""Two clusters with a real Kueue each: a job waits in the queue of one and runs in the other."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from slipway.devcluster import NativeCluster, Pool
from tests.chart.rights import access, jobs_by_the_chart
from tests.clusters import cluster_of, create_namespace, kubectl_for
from tests.kubectl import Kubectl
from tests.kueue.page import block
from tests.kueue.queues import CHIPS, Queues
from tests.kueue.server import ACCOUNT, NAMESPACE, Server
from tests.kueue.test_kueue import end_pods, patch
from tests.waiting import START_SECONDS

pytestmark = pytest.mark.thorough

MULTIKUEUE = "kueue.x-k8s.io/multikueue"


def documented(name: str) -> Any:
    """What the page tells users to apply."""
    return yaml.safe_load(block(name))


def give(kubectl: Kubectl, name: str, account: str) -> None:
    """Give an account, with its namespace before it, a role of the page."""
    role = documented(name)
    kubectl.apply(role)
    binding = ("clusterrolebinding", account.replace(":", "-"), f"--clusterrole={role['metadata']['name']}")
    kubectl("create", *binding, f"--serviceaccount={account}")


@pytest.fixture(scope="module")
def manager() -> Iterator[NativeCluster]:
    """A control plane that runs no job itself."""
    yield from cluster_of("test-manager", [Pool(kind="simulated", type="cpu", count=1)])


@pytest.fixture(scope="module")
def manager_kueue(
    manager: NativeCluster, kueue: Server, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Server, NativeCluster]]:
    """The Kueue of that control plane, which may dispatch SliceJobs."""
    server = Server(manager, kubectl_for(manager, "default"), tmp_path_factory.mktemp("manager"))
    server.install()
    give(kubectl_for(manager, "default"), "manager", f"{NAMESPACE}:{ACCOUNT}")
    config = documented("configuration")
    # It looks for copies that nobody needs each minute, and lists Workloads for that.
    config["multiKueue"]["gcInterval"] = "1s"
    server.start(**config)
    try:
        yield server, manager
    finally:
        server.stop()


@dataclass
class Clusters:
    """The job's queues in both clusters."""

    here: Queues
    """Where the job is applied."""
    there: Queues
    """Where its copy runs."""

    def copy(self) -> Any:
        found = self.there.kubectl.get("slicejobs")["items"]
        return next((one for one in found if one["metadata"]["name"] == "train"), None)

    def until_here(self, phase: str) -> Any:
        return self.here.jobs.until(phase)

    def until_no_copy(self) -> None:
        self.there.jobs.until_true("no copy", lambda: self.copy() is None and not self.there.jobs.pods())


@pytest.fixture
def clusters(
    queues: Queues, kueue_cluster: NativeCluster, manager_kueue: tuple[Server, NativeCluster], tmp_path: Path
) -> Iterator[Clusters]:
    """A queue here whose jobs are dispatched to the one there."""
    server, cluster = manager_kueue
    kubectl = kubectl_for(cluster, queues.name)
    create_namespace(cluster, queues.name)
    queues.kubectl("create", "serviceaccount", "manager")
    give(queues.kubectl, "worker", f"{queues.name}:manager")
    kubeconfig = access(kueue_cluster, queues.name, "manager", tmp_path / "manager").read_bytes()
    data = {"kubeconfig": base64.b64encode(kubeconfig).decode()}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": queues.name}, "data": data}
    kubectl_for(cluster, NAMESPACE).apply(secret)
    folder = tmp_path / "here"
    folder.mkdir()
    for jobs in jobs_by_the_chart(cluster, kubectl, folder, seconds=START_SECONDS):
        here = Queues(jobs, server)
        source = {"kubeConfig": {"location": queues.name, "locationType": "Secret"}}
        here.apply("MultiKueueCluster", queues.name, spec={"clusterSource": source})
        here.apply("MultiKueueConfig", queues.name, spec={"clusters": [queues.name]})
        parameters = {"apiGroup": "kueue.x-k8s.io", "kind": "MultiKueueConfig", "name": queues.name}
        here.apply("AdmissionCheck", queues.name, spec={"controllerName": MULTIKUEUE, "parameters": parameters})
        here.open(CHIPS, admissionChecksStrategy={"admissionChecks": [{"name": queues.name}]})
        queues.open(CHIPS)
        yield Clusters(here, queues)
        account = f'User \\"system:serviceaccount:{queues.name}:manager'
        refused = [line for line in server.log.read_text().splitlines() if account in line]
        assert not refused, refused[-1]


def test_a_job_is_dispatched_restarts_there_and_its_end_is_seen_here(clusters: Clusters) -> None:
    here, there = clusters.here, clusters.there
    here.submit(priority="low", managedBy=MULTIKUEUE, ttlSecondsAfterFinished=3600)
    clusters.until_here("Running")
    assert not here.jobs.pods()
    assert len(there.jobs.pods()) == 4
    copy = clusters.copy()
    assert "managedBy" not in copy["spec"]
    here.jobs.until_true("its status", lambda: here.jobs.status()["attempts"] == clusters.copy()["status"]["attempts"])
    here.kubectl("label", "sj", "train", "kueue.x-k8s.io/priority-class=high", "--overwrite")
    there.jobs.until_true("the priority", lambda: there.workload()["spec"]["priority"] == 1000)
    here.until_used(CHIPS)
    there.until_used(CHIPS)
    # The attempts there are counted here, and keep the quota of both queues.
    end_pods(there, phase="Failed", only=1)
    here.jobs.until_true("one failure", lambda: here.jobs.status().get("failures") == 1)
    here.jobs.until_attempt(1)
    assert (here.used(), there.used()) == (CHIPS, CHIPS)
    end_pods(there)
    clusters.until_here("Succeeded")
    clusters.until_no_copy()
    here.until_used(0)
    there.until_used(0)
    assert (here.jobs.status()["phase"], here.jobs.status()["failures"]) == ("Succeeded", 1)


def test_requests_to_stop_and_queues_that_stop_take_the_copy_away(clusters: Clusters) -> None:
    here, there = clusters.here, clusters.there
    here.submit(managedBy=MULTIKUEUE)
    clusters.until_here("Running")
    # The queue there evicts the copy: the job waits here until one of the clusters takes it.
    patch(there, "clusterqueue", there.name, {"spec": {"stopPolicy": "HoldAndDrain"}})
    clusters.until_here("Queued")
    there.jobs.until_true("no pods", lambda: not there.jobs.pods())
    patch(there, "clusterqueue", there.name, {"spec": {"stopPolicy": "None"}})
    clusters.until_here("Running")
    # So does the queue here.
    patch(here, "clusterqueue", here.name, {"spec": {"stopPolicy": "HoldAndDrain"}})
    clusters.until_no_copy()
    clusters.until_here("Queued")
    patch(here, "clusterqueue", here.name, {"spec": {"stopPolicy": "None"}})
    clusters.until_here("Running")
    patch(here, "slicejob", "train", {"spec": {"suspend": True}})
    clusters.until_no_copy()
    clusters.until_here("Suspended")
    here.until_gone()
    patch(here, "slicejob", "train", {"spec": {"suspend": False}})
    clusters.until_here("Running")
    patch(here, "slicejob", "train", {"spec": {"cancel": True}})
    clusters.until_no_copy()
    clusters.until_here("Cancelled")
    here.until_used(0)
    there.until_used(0)

"""One cluster with a real Kueue for this folder, and queues of its own for each test."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from slipway.devcluster import NativeCluster, Pool
from tests.chart.rights import jobs_by_the_chart, never_refused, operator_access
from tests.clusters import cluster_of, create_namespace, kubectl_for, operator_of, served, until_its_last_test
from tests.kubectl import Kubectl
from tests.kueue.queues import Queues
from tests.kueue.server import Server
from tests.running import Jobs, Operator
from tests.waiting import START_SECONDS

POOLS = [
    Pool(kind="simulated", type="v5litepod-16", count=4, spot=True),
    Pool(kind="simulated", type="v5p-16", count=10, spot=True),
    Pool(kind="simulated", type="cpu", count=4),
]
"""Slices of four hosts, and of two; a host has four chips."""


@pytest.fixture(scope="session")
def kueue_cluster() -> Iterator[NativeCluster]:
    """A control plane with simulated nodes, on which Kueue is installed and not started yet."""
    yield from until_its_last_test("kueue_cluster", cluster_of("test-kueue", POOLS))


@pytest.fixture(scope="session")
def kueue(kueue_cluster: NativeCluster, tmp_path_factory: pytest.TempPathFactory) -> Generator[Server]:
    """Kueue, running."""
    server = Server(kueue_cluster, kubectl_for(kueue_cluster, "default"), tmp_path_factory.mktemp("kueue"))
    server.install()
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def kueue_operator(kueue_cluster: NativeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator of that cluster, which serves every namespace with the rights that the chart gives it."""
    folder, namespace = tmp_path_factory.mktemp("kueue-operator"), "slipway-system"
    create_namespace(kueue_cluster, namespace)
    own = operator_access(kueue_cluster, namespace, folder)
    made = operator_of(kueue_cluster, folder, kubeconfig=own, namespace=namespace, admin=kueue_cluster.kubeconfig)
    yield from until_its_last_test("kueue_operator", made)


@pytest.fixture
def queues(
    kueue: Server,
    kueue_cluster: NativeCluster,
    kueue_operator: Operator,
    namespace_of: Callable[[NativeCluster], Kubectl],
) -> Iterator[Queues]:
    """SliceJobs and queues of a test's own."""
    jobs = Jobs(namespace_of(kueue_cluster), kueue_operator.running(), START_SECONDS)
    for found in served(jobs, wait=True):
        for one in never_refused(found):
            yield Queues(one, kueue)


@pytest.fixture
def measured_queues(
    kueue: Server,
    kueue_cluster: NativeCluster,
    namespace_of: Callable[[NativeCluster], Kubectl],
    tmp_path: Path,
    unused_tcp_port: int,
) -> Iterator[Queues]:
    """With an operator that serves metrics."""
    for jobs in jobs_by_the_chart(
        kueue_cluster, namespace_of(kueue_cluster), tmp_path, metrics_port=unused_tcp_port, seconds=START_SECONDS
    ):
        yield Queues(jobs, kueue)

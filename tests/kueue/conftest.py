"""One cluster with a real Kueue for this folder, and queues of its own for each test."""

from collections.abc import Callable, Generator, Iterator
from pathlib import Path

import pytest

from slipway.local_cluster import NativeCluster, Pool
from tests.chart.rights import jobs_by_the_chart
from tests.conftest import Kubectl, cluster_of, kubectl_for, until_its_last_test
from tests.kueue.queues import Queues
from tests.kueue.server import Server

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


@pytest.fixture
def queues(
    kueue: Server, kueue_cluster: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl], tmp_path: Path
) -> Iterator[Queues]:
    """SliceJobs, an operator with the rights that the chart gives it, and queues of a test's own."""
    for jobs in jobs_by_the_chart(kueue_cluster, namespace_of(kueue_cluster), tmp_path, simulated=True):
        yield Queues(jobs, kueue)


@pytest.fixture
def measured_queues(
    kueue: Server,
    kueue_cluster: NativeCluster,
    namespace_of: Callable[[NativeCluster], Kubectl],
    tmp_path: Path,
    unused_tcp_port: int,
) -> Iterator[Queues]:
    """With an operator that serves metrics."""
    options = {"metrics_port": unused_tcp_port, "simulated": True}
    for jobs in jobs_by_the_chart(kueue_cluster, namespace_of(kueue_cluster), tmp_path, **options):
        yield Queues(jobs, kueue)

"""A cluster of real nodes with a real Ray on them, shared by all tests of this folder."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slipway.local_cluster import NativeCluster, Pool
from slipway.local_cluster.progress import Silent
from tests.conftest import Kubectl, cluster_of, jobs_of
from tests.ray.image import build_image
from tests.running import Jobs


@pytest.fixture(scope="session")
def ray_nodes() -> Iterator[NativeCluster]:
    """Two spot slices of two real hosts each and one CPU node, with Ray's image on them."""
    pools = [Pool(kind="real", type="v5p-16", count=2, spot=True), Pool(kind="real", type="cpu", count=1)]
    yield from cluster_of("test-ray", pools, [build_image(Silent())])


@pytest.fixture
def ray_jobs(
    ray_nodes: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl], tmp_path: Path
) -> Iterator[Jobs]:
    """SliceJobs on those nodes, with an operator of this test's own."""
    yield from jobs_of(namespace_of(ray_nodes), tmp_path)


@pytest.fixture
def kubectl(ray_nodes: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl]) -> Kubectl:
    """kubectl in a namespace of its own on the cluster that the folder's tests share."""
    return namespace_of(ray_nodes)

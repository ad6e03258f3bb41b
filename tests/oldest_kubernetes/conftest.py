"""The tests in this folder are those on the newest Kubernetes, on the oldest that Slipway supports."""

from collections.abc import Iterator

import pytest

from slipway.local_cluster import NativeCluster, NativeProvider, Pool
from tests.conftest import Kubectl, cluster_of, kubectl_for, until_its_last_test
from tests.oldest_kubernetes.programs import OLDEST


@pytest.fixture(scope="session")
def oldest_control_plane() -> Iterator[NativeCluster]:
    """Tier A of the oldest Kubernetes."""
    pools = [
        Pool(kind="simulated", type="v5p-16", count=2, spot=True),
        Pool(kind="simulated", type="cpu", count=2),
    ]
    cluster = cluster_of("test-old", pools, provider=NativeProvider(programs=OLDEST))
    yield from until_its_last_test("oldest_control_plane", cluster)


@pytest.fixture(scope="session")
def control_plane(oldest_control_plane: NativeCluster) -> NativeCluster:
    """Stands in for the newest."""
    return oldest_control_plane


@pytest.fixture(scope="session")
def kubectl_ro(control_plane: NativeCluster) -> Kubectl:
    """For tests that store nothing."""
    return kubectl_for(control_plane, "default")

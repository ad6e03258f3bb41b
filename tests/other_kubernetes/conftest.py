"""The tests in this folder are those on the Kubernetes that Slipway is built on, on the oldest and on the newest."""

from collections.abc import Iterator

import pytest

from slipway.devcluster import NativeCluster, NativeProvider, Pool
from tests.clusters import cluster_of, kubectl_for, operator_of, until_its_last_test
from tests.kubectl import Kubectl
from tests.other_kubernetes.programs import OTHERS
from tests.running import Operator


@pytest.fixture(scope="session", params=OTHERS)
def other_control_plane(request: pytest.FixtureRequest) -> Iterator[NativeCluster]:
    """A control plane of another version, with simulated nodes."""
    pools = [
        Pool(kind="simulated", type="v5p-16", count=2, spot=True),
        Pool(kind="simulated", type="cpu", count=2),
    ]
    cluster = cluster_of(f"test-{request.param}", pools, provider=NativeProvider(programs=OTHERS[request.param]))
    yield from until_its_last_test("other_control_plane", cluster)


@pytest.fixture(scope="session")
def other_operator(other_control_plane: NativeCluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Operator]:
    """The operator of that cluster."""
    made = operator_of(other_control_plane, tmp_path_factory.mktemp("other-operator"))
    yield from until_its_last_test("other_operator", made)


@pytest.fixture(scope="session")
def control_plane(other_control_plane: NativeCluster) -> NativeCluster:
    """Stands in for that of the other tests."""
    return other_control_plane


@pytest.fixture(scope="session")
def operator(other_operator: Operator) -> Operator:
    """Stands in for that of the other tests."""
    return other_operator


@pytest.fixture(scope="session")
def kubectl_ro(control_plane: NativeCluster) -> Kubectl:
    """For tests that store nothing."""
    return kubectl_for(control_plane, "default")

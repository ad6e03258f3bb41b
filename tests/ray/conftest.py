"""Every test of this folder runs on the nodes that have Ray's image."""

from collections.abc import Callable

import pytest

from slipway.devcluster import NativeCluster
from tests.kubectl import Kubectl


@pytest.fixture
def kubectl(real_nodes: NativeCluster, namespace_of: Callable[[NativeCluster], Kubectl]) -> Kubectl:
    """kubectl in a namespace of its own on the cluster that the folder's tests share."""
    return namespace_of(real_nodes)

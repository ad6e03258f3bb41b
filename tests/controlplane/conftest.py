"""Shared by the tests on a real API server."""

import pytest

from slipway.devcluster import NativeCluster
from tests.clusters import kubectl_for
from tests.kubectl import Kubectl


@pytest.fixture(scope="session")
def kubectl_ro(control_plane: NativeCluster) -> Kubectl:
    """For tests that store nothing."""
    return kubectl_for(control_plane, "default")

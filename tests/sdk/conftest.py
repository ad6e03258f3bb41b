"""A client of the SDK on the nodes that have Ray's image."""

import pytest

from slipway import Client
from tests.running import Jobs


@pytest.fixture
def client(ray_jobs: Jobs) -> Client:
    """The test's own namespace, with an operator that serves it."""
    return Client(namespace=ray_jobs.kubectl.namespace, kubeconfig=ray_jobs.kubectl.kubeconfig)

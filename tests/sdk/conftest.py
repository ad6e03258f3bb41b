"""A client of the SDK on the nodes that have Ray's image."""

from pathlib import Path

import pytest

from slipway import Client
from tests.running import Jobs
from tests.sdk.caller import client_of


@pytest.fixture
def client(ray_jobs: Jobs, tmp_path: Path) -> Client:
    """The test's own namespace, with an operator that serves it, as somebody who may only call."""
    return client_of(ray_jobs.kubectl, tmp_path)

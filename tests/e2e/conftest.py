import pytest

from slipway.local_cluster import NativeCluster
from tests.operator_image import IMAGE, build_image


@pytest.fixture(scope="session")
def operator_image(real_nodes: NativeCluster) -> str:
    """An image with Slipway and the user of the operator's own, on every node."""
    real_nodes.load_images([build_image()])
    return IMAGE

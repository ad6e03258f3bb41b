"""An image with Slipway in it, as the operator's own: Python, the package, and a user that is not root."""

from pathlib import Path

from slipway.local_cluster.python_image import build_python_image
from tests.conftest import ROOT

IMAGE = "slipway.local/operator:1"


def build_image() -> Path:
    """The archive of the image."""
    package = {"/usr/lib/python3/dist-packages/slipway": ROOT / "operator/slipway"}
    return build_python_image(IMAGE, [], package, user="65532:65532")

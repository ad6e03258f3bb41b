"""The image of the Ray example, with what the tests need beside it."""

from pathlib import Path

from slipway.local_cluster.progress import Progress
from slipway.local_cluster.python_image import build_python_image
from tests.conftest import ROOT

IMAGE = "slipway.local/ray:1"
EXAMPLE = ROOT / "examples/ray"
ENVIRONMENT = {
    # Tests send nothing beyond this machine.
    "RAY_USAGE_STATS_ENABLED": "0",
    # The seconds that Ray gives the process of a new client, 30 by itself: too few on a machine that is busy.
    "RAY_CLIENT_SERVER_CHECK_CHANNEL_TIMEOUT_S": "200",
}


def build_image(progress: Progress) -> Path:
    """The archive of the image."""
    requirements = [line for line in (EXAMPLE / "requirements.txt").read_text().splitlines() if line[:1] != "#"]
    files = {"/app/fan_out.py": EXAMPLE / "fan_out.py", "/other_version": ROOT / "tests/ray/other_version"}
    return build_python_image(IMAGE, requirements, files, environment=ENVIRONMENT, progress=progress)

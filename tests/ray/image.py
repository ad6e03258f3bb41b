"""The image of the Ray example, with what the tests need beside it."""

from pathlib import Path

from slipway.devcluster.images.python_image import build_python_image
from slipway.devcluster.progress import StepReporter
from tests.places import ROOT

IMAGE = "slipway.local/ray:1"
EXAMPLE = ROOT / "examples/ray"


def build_image(progress: StepReporter) -> Path:
    """The archive of the image."""
    requirements = [line for line in (EXAMPLE / "requirements.txt").read_text().splitlines() if line[:1] != "#"]
    files = {"/app/fan_out.py": EXAMPLE / "fan_out.py", "/other_version": ROOT / "tests/ray/other_version"}
    # Tests send nothing beyond this machine.
    return build_python_image(
        IMAGE, requirements, files, environment={"RAY_USAGE_STATS_ENABLED": "0"}, progress=progress
    )

"""An image like the operator's own: Python, the package with what it needs, `slipway`, a user that is not root."""

import re
import tomllib
from pathlib import Path

from slipway.devcluster.images.python_image import build_python_image
from slipway.devcluster.progress import StepReporter
from tests.places import ROOT

IMAGE = "slipway.local/operator:1"


def build_image(progress: StepReporter | None = None) -> Path:
    """The archive of the image."""
    files = {
        "/usr/lib/python3/dist-packages/slipway": ROOT / "operator/slipway",
        "/usr/local/bin/slipway": ROOT / "tests/e2e/programs/slipway",
    }
    return build_python_image(IMAGE, _requirements(), files, user="65532:65532", progress=progress)


def _requirements() -> list[str]:
    """What the package needs, in the versions that the operator's image has."""
    pins = (line.split("==") for line in (ROOT / ".ci/constraints.txt").read_text().split())
    # Distributions write their names in their own way.
    pinned = {name.replace("_", "-").lower(): version for name, version in pins}
    needed = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["dependencies"]
    names = [re.split("[<>=;]", one)[0] for one in needed]
    return [f"{name}=={pinned[name]}" for name in names]

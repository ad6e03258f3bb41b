"""The images that the example jobs name."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from slipway.demo.files import shipped
from slipway.devcluster.images.python_image import build_python_image
from slipway.devcluster.progress import StepReporter


@dataclass(frozen=True)
class Example:
    """What the image of an example is made of: `requirements.txt` and the program in a folder."""

    image: str
    """The name that the example's manifest has."""
    folder: str
    program: str
    environment: Mapping[str, str] = field(default_factory=dict)


EXAMPLES: Final = {
    "pretrain": Example("slipway.local/train:1", "train", "train.py"),
    # An example tells nobody that it runs.
    "ray": Example("slipway.local/ray:1", "ray", "fan_out.py", {"RAY_USAGE_STATS_ENABLED": "0"}),
}
"""The examples with an image of their own, by the names of their manifests."""


def manifest_of(example: str) -> Path:
    """The file with the example's SliceJob."""
    return shipped("examples") / f"{example}.yaml"


def build(example: str, progress: StepReporter) -> Path:
    """The archive of the example's image; what it is made of is cached."""
    made = EXAMPLES[example]
    folder = shipped("examples") / made.folder
    lines = (folder / "requirements.txt").read_text().splitlines()
    requirements = [line for line in lines if line and line[0] != "#"]
    files = {f"/app/{made.program}": folder / made.program}
    return build_python_image(made.image, requirements, files, environment=made.environment, progress=progress)

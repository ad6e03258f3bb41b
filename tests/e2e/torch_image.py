"""An image with torch, and a program that sums over all processes of a job.

PyPI's torch for this platform brings gigabytes of CUDA. Debian's has gloo and runs on any CPU.
"""

from pathlib import Path

from slipway.local_cluster.progress import Progress
from slipway.local_cluster.python_image import build_python_image

IMAGE = "slipway.local/torch:1"


def build_image(progress: Progress) -> Path:
    """The archive of the image."""
    files = {"/app/all_reduce.py": Path(__file__).parent / "programs/all_reduce.py"}
    return build_python_image(IMAGE, (), files, debian=["python3-torch"], progress=progress)

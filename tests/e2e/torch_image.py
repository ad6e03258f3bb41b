"""An image with torch, and a program that sums over all processes of a job.

PyPI's torch for this platform brings gigabytes of CUDA. Debian's has gloo and runs on any CPU; of what it depends on,
a sum over the network needs less than half.
"""

import re
import subprocess
import tarfile
import tempfile
from pathlib import Path
from typing import Final

from slipway.devcluster import paths
from slipway.devcluster.images import archives
from slipway.devcluster.images.archives import image_cache
from slipway.devcluster.programs import packages
from slipway.devcluster.progress import StepReporter, step

IMAGE: Final = "slipway.local/torch:1"
PROGRAM: Final = Path(__file__).parent / "programs/all_reduce.py"
_DEBIAN: Final = "python3,python3-torch"
_LAYER: Final = "torch-bookworm-2.layer"
_LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
_UNUSED: Final = re.compile(
    r"(usr/(share|include|sbin|games|libexec|src)|var|boot|home|media|mnt|opt|srv)/.+"
    r"|usr/bin/(?!(python3.*|sh|dash|env)$).+"
    r"|usr/lib/(?!x86_64-linux-gnu|python3|lib|locale/C\.utf8).+|usr/lib/libtorch-test/.*|usr/lib/python3/.*/__pycache__/.*"
    r"|usr/lib/python3/dist-packages/(sympy|mpmath|hypothesis|torch/(include|test))/.+"
    rf"|{_LIBRARIES}/(dri|mfx|perl|perl-base|gconv|libLLVM|libz3|libmfxhw64|gallium|vdpau).*"
)
"""What no process of the program opens."""


def build_image(progress: StepReporter) -> Path:
    """The archive of the image."""
    debian = torch_layer(progress)
    with paths.filling(image_cache()):
        files = archives.tar_layer(image_cache() / "torch-program.layer", {"app/all_reduce.py": PROGRAM}, {})
        image = archives.Image(IMAGE, (debian, files), ("python3", "/app/all_reduce.py"))
        path = image_cache() / f"torch-{image.digest[:12]}.tar"
        if not path.exists():
            with step(progress, f"Writing image {IMAGE}"):
                archives.write(path, [image])
    return path


def torch_layer(progress: StepReporter) -> archives.Layer:
    """A Debian with torch; made once."""
    path = image_cache() / _LAYER
    with paths.filling(image_cache()):
        if not path.exists():
            packages.ensure(packages.IMAGES, progress)
            with (
                step(progress, "Making a Debian with torch (once)"),
                tempfile.TemporaryDirectory(dir=path.parent) as folder,
            ):
                whole = Path(folder) / "debian.tar"
                subprocess.run(
                    ["mmdebstrap", "--quiet", "--variant=minbase", f"--include={_DEBIAN}", "bookworm", whole],
                    check=True,
                )
                slim(whole, path)
        return archives.Layer.of(path)


def slim(whole: Path, path: Path) -> None:
    """Write a tar again without what nobody uses."""
    new = path.with_name(f"{path.name}.new")
    with tarfile.open(whole, "r|") as source, tarfile.open(new, "w|", format=tarfile.GNU_FORMAT) as target:
        for entry in source:
            if not _UNUSED.fullmatch(entry.name.removeprefix("./").rstrip("/")) and not entry.isdev():
                target.addfile(entry, source.extractfile(entry) if entry.isreg() else None)
    new.replace(path)
